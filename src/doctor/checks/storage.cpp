// SPDX-License-Identifier: MIT
// STO: disks, file systems, data.
#include <algorithm>

#include "base/format.h"
#include "base/statistics.h"
#include "base/table.h"
#include "doctor/check.h"

namespace cheetah::doctor {
namespace {

constexpr int64_t kLeastReadAheadKb = 1024;
constexpr double kLeastMedianFile = 16e6;
constexpr int64_t kLeastNfsBytes = 1048576;
constexpr double kMostSpread = 1.05;

template <class Wrong>
Outcome each_nvme(const Facts& facts, const std::string& found, const std::string& otherwise, Wrong wrong) {
  return when_known(
      [&](const std::vector<BlockDevice>& devices) {
        std::vector<Subject> subjects;
        int told = 0;
        for (const BlockDevice& device : devices) {
          if (!device.is_nvme()) continue;
          if (device.scheduler.is_unreadable()) return without(device.scheduler);
          const std::optional<std::string> what = wrong(device);
          told += what ? 1 : 0;
          if (what && !what->empty()) subjects.push_back({device.name, *what});
        }
        if (told == 0) return not_applicable("there is no NVMe disk that tells");
        return bad_if_any(std::move(subjects), found, format("{} ({} disks)", otherwise, told));
      },
      facts.storage.devices);
}
using Wrong = std::optional<std::string>;

Outcome scheduler_is_none(const Facts& facts) {
  return each_nvme(facts, "NVMe disks have an I/O scheduler in the way",
      "NVMe disks have no scheduler in the way", [](const BlockDevice& device) -> Wrong {
        if (!device.scheduler) return std::nullopt;
        return *device.scheduler == "none" || *device.scheduler == "mq-deadline" ? "" : *device.scheduler;
      });
}

const BlockDevice* data_device(const Facts& facts) {
  return facts.storage.data.device ? facts.storage.find(*facts.storage.data.device) : nullptr;
}

Outcome read_ahead_fits(const Facts& facts) {
  const BlockDevice* device = data_device(facts);
  if (device == nullptr) return not_applicable("no data path on a local disk was named (--data PATH)");
  return when_known(
      [&](int64_t kb) {
        if (kb >= kLeastReadAheadKb) return good(format("{} reads {} KiB ahead", device->name, kb));
        return bad(format("{} reads only {} KiB ahead: streams wait for every piece", device->name, kb),
            {{device->name, format("{}", kb)}});
      },
      device->read_ahead_kb);
}

Outcome atime_is_off(const Facts& facts) {
  return when_known(
      [](const Mount& mount) {
        if (mount.has_option("noatime")) return good(format("{} does not note accesses", mount.point));
        if (mount.has_option("relatime"))
          return note(format("{} notes accesses once a day (relatime): nearly free", mount.point));
        return bad(
            format("{} writes a time stamp for every file read", mount.point), {{mount.point, "atime"}});
      },
      facts.storage.data.mount);
}

Outcome data_is_on_fast_disk(const Facts& facts) {
  const BlockDevice* device = data_device(facts);
  if (device == nullptr) return not_applicable("no data path on a local disk was named (--data PATH)");
  return when_known(
      [&](int64_t rotational) {
        return judge(rotational == 0,
            format("{} is {}", device->name, rotational == 0 ? "solid state" : "a spinning disk"));
      },
      device->rotational);
}

Outcome nvme_are_on_gpu_nodes(const Facts& facts) {
  if (facts.cpu.num_nodes_with_cpus() < 2 || facts.pci.gpus().empty())
    return not_applicable("one NUMA node, or no GPU");
  std::vector<int64_t> nodes;
  for (const PciDevice* gpu : facts.pci.gpus()) nodes.push_back(gpu->node.value_or(-1));
  return each_nvme(facts, "NVMe disks are on nodes without a GPU", "NVMe disks are on nodes with GPUs",
      [&](const BlockDevice& device) -> Wrong {
        const PciDevice* pci = facts.pci.find(device.pci);
        if (pci == nullptr || !pci->node || *pci->node < 0) return std::nullopt;
        return std::find(nodes.begin(), nodes.end(), *pci->node) == nodes.end()
                   ? format("node {}", *pci->node)
                   : "";
      });
}

Outcome raid_is_whole(const Facts& facts) {
  return when_known(
      [](const std::string& status) {
        std::vector<Subject> broken;
        bool any = false;
        std::string name;
        for (const std::string_view line : lines_of(status)) {
          if (starts_with(line, "md")) name = std::string(line.substr(0, line.find(' ')));
          const size_t open = line.rfind("[U"), other = line.rfind("[_");
          const size_t at = open == std::string_view::npos ? other : open;
          if (name.empty() || at == std::string_view::npos) continue;
          any = true;
          if (contains(line.substr(at), "_")) broken.push_back({name, std::string(trimmed(line.substr(at)))});
        }
        if (!any) return not_applicable("there is no software RAID");
        return bad_if_any(std::move(broken), "RAID arrays have lost a disk", "RAID arrays are whole");
      },
      facts.storage.md_status);
}

Outcome files_are_large(const Facts& facts) {
  return when_known(
      [](const std::vector<FileSample>& files) {
        std::vector<double> sizes;
        for (const FileSample& file : files) sizes.push_back(file.bytes);
        const double middle = median(sizes);
        const std::string found =
            format("{} files seen, of {} in the middle", files.size(), human_bytes(middle));
        return judge(middle >= kLeastMedianFile || files.size() < 64, found);
      },
      facts.storage.data.files);
}

Outcome data_is_packed(const Facts& facts) {
  return when_known(
      [](const std::vector<FileSample>& files) {
        double raw = 0, all = 0;
        for (const FileSample& file : files) {
          all += file.bytes;
          for (const char* suffix : {".json", ".jsonl", ".csv", ".txt", ".jpg", ".jpeg", ".png", ".xml"})
            if (file.name.size() > std::char_traits<char>::length(suffix) && file.name.ends_with(suffix))
              raw += file.bytes;
        }
        return judge(raw <= 0.10 * all,
            format("{:.0f} % of the bytes are text or single images, decoded again each epoch",
                all > 0 ? 100 * raw / all : 0));
      },
      facts.storage.data.files);
}

Outcome shards_are_even(const Facts& facts) {
  return when_known(
      [](const std::vector<FileSample>& files) {
        std::vector<double> sizes;
        for (const FileSample& file : files)
          for (const char* suffix : {".tar", ".bin", ".tfrecord", ".parquet", ".arrow", ".mds"})
            if (file.name.ends_with(suffix)) sizes.push_back(file.bytes);
        if (sizes.size() < 2) return not_applicable("there are no shards");
        const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
        // The last shard of a set is the rest: judge by the middle.
        return judge(*most <= kMostSpread * std::max(median(sizes), 1.0),
            format("{} shards, the largest {:.2f} times the middle one", sizes.size(),
                *most / std::max(median(sizes), 1.0)));
      },
      facts.storage.data.files);
}

Outcome cache_holds_the_data(const Facts& facts) {
  return when_known(
      [&](double refaults) {
        const double rate = refaults / std::max(facts.counters.interval_s, 1e-3) * 4096;
        return judge(rate < 50e6, format("{}/s are read again that were cached before", human_bytes(rate)));
      },
      facts.counters.delta("vmstat.workingset_refault_file"));
}

Outcome requests_are_large(const Facts& facts) {
  if (!facts.storage.devices) return without(facts.storage.devices);
  std::vector<Subject> small;
  int busy = 0;
  for (const BlockDevice& device : *facts.storage.devices) {
    const auto reads = facts.counters.delta("disk." + device.name + ".reads"),
               sectors = facts.counters.delta("disk." + device.name + ".read_sectors");
    const auto busy_ms = facts.counters.delta("disk." + device.name + ".busy_ms");
    if (!reads || !sectors || !busy_ms || *reads < 1000) continue;
    ++busy;
    const double bytes = *sectors * 512 / *reads, share = *busy_ms / (1000 * facts.counters.interval_s);
    if (bytes < 131072 && share > 0.9)
      small.push_back({device.name, format("{} a read, {:.0f} % busy", human_bytes(bytes), 100 * share)});
  }
  if (busy == 0) return not_applicable("no disk is being read");
  return bad_if_any(std::move(small), "disks are busy with small reads", "disks are read in large pieces");
}

Outcome nfs_is_tuned(const Facts& facts) {
  return when_known(
      [](const Mount& mount) {
        if (!starts_with(mount.type, "nfs"))
          return not_applicable(format("{} is {}, not NFS", mount.point, mount.type));
        std::vector<Subject> wrong;
        for (const char* name : {"rsize", "wsize"})
          if (to_integer(mount.option(name)).value_or(kLeastNfsBytes) < kLeastNfsBytes)
            wrong.push_back({name, mount.option(name)});
        if (to_integer(mount.option("nconnect")).value_or(1) < 4)
          wrong.push_back({"nconnect", mount.option("nconnect").empty() ? "1" : mount.option("nconnect")});
        return bad_if_any(std::move(wrong), format("{} is mounted with small settings", mount.point),
            "NFS moves large pieces on several connections");
      },
      facts.storage.data.mount);
}

Outcome data_is_not_on_fuse(const Facts& facts) {
  return when_known(
      [](const Mount& mount) {
        return judge(!starts_with(mount.type, "fuse"), format("{} is {}", mount.point, mount.type));
      },
      facts.storage.data.mount);
}

// The toolkit installs its configuration everywhere; only one that forbids the fallback asks for the real
// thing.
Outcome gds_is_usable(const Facts& facts) {
  std::string config = facts.storage.cufile_config.value_or("");
  std::erase(config, ' ');
  if (!facts.has_gpu() || !contains(config, "\"allow_compat_mode\":false"))
    return not_applicable("GPUDirect Storage is not asked for (cufile.json allows the fallback)");
  if (facts.host.has_module("nvidia_fs")) return good("nvidia_fs is loaded");
  if (!facts.host.modules) return without(facts.host.modules);
  return bad(
      "cuFile may not fall back, but nvidia_fs is not loaded: reads fail or bounce through host memory");
}

Outcome gds_moves_bytes(const Facts& facts) {
  return when_known(
      [](const std::string& stats) {
        for (const std::string_view line : lines_of(stats)) {
          const size_t at = line.find("n=");
          if (!starts_with(line, "Reads") || at == std::string_view::npos) continue;
          const std::string_view rest = line.substr(at + 2);
          const double reads = to_number(rest.substr(0, rest.find(' '))).value_or(0);
          return judge(reads > 0, format("{:.0f} direct reads so far", reads));
        }
        return unknown("it counts no reads");
      },
      facts.storage.gds_stats);
}

Outcome space_is_left(const Facts& facts) {
  return when_known(
      [](const Space& space) {
        const double share = space.bytes > 0 ? space.free / space.bytes : 1,
                     inodes = space.inodes > 0 ? space.inodes_free / space.inodes : 1;
        return judge(
            share >= 0.10 && inodes >= 0.05, format("{} free ({:.0f} %), {:.0f} % of the inodes",
                                                 human_bytes(space.free), 100 * share, 100 * inodes));
      },
      facts.storage.checkpoints.space);
}

Outcome queues_match_cpus(const Facts& facts) {
  if (!facts.cpu.online) return without(facts.cpu.online);
  if (facts.machine.is_virtual) return not_applicable("a virtual disk has the queues its host gives it");
  const auto cpus = static_cast<int64_t>(facts.cpu.online->size());
  return each_nvme(facts, "NVMe disks have few queues", "NVMe disks have enough queues",
      [&](const BlockDevice& device) -> Wrong {
        if (!device.queues) return std::nullopt;
        return *device.queues < std::min<int64_t>(cpus, 8) ? format("{} for {} CPUs", *device.queues, cpus)
                                                           : "";
      });
}

Outcome path_is_a_disk(const Mount& mount) {
  if (mount.type == "overlay")
    return bad(
        format("{} is an overlay file system: every open walks the layers, every first write copies the file",
            mount.point),
        {{mount.point, "overlay"}});
  if (mount.type == "tmpfs" || mount.type == "ramfs")
    return bad(format("{} lies in memory ({})", mount.point, mount.type), {{mount.point, mount.type}});
  return good(format("{} is {}", mount.point, mount.type));
}
Outcome data_is_not_overlay(const Facts& facts) {
  return when_known(path_is_a_disk, facts.storage.data.mount);
}
Outcome checkpoints_are_not_overlay(const Facts& facts) {
  return when_known(path_is_a_disk, facts.storage.checkpoints.mount);
}

Outcome checkpoints_leave_the_network(const Facts& facts) {
  return when_known(
      [](const Mount& mount) {
        return starts_with(mount.type, "nfs") || starts_with(mount.type, "cifs")
                   ? bad(format("{} is {}: all ranks write to one server", mount.point, mount.type))
                   : good(format("{} is {}", mount.point, mount.type));
      },
      facts.storage.checkpoints.mount);
}

constexpr Check kChecks[] = {
    {"STO-01", Layer::kStorage, Level::kWarn, 0.04, "No scheduler in front of NVMe",
        "bfq and kyber order requests for slow disks; an NVMe disk orders them better itself.",
        "up to half the IOPS, and CPU time", FixKind::kCommand, "set the scheduler of NVMe disks to none", "",
        "F12", scheduler_is_none},
    {"STO-02", Layer::kStorage, Level::kWarn, 0.05, "Streams are read ahead",
        "With 128 KiB of read-ahead a sequential reader waits for the disk after every piece.",
        "a fraction of the disk's sequential rate", FixKind::kCommand, "set read_ahead_kb to 4096", "",
        "F12,I02", read_ahead_fits},
    {"STO-03", Layer::kStorage, Level::kWarn, 0.02, "Reading does not write",
        "Access times turn each read of a file into a write.", "small, unless files are many",
        FixKind::kCommand, "mount it with noatime", "", "F12,I02", atime_is_off},
    {"STO-04", Layer::kStorage, Level::kWarn, 0.25, "Data lies on solid state",
        "A spinning disk gives 150 MB/s and 100 random reads per second.", "GPUs starve", FixKind::kAdvice,
        "copy the data to local NVMe, or a parallel file system", "", "H04", data_is_on_fast_disk},
    {"STO-21", Layer::kStorage, Level::kInfo, 0.02, "NVMe disks sit next to GPUs",
        "Data from the other socket crosses the link between the sockets.", "bandwidth of direct reads",
        FixKind::kAdvice, "read with processes on the disk's node, or move the disk", "", "F05",
        nvme_are_on_gpu_nodes},
    {"STO-06", Layer::kStorage, Level::kFail, 0.10, "RAID arrays are whole",
        "A degraded array rebuilds, reads slowly, and loses data at the next failure.", "half the throughput",
        FixKind::kAdvice, "replace the failed disk of {it}", "", "J10", raid_is_whole},
    {"STO-07", Layer::kStorage, Level::kWarn, 0.15, "Data comes in large files",
        "Small files cost an open, a stat and a seek each; metadata servers give thousands per second.",
        "loaders at a few MB/s", FixKind::kSetting,
        "pack samples into shards of 64 MB to 1 GB (tar, arrow, mds)", "", "H06", files_are_large},
    {"STO-08", Layer::kStorage, Level::kWarn, 0.05, "Data is packed for reading",
        "Text and single images are parsed and decoded again every epoch.", "CPU time of the loaders",
        FixKind::kSetting, "tokenize or decode once, store binary records", "", "I01", data_is_packed},
    {"STO-09", Layer::kStorage, Level::kWarn, 0.05, "Shards are even",
        "The rank with the largest shard finishes last; the others wait.", "the excess of the largest shard",
        FixKind::kSetting, "write shards of equal size, more of them than workers", "", "I09,H05",
        shards_are_even},
    {"STO-10", Layer::kStorage, Level::kWarn, 0.08, "The page cache holds the data",
        "Pages that are dropped and read again mean the set is larger than memory.",
        "disk speed instead of memory speed", FixKind::kAdvice,
        "read with O_DIRECT, or shard so that each node's part fits", "", "I05,H07", cache_holds_the_data},
    {"STO-11", Layer::kStorage, Level::kWarn, 0.15, "Disks are read in large pieces",
        "A disk that is busy with small reads delivers a fraction of its rate.", "IOPS-bound loading",
        FixKind::kSetting, "read 1 MiB or more at a time, with several requests in flight", "", "J09",
        requests_are_large},
    {"STO-12", Layer::kStorage, Level::kWarn, 0.10, "NFS is mounted for throughput",
        "Small requests on one connection leave a fast network idle.", "several times slower reads",
        FixKind::kCommand,
        "mount it anew with rsize=1048576,wsize=1048576,nconnect=8: a remount changes none of these", "",
        "H07", nfs_is_tuned},
    {"STO-22", Layer::kStorage, Level::kWarn, 0.10, "Data does not come through FUSE",
        "Each request of a FUSE file system passes through a user process twice.",
        "CPU time and latency; no GPUDirect", FixKind::kAdvice,
        "use the kernel client, or cache on local NVMe", "", "H04", data_is_not_on_fuse},
    {"STO-14", Layer::kStorage, Level::kWarn, 0.05, "GPUDirect Storage is usable",
        "Without the module cuFile copies through host memory in silence.", "an extra copy and CPU time",
        FixKind::kCommand, "load nvidia-fs", "", "H04", gds_is_usable},
    {"STO-15", Layer::kStorage, Level::kWarn, 0.05, "GPUDirect Storage is used",
        "A module without reads means compatibility mode.", "an extra copy and CPU time", FixKind::kSetting,
        "set allow_compat_mode to false in /etc/cufile.json and read the error", "", "H04", gds_moves_bytes},
    {"STO-17", Layer::kStorage, Level::kFail, 0.10, "There is space for checkpoints",
        "A checkpoint that does not fit ends the run, and a full file system slows down before.",
        "a lost run", FixKind::kAdvice, "delete old checkpoints, or choose another disk", "", "H11",
        space_is_left},
    {"STO-18", Layer::kStorage, Level::kWarn, 0.03, "NVMe disks have enough queues",
        "CPUs that share a queue contend for it.", "IOPS under parallel load", FixKind::kAdvice,
        "check the nvme module's parameters and the number of MSI-X vectors of {it}", "", "F12",
        queues_match_cpus},
    {"CTR-08", Layer::kContainer, Level::kFail, 0.15, "Data is not in the container's layers",
        "An overlay searches every layer for a file and copies it at the first write.",
        "slow opens, double writes", FixKind::kSetting, "bind-mount the data (-v /data:/data)", "", "H04",
        data_is_not_overlay},
    {"CTR-23", Layer::kContainer, Level::kFail, 0.15, "Checkpoints are not in the container's layers",
        "They fill the node's image disk and vanish with the container.", "lost checkpoints, slow writes",
        FixKind::kSetting, "bind-mount or claim a volume for checkpoints", "", "H11",
        checkpoints_are_not_overlay},
    {"STO-23", Layer::kStorage, Level::kInfo, 0.05, "Checkpoints go to a local disk first",
        "All ranks writing to one network server wait for its disks.",
        "training stalls for the length of a checkpoint", FixKind::kSetting,
        "write to local NVMe and copy in the background", "", "H11", checkpoints_leave_the_network},
};

}  // namespace

std::span<const Check> storage_checks() { return kChecks; }

}  // namespace cheetah::doctor
