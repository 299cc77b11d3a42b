// SPDX-License-Identifier: MIT
#include "doctor/diff.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/format.h"
#include "base/table.h"

namespace cheetah::doctor {
namespace {

template <class T>
std::string known(const Value<T>& value) {
  if (!value) return "-";
  return format("{}", *value);
}

std::string gpus_text(const Facts& facts) {
  if (facts.gpu.count() == 0) return "-";
  std::set<std::string> kinds;
  for (const Gpu& gpu : *facts.gpu.gpus) kinds.insert(gpu.name() + " " + gpu.text("vbios").value_or(""));
  std::string text = format("{} x ", facts.gpu.count());
  for (const std::string& kind : kinds) text += kind + (kind == *kinds.rbegin() ? "" : " + ");
  return text;
}

std::string adapters_text(const Facts& facts) {
  std::set<std::string> kinds;
  for (const RdmaPort& port : facts.network.rdma.value_or({}))
    kinds.insert(port.rate.value_or("?") + " fw " + port.firmware);
  std::string text = kinds.empty() ? "-" : format("{} x ", facts.network.rdma->size());
  for (const std::string& kind : kinds) text += kind + (kind == *kinds.rbegin() ? "" : " + ");
  return text;
}

std::string mtus_text(const Facts& facts) {
  std::set<int64_t> mtus;
  for (const Nic* nic : facts.network.fast_nics()) mtus.insert(nic->mtu.value_or(0));
  std::string text = mtus.empty() ? "-" : "";
  for (const int64_t mtu : mtus) text += format("{}{}", text.empty() ? "" : " ", mtu);
  return text;
}

std::string governor_text(const Facts& facts) {
  std::set<std::string> governors;
  for (const CpuCore& core : facts.cpu.cores)
    if (core.governor) governors.insert(*core.governor);
  std::string text = governors.empty() ? "-" : "";
  for (const std::string& governor : governors) text += (text.empty() ? "" : " ") + governor;
  return text;
}

// The distinct texts of many things, each with its number: "8 x 700 W"; "-" when there are none.
class Tally {
 public:
  void add(const std::string& text) { ++counts_[text]; }
  std::string text() const {
    std::string all;
    for (const auto& [text, count] : counts_)
      all += format("{}{} x {}", all.empty() ? "" : ", ", count, text);
    return all.empty() ? "-" : all;
  }

 private:
  std::map<std::string, int> counts_;
};

std::string of_gpus(const Facts& facts, std::initializer_list<const char*> names) {
  Tally tally;
  for (const Gpu& gpu : facts.gpu.gpus.value_or({})) {
    std::string text;
    for (const char* name : names) text += (text.empty() ? "" : "/") + gpu.text(name).value_or("-");
    tally.add(text);
  }
  return tally.text();
}

std::string ports_text(const Facts& facts) {
  Tally tally;
  for (const RdmaPort& port : facts.network.rdma.value_or({}))
    tally.add(format("{} {} {} {}", port.link_layer.value_or("?"), port.rate.value_or("?"),
        port.state.value_or("?"), port.physical_state.value_or("?")));
  return tally.text();
}

std::string schedulers_text(const Facts& facts) {
  Tally tally;
  for (const BlockDevice& device : facts.storage.devices.value_or({}))
    if (device.is_nvme())
      tally.add(format("{}, {} KiB ahead", known(device.scheduler), known(device.read_ahead_kb)));
  return tally.text();
}

std::string links_text(const Facts& facts) {
  Tally tally;
  for (const PciDevice& device : facts.pci.devices.value_or({}))
    if (device.is_gpu() || device.is_network() || device.is_nvme())
      tally.add(format("{} {} x{} of x{}", device.driver.empty() ? "no driver" : device.driver,
          known(device.max_speed), known(device.width), known(device.max_width)));
  return tally.text();
}

std::string list_text(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return text.empty() ? "-" : text;
}

std::string numbers_text(const Value<std::vector<int64_t>>& numbers) {
  std::string text;
  for (const int64_t number : numbers.value_or({})) text += format("{}{}", text.empty() ? "" : " ", number);
  return text.empty() ? "-" : text;
}

bool is_one_of(std::string_view word, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return word == name; });
}

