// SPDX-License-Identifier: MIT
// CTR: limits of the container or control group, the kubelet, SLURM.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/format.h"
#include "base/table.h"
#include "doctor/check.h"

namespace cheetah::doctor {
namespace {

constexpr double kLeastShm = 8.0 * 1073741824;
constexpr double kLeastStack = 64.0 * 1048576;
constexpr double kMostThrottled = 0.01;  // of the periods
constexpr double kMostPeak = 0.90;

bool may_lock_anyway(const Facts& facts) {
  const auto bits = to_integer("0x" + facts.container.capabilities.value_or("0"));
  constexpr int64_t kIpcLock = int64_t{1} << 14;
  return bits && (*bits & kIpcLock) != 0;
}

std::string limit_text(double bytes) { return std::isinf(bytes) ? "no limit" : human_bytes(bytes); }

// What RDMA registers counts against the limit, unless the process may lock as it likes; what CUDA pins does not.
bool needs_locked_memory(const Facts& facts) {
  return facts.network.has_rdma() && (facts.intent.multi_node || !facts.machine.is_container);
}

Outcome memory_may_be_locked(const Facts& facts) {
  if (facts.job) return not_applicable("the job's own limit is what counts (JOB-02)");
  return when_known(
      [&](double bytes) {
        const std::string found =
            format("{} may be locked", std::isinf(bytes) ? "all memory" : human_bytes(bytes));
        if (std::isinf(bytes)) return good(found);
        if (!needs_locked_memory(facts)) return note(found + "; without RDMA little needs more");
        if (facts.machine.is_container && may_lock_anyway(facts))
          return good(found + ", and IPC_LOCK lifts the limit");
        return bad(found + ": RDMA registration fails beyond it", {{"memlock", human_bytes(bytes)}});
      },
      facts.self.limit("Max locked memory"));
}

Outcome stack_suffices(const Facts& facts) {
  if (!facts.container.runtime) return not_applicable("this is a host, not a container");
  if (!facts.has_gpu()) return not_applicable("there is no GPU");
  return when_known(
      [](double bytes) {
        if (bytes >= kLeastStack) return good(format("stacks of {}", limit_text(bytes)));
        return bad(format("stacks of {}; frameworks ask for 64 MiB", limit_text(bytes)),
            {{"stack", limit_text(bytes)}});
      },
      facts.process().limit("Max stack size"));
}

Outcome files_suffice(const Facts& facts) {
  return when_known(
      [&](double files) {
        const double least = facts.serves() ? 4096 : 16384;
        if (files >= 65536)
          return good(format("{} files may be open", std::isinf(files) ? "any number of" : shown(files)));
        // A shell's soft limit is 1024 everywhere; servers raise their own to the hard one.
        const double hard = facts.process().limit("Hard Max open files").value_or(0);
        if (!facts.job && !facts.machine.is_container && hard >= 65536)
          return note(format("{:.0f} files may be open, and {} after setrlimit", files,
              std::isinf(hard) ? "any number" : shown(hard)));
        if (files >= least || !facts.has_gpu())
          return note(format("{:.0f} files may be open; a server of many streams wants 65536", files));
        return bad(format("only {:.0f} files may be open", files), {{"nofile", shown(files)}});
      },
      facts.process().limit("Max open files"));
}

Outcome processes_suffice(const Facts& facts) {
  return when_known(
      [](double most) {
        return most >= 4096
                   ? good(format("{} threads may run", std::isinf(most) ? "any number of" : shown(most)))
                   : bad(format("only {:.0f} threads may run", most), {{"nproc", shown(most)}});
      },
      facts.process().limit("Max processes"));
}

Outcome shared_memory_suffices(const Facts& facts) {
  if (!facts.has_gpu() && !facts.container.runtime) return not_applicable("no GPU and no container");
  return when_known(
      [&](double bytes) {
        const double least = std::max(kLeastShm, 1073741824.0 * facts.gpu.count());
        if (bytes >= least) return good(format("/dev/shm holds {}", human_bytes(bytes)));
        if (!facts.has_gpu()) return note(format("/dev/shm holds {}", human_bytes(bytes)));
        return bad(format("/dev/shm holds {} only: loaders and NCCL share memory there", human_bytes(bytes)),
            {{"/dev/shm", human_bytes(bytes)}});
      },
      facts.container.shm_bytes);
}

// One libcuda of the module's version suffices: the toolkit mounts it in front of what an image ships.
Outcome driver_library_is_the_hosts(const Facts& facts) {
  if (!facts.container.runtime) return not_applicable("this is a host, not a container");
  return when_known(
      [](const std::string& module, const std::vector<std::string>& libraries) {
        std::vector<Subject> others;
        for (const std::string& path : libraries) {
          const std::string name = path.substr(path.rfind('/') + 1);
          if (!starts_with(name, "libcuda.so.") || name == "libcuda.so.1" || contains(path, "/compat/"))
            continue;
          if (name == "libcuda.so." + module)
            return good(format("libcuda is the kernel module's, {}", module));
          others.push_back({path, ""});
        }
        if (others.empty()) return unknown("no libcuda tells its version");
        return bad_if_any(std::move(others), format("the kernel module is {}, libcuda another", module), "");
      },
      facts.gpu.module_version, facts.gpu.libraries);
}

// The nodes of the GPUs that are ours, or the job's; a group for GPUs of all nodes needs all nodes.
std::set<int64_t> nodes_of_gpus(const Facts& facts) {
  std::set<int64_t> all, used;
  const int64_t job = to_integer(facts.intent.pid).value_or(0);
  for (const Gpu& gpu : facts.gpu.gpus.value_or({})) {
    const PciDevice* device = facts.pci.find(gpu.address());
    if (device == nullptr) continue;
    all.insert(device->node.value_or(-1));
    for (const GpuProcess& process : gpu.processes())
      if (process.pid == job) used.insert(device->node.value_or(-1));
  }
  return facts.job && !used.empty() ? used : all;
}

bool is_bound_to(const Facts& facts, int64_t node) {
  const auto& cpus = facts.process().cpus;
  return facts.job && cpus && is_subset(*cpus, facts.cpu.cpus_of(static_cast<int>(node)));
}

Outcome cpuset_is_one_node(const Facts& facts) {
  if (facts.cpu.num_nodes_with_cpus() < 2) return not_applicable("there is one NUMA node");
  if (!facts.container.runtime && !facts.container.is_the_jobs)
    return not_applicable("no container and no job: the whole machine is ours");
  return when_known(
      [&](const std::vector<int>& nodes) {
        const auto with_cpus = std::count_if(
            nodes.begin(), nodes.end(), [&](int node) { return !facts.cpu.cpus_of(node).empty(); });
        if (with_cpus <= 1)
          return good(nodes.empty() ? "the group takes its parent's nodes"
                                    : format("memory comes from node {}", to_list(nodes)));
        const std::set<int64_t> gpu_nodes = nodes_of_gpus(facts);
        if (gpu_nodes.size() != 1 || gpu_nodes.contains(-1))
          return note(format("memory may come from nodes {}, as the GPUs do", to_list(nodes)));
        if (is_bound_to(facts, *gpu_nodes.begin()))
          return good(format("the job binds itself to node {}", *gpu_nodes.begin()));
        return bad(format(
            "memory may come from nodes {}, the GPUs are on node {}", to_list(nodes), *gpu_nodes.begin()));
      },
      facts.container.nodes);
}

Outcome cpu_quota_does_not_bite(const Facts& facts) {
  return when_known(
      [](const Fields& stat) {
        if (stat.empty()) return unknown("cpu.stat is empty");
        const double periods = number_in(stat, "nr_periods").value_or(0),
                     throttled = number_in(stat, "nr_throttled").value_or(0);
        if (periods < 10) return good("no CPU quota is in force");
        const double share = throttled / periods;
        Outcome outcome = judge(share < kMostThrottled,
            format("the CPU quota stopped the group in {:.1f} % of {:.0f} periods", 100 * share, periods));
        if (outcome.verdict != Verdict::kBad) return outcome;
        return with_level(
            with_risk(std::move(outcome), 0.9 * share), share < 0.05 ? Level::kWarn : Level::kFail);
      },
      facts.container.cpu_stat);
}

Outcome quota_covers_threads(const Facts& facts) {
  return when_known(
      [&](const std::string& max, const std::vector<int>& cpus) {
        const auto words = words_of(max);
        if (words.empty() || words[0] == "max") return good("no CPU quota");
        const double quota = to_number(words[0]).value_or(0),
                     period = words.size() > 1 ? to_number(words[1]).value_or(100000) : 100000;
        const double cores = quota / std::max(period, 1.0);
        const auto threads = to_number(facts.software.variable("OMP_NUM_THREADS").value_or(""));
        if (threads && *threads >= 1 && *threads <= cores)
          return good(format("a quota of {:.1f} CPUs, and pools of {:.0f} threads", cores, *threads));
        return judge(cores >= 0.9 * static_cast<double>(cpus.size()),
            format("a quota of {:.1f} CPUs, with {} to choose from: pools sized by the machine are "
                   "stopped in turns",
                cores, cpus.size()));
      },
      facts.container.cpu_max, facts.process().cpus);
}

Outcome memory_limit_has_room(const Facts& facts) {
  return when_known(
      [&](double max, double peak) {
        const double kills = facts.container.memory_events
                                 ? number_in(*facts.container.memory_events, "oom_kill").value_or(0)
                                 : 0;
        if (kills > 0) return bad(format("{:.0f} processes of the group were killed for memory", kills));
        if (std::isinf(max)) return good("no memory limit");
        return judge(peak <= kMostPeak * max,
            format("at most {} of {} were used", human_bytes(peak), human_bytes(max)));
      },
      facts.container.memory_max,
      facts.container.memory_peak ? facts.container.memory_peak : facts.container.memory_current);
}

Outcome group_does_not_swap(const Facts& facts) {
  return when_known(
      [&](double max, double current) {
        if (current > 0)
          return bad(format("{} of the group are swapped out", human_bytes(current)),
              {{facts.container.cgroup, limit_text(max)}});
        return good(max == 0 ? "the group may not swap" : "the group has not swapped");
      },
      facts.container.swap_max, facts.container.swap_current);
}

Outcome io_is_not_limited(const Facts& facts) {
  return when_known(
      [](const std::string& max) {
        for (const char* name : {"rbps=", "wbps=", "riops=", "wiops="}) {
          const size_t at = max.find(name);
          if (at != std::string::npos &&
              !starts_with(std::string_view(max).substr(at + std::char_traits<char>::length(name)), "max"))
            return bad("the group's disk rate is limited: " + std::string(trimmed(max)));
        }
        return good("no disk limit");
      },
      facts.container.io_max);
}

Outcome container_is_not_privileged(const Facts& facts) {
  if (!facts.container.runtime) return not_applicable("this is a host, not a container");
  return when_known(
      [](const std::string& capabilities) {
        const auto bits = to_integer("0x" + capabilities);
        if (!bits) return unknown("the capabilities were not understood");
        constexpr int64_t kSysAdmin = int64_t{1} << 21;
        return (*bits & kSysAdmin) != 0
                   ? bad("the container has SYS_ADMIN, as with --privileged: nothing of ours needs it")
                   : good("the container has ordinary capabilities");
      },
      facts.container.capabilities);
}

// Either suffices: the right to lock, or a limit that is none (the kernel looks at both).
Outcome container_may_lock(const Facts& facts) {
  if (!facts.container.runtime || !facts.network.has_rdma())
    return not_applicable("no container, or no RDMA");
  if (!facts.container.capabilities) return without(facts.container.capabilities);
  const auto limit = facts.process().limit("Max locked memory");
  if (may_lock_anyway(facts)) return good("IPC_LOCK is granted");
  if (limit && std::isinf(*limit)) return good("all memory may be locked without IPC_LOCK");
  if (!facts.intent.multi_node)
    return note("neither IPC_LOCK nor an unlimited memlock; one machine needs none");
  return bad("neither IPC_LOCK nor an unlimited memlock: memory cannot be registered for RDMA");
}

Outcome kubelet_setting(
    const Facts& facts, const char* name, const char* fallback, bool (*is_good)(std::string_view)) {
  return when_known(
      [&](const Document& config) {
        const std::string value = config.at(name).string_or(fallback);
        return judge(is_good(value), format("{} is '{}'", name, value));
      },
      facts.container.kubelet);
}
Outcome topology_is_managed(const Facts& facts) {
  return kubelet_setting(
      facts, "topologyManagerPolicy", "none", [](std::string_view value) { return value != "none"; });
}
Outcome cpus_are_exclusive(const Facts& facts) {
  return kubelet_setting(
      facts, "cpuManagerPolicy", "none", [](std::string_view value) { return value == "static"; });
}
Outcome memory_is_managed(const Facts& facts) {
  return kubelet_setting(
      facts, "memoryManagerPolicy", "None", [](std::string_view value) { return value == "Static"; });
}

Outcome slurm_knows_the_topology(const Facts& facts) {
  return when_known(
      [](const std::string& gres) {
        std::vector<Subject> bare;
        for (const std::string_view line : lines_of(gres))
          if (contains(line, "Name=gpu") && !contains(line, "AutoDetect=nvml") && !contains(line, "Cores="))
            bare.push_back({std::string(trimmed(line)), ""});
        if (contains(gres, "AutoDetect=nvml")) return good("SLURM reads the topology from NVML");
        return bad_if_any(
            std::move(bare), "GPUs are listed without their cores", "GPUs are listed with their cores");
      },
      facts.container.gres);
}

Outcome slurm_binds_tasks(const Facts& facts) {
  return when_known(
      [](const Fields& config) {
        const auto plugin = config.find("TaskPlugin");
        const std::string value = plugin == config.end() ? "none" : plugin->second;
        return judge(
            contains(value, "cgroup") && contains(value, "affinity"), format("TaskPlugin is '{}'", value));
      },
      facts.container.slurm);
}

Outcome inspected_limits(const Facts& facts) {
  return when_known(
      [](const Document& inspect) {
        const Document& first = inspect.is_list() && !inspect.items.empty() ? inspect.items.front() : inspect;
        const Document& host = first.at("HostConfig");
        if (!host.is_map()) return unknown("it has no HostConfig");
        std::vector<Subject> wrong;
        bool memlock = false;
        for (const Document& limit : host.at("Ulimits").items)
          memlock =
              memlock || (limit.at("Name").text == "memlock" && limit.at("Soft").number().value_or(0) == -1);
        if (!memlock) wrong.push_back({"--ulimit memlock=-1", "missing"});
        if (host.at("IpcMode").text != "host" && host.at("ShmSize").number().value_or(0) < 1073741824.0)
          wrong.push_back({"--shm-size=16g", "missing"});
        if (host.at("Privileged").is_true()) wrong.push_back({"--privileged", "given"});
        return bad_if_any(std::move(wrong), "the container was started with flags that cost",
            "the container's flags are good");
      },
      facts.container.inspect);
}

constexpr Check kChecks[] = {
    {"CTR-01", Layer::kContainer, Level::kFail, 0.25, "Memory may be locked",
        "RDMA registers memory by locking it; with a small limit the job falls back to TCP or dies.",
        "several times slower network, or no start", FixKind::kSetting,
        "ulimit -l unlimited (limits.d, LimitMEMLOCK=infinity, docker --ulimit memlock=-1)", "", "F08,F14",
        memory_may_be_locked},
    {"CTR-24", Layer::kContainer, Level::kInfo, 0.01, "Stacks are large enough",
        "Deep recursion of compilers and solvers overflows a small stack.", "crashes, not slowness",
        FixKind::kSetting, "docker --ulimit stack=67108864", "", "F14", stack_suffices},
    {"CTR-25", Layer::kContainer, Level::kWarn, 0.03, "Many files may be open",
        "Each stream, worker pipe and shard is an open file.", "refused connections, failed workers",
        FixKind::kSetting, "ulimit -n 1048576 (limits.d, LimitNOFILE=, docker --ulimit nofile=1048576)", "",
        "F14", files_suffice},
    {"CTR-26", Layer::kContainer, Level::kWarn, 0.03, "Many threads may run",
        "Loaders, NCCL and BLAS start threads by the hundred.", "failed start-up", FixKind::kSetting,
        "ulimit -u unlimited; raise pids.max", "", "F14", processes_suffice},
    {"CTR-02", Layer::kContainer, Level::kFail, 0.15, "Shared memory suffices",
        "Docker gives 64 MiB; loader workers and NCCL's shared-memory transport need gigabytes.",
        "bus errors, or slower transports", FixKind::kSetting,
        "docker --shm-size=16g, or a memory emptyDir on /dev/shm", "", "F14", shared_memory_suffices},
    {"CTR-03", Layer::kContainer, Level::kFail, 0.50, "libcuda is the host's",
        "A libcuda shipped in the image meets a kernel module of another version.", "CUDA errors 803 and 804",
        FixKind::kSetting, "remove the driver from the image; start with the NVIDIA container toolkit", "",
        "F09", driver_library_is_the_hosts},
    {"CTR-04", Layer::kContainer, Level::kWarn, 0.10, "The container stays on one node",
        "Threads and memory spread over both sockets meet the slow link between them.",
        "up to half the memory bandwidth", FixKind::kSetting,
        "docker --cpuset-cpus and --cpuset-mems of the GPU's node", "", "F05", cpuset_is_one_node},
    {"CTR-05", Layer::kContainer, Level::kFail, 0.35, "The CPU quota does not bite",
        "A group that used its quota stands still until the next 100 ms period, whatever the GPU waits for.",
        "stalls of tens of milliseconds; GPUs idle meanwhile", FixKind::kSetting,
        "raise or remove the CPU limit; ask for whole CPUs with the static CPU manager", "", "G08",
        cpu_quota_does_not_bite},
    {"CTR-27", Layer::kContainer, Level::kWarn, 0.15, "Thread pools fit the quota",
        "Programs count CPUs, not quotas: they start too many threads and are stopped in turns.",
        "latency spikes every period", FixKind::kSetting,
        "set OMP_NUM_THREADS and worker counts to the quota, or use a cpuset instead of a quota", "",
        "F04,G08", quota_covers_threads},
    {"CTR-06", Layer::kContainer, Level::kFail, 0.20, "The memory limit has room",
        "At the limit the kernel reclaims on each allocation, then kills.", "a killed worker ends the job",
        FixKind::kSetting, "raise the memory limit to 1.2 times the peak", "", "J08", memory_limit_has_room},
    {"CTR-07", Layer::kContainer, Level::kFail, 0.25, "The group does not swap",
        "Swapped memory of a worker stalls all that wait for it.", "stalls of milliseconds a page",
        FixKind::kCommand,
        "set memory.swap.max of the group to 0 when its memory has room for what it swapped", "", "F02",
        group_does_not_swap},
    {"CTR-21", Layer::kContainer, Level::kWarn, 0.15, "The group's disk rate is not limited",
        "A limit for tenants holds back loading and checkpoints.", "loading at the limit", FixKind::kSetting,
        "remove io.max of the group", "", "H09", io_is_not_limited},
    {"CTR-09", Layer::kContainer, Level::kInfo, 0, "The container is not privileged",
        "GPU and RDMA need device files and IPC_LOCK, not all powers.", "a safety matter, not speed",
        FixKind::kSetting, "drop --privileged; add --device and --cap-add IPC_LOCK", "", "B07",
        container_is_not_privileged},
    {"CTR-28", Layer::kContainer, Level::kFail, 0.25, "The container may lock memory",
        "Without IPC_LOCK RDMA cannot register buffers.", "fallback to TCP", FixKind::kSetting,
        "--cap-add IPC_LOCK", "", "O01,B07", container_may_lock},
    {"CTR-10", Layer::kContainer, Level::kWarn, 0.10, "The kubelet aligns CPUs and GPUs",
        "Without a topology policy a pod may get CPUs of one socket and a GPU of the other.",
        "up to half the copy bandwidth", FixKind::kSetting,
        "topologyManagerPolicy: single-numa-node (or restricted)", "", "G01", topology_is_managed},
    {"CTR-11", Layer::kContainer, Level::kWarn, 0.08, "The kubelet gives exclusive CPUs",
        "Shared CPUs bring throttling and neighbours' noise.", "jitter", FixKind::kSetting,
        "cpuManagerPolicy: static, and whole CPUs in the pod", "", "G08", cpus_are_exclusive},
    {"CTR-12", Layer::kContainer, Level::kInfo, 0.03, "The kubelet aligns memory",
        "Memory of the far node is slower.", "remote memory", FixKind::kSetting,
        "memoryManagerPolicy: Static with reservedMemory", "", "G01", memory_is_managed},
    {"CTR-20", Layer::kContainer, Level::kWarn, 0.08, "SLURM knows which cores belong to a GPU",
        "Without Cores= or AutoDetect a task may land on the far socket.", "up to half the copy bandwidth",
        FixKind::kSetting, "AutoDetect=nvml in gres.conf", "", "G01,G07", slurm_knows_the_topology},
    {"CTR-29", Layer::kContainer, Level::kWarn, 0.05, "SLURM binds tasks",
        "Unbound tasks wander and share cores.", "jitter", FixKind::kSetting,
        "TaskPlugin=task/affinity,task/cgroup", "", "G01", slurm_binds_tasks},
    {"CTR-30", Layer::kContainer, Level::kWarn, 0.15, "The container's flags are good",
        "docker run's defaults are made for web servers.", "bus errors, failed registration",
        FixKind::kSetting, "docker run --ulimit memlock=-1 --shm-size=16g", "", "F14,B07", inspected_limits},
};

}  // namespace

std::span<const Check> container_checks() { return kChecks; }

}  // namespace cheetah::doctor