// Without what is each host's own: the ids of its disks, its addresses and its name.
std::string common_command_line(const std::string& line) {
  std::string text;
  for (const std::string_view word : words_of(line)) {
    const std::string_view name = word.substr(0, word.find('='));
    std::string shown(word);
    if (is_one_of(name,
            {"root", "resume", "BOOT_IMAGE", "BOOTIF", "ip", "hostname", "systemd.hostname", "rd.luks.uuid",
                "rd.lvm.lv", "rd.md.uuid", "nfsroot", "systemd.machine_id", "ifname", "ds"}))
      shown = std::string(name) + "=…";
    text += (text.empty() ? "" : " ") + shown;
  }
  return text.empty() ? "-" : text;
}

void add_mounts(const Facts& facts, std::vector<std::pair<std::string, std::string>>& list) {
  for (const Mount& mount : facts.storage.mounts.value_or({})) {
    const bool counts = starts_with(mount.type, "nfs") ||
                        is_one_of(mount.type, {"ext4", "xfs", "btrfs", "lustre", "zfs", "beegfs", "gpfs",
                                                  "wekafs", "ceph", "f2fs"});
    // Below these lie the folders of single pods and containers.
    if (!counts || starts_with(mount.point, "/var/lib/") || starts_with(mount.point, "/run/")) continue;
    std::vector<std::string> options;
    for (const std::string_view option : split(mount.options, ',')) options.emplace_back(option);
    list.emplace_back("mount " + mount.point, mount.type + " " + list_text(std::move(options)));
  }
}

void add_limits(const Facts& facts, std::vector<std::pair<std::string, std::string>>& list) {
  for (const auto& [name, value] : facts.process().limits.value_or({}))
    list.emplace_back("limit " + name, value);
}

bool is_of_one_rank(std::string_view name) {
  return is_one_of(name, {"RANK", "LOCAL_RANK", "NCCL_HOSTID", "SLURM_NTASKS"}) || starts_with(name, "RANK_");
}

}  // namespace

std::vector<std::pair<std::string, std::string>> inventory(const Facts& facts) {
  std::vector<std::pair<std::string, std::string>> list = {
      {"kernel", known(facts.host.kernel)},
      {"system", known(facts.host.os_name)},
      {"BIOS", known(facts.host.bios_version)},
      {"kernel command line", common_command_line(facts.host.command_line.value_or(""))},
      {"machine", known(facts.host.vendor) + " " + known(facts.host.product)},
      {"clock source", known(facts.host.clocksource)},
      {"hardware threads", known(facts.cpu.smt_active)},
      {"boost", known(facts.cpu.boost)},
      {"isolated CPUs", facts.cpu.isolated ? to_list(*facts.cpu.isolated) : "-"},
      {"modules", list_text(facts.host.modules.value_or({}))},
      {"CPUs", facts.cpu.online ? format("{}", facts.cpu.online->size()) : "-"},
      {"NUMA nodes", format("{}", facts.cpu.num_nodes())},
      {"memory", facts.memory.bytes("MemTotal") ? human_bytes(*facts.memory.bytes("MemTotal")) : "-"},
      {"GPUs", gpus_text(facts)},
      {"driver", known(facts.gpu.driver)},
      {"kernel module", known(facts.gpu.module_version)},
      {"kernel module kind", known(facts.gpu.module_license)},
      {"GPU power limit", of_gpus(facts, {"power.limit"})},
      {"GPU ECC now/next", of_gpus(facts, {"ecc.current", "ecc.pending"})},
      {"GPU persistence", of_gpus(facts, {"persistence"})},
      {"GPU MIG now/next", of_gpus(facts, {"mig.current", "mig.pending"})},
      {"GPU clock at most", of_gpus(facts, {"clock.sm.max"})},
      {"GPU memory", of_gpus(facts, {"memory.total"})},
      {"GPU PCIe generation/width", of_gpus(facts, {"pcie.gen.max", "pcie.width"})},
      {"NVLinks up/there", of_gpus(facts, {"nvlink.up", "nvlink.present"})},
      {"GPU compute mode", of_gpus(facts, {"compute_mode"})},
      {"PCIe links", links_text(facts)},
      {"CUDA toolkit", known(facts.software.cuda_version)},
      {"NCCL", known(facts.gpu.library_version("libnccl.so."))},
      {"RDMA adapters", adapters_text(facts)},
      {"RDMA ports", ports_text(facts)},
      {"MTU of fast adapters", mtus_text(facts)},
      {"TCP receive window", numbers_text(facts.network.tcp_rmem)},
      {"TCP send window", numbers_text(facts.network.tcp_wmem)},
      {"local ports", numbers_text(facts.network.port_range)},
      {"listen queue", known(facts.network.somaxconn)},
      {"NVMe queues", schedulers_text(facts)},
      {"huge page defragmentation", known(facts.memory.thp_defrag)},
      {"overcommit", known(facts.memory.overcommit)},
      {"zone reclaim", known(facts.memory.zone_reclaim)},
      {"dirty ratio", known(facts.memory.dirty_ratio)},
      {"page merging", known(facts.memory.ksm)},
      {"swap areas", facts.memory.swaps ? format("{}", facts.memory.swaps->size()) : "-"},
      {"governor", governor_text(facts)},
      {"huge pages", known(facts.memory.thp_enabled)},
      {"swappiness", known(facts.memory.swappiness)},
      {"NUMA balancing", known(facts.memory.numa_balancing)},
      {"cgroup", known(facts.container.cgroup_version)},
      {"TCP congestion control", known(facts.network.congestion_control)},
  };
  add_limits(facts, list);
  add_mounts(facts, list);
  for (const auto& [name, value] : facts.software.environment.value_or({}))
    if (!is_of_one_rank(name)) list.emplace_back("variable " + name, value);
  return list;
}

std::vector<Difference> differences(const std::vector<HostFactsOf>& hosts) {
  std::vector<std::string> keys;
  std::vector<std::map<std::string, std::string>> all;
  for (const HostFactsOf& host : hosts) {
    auto& values = all.emplace_back();
    for (const auto& [key, value] : inventory(host.facts)) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
      values[key] = value;
    }
  }
  std::vector<Difference> found;
  for (const std::string& key : keys) {
    Difference difference{key, {}, true};
    std::set<std::string> distinct;
    for (const auto& values : all) {
      const auto at = values.find(key);
      difference.values.push_back(at == values.end() ? "-" : at->second);
      distinct.insert(difference.values.back());
    }
    difference.matters = !distinct.contains("-");
    if (distinct.size() > 1) found.push_back(std::move(difference));
  }
  std::stable_sort(found.begin(), found.end(),
      [](const Difference& a, const Difference& b) { return a.matters > b.matters; });
  return found;
}

// Each value in full, with the hosts that have it: long ones differ at their ends.
std::string difference_table(const std::vector<HostFactsOf>& hosts, const std::vector<Difference>& found) {
  if (found.empty()) return format("{} hosts agree on all that was compared\n", hosts.size());
  std::string text;
  for (const Difference& difference : found) {
    std::map<std::string, std::string> holders;
    std::vector<std::string> order;
    for (size_t i = 0; i < hosts.size() && i < difference.values.size(); ++i) {
      std::string& names = holders[difference.values[i]];
      if (names.empty()) order.push_back(difference.values[i]);
      names += (names.empty() ? "" : ", ") + hosts[i].name;
    }
    text += format(
        "{}{}\n", printable(difference.key, 200), difference.matters ? "" : "  (not known everywhere)");
    for (const std::string& value : order)
      text += format("  {}: {}\n", printable(holders[value], 400), printable(value, 4000));
  }
  return text;
}

}  // namespace cheetah::doctor
