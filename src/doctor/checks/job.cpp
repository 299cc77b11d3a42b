// SPDX-License-Identifier: MIT
// JOB: one running process, named with --pid.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/format.h"
#include "base/table.h"
#include "doctor/check.h"

namespace cheetah::doctor {
namespace {

constexpr double kLeastLocal = 0.95;
constexpr size_t kLeastCpus = 4;
constexpr double kLargeRssKb = 8.0 * 1048576;

Outcome no_job() { return not_applicable("no job was named (--pid)"); }

// The NUMA node of the GPUs the job holds; -1 when they are several or unknown.
int gpu_node(const Facts& facts) {
  std::set<int64_t> nodes;
  for (const int index : facts.job->gpus.value_or({}))
    for (const Gpu& gpu : facts.gpu.gpus.value_or({}))
      if (gpu.index == index)
        if (const PciDevice* device = facts.pci.find(gpu.address())) nodes.insert(device->node.value_or(-1));
  return nodes.size() == 1 ? static_cast<int>(*nodes.begin()) : -1;
}

Outcome job_is_not_swapped(const Facts& facts) {
  if (!facts.job) return no_job();
  return when_known(
      [](double kb) {
        return judge(kb == 0, format("{} of the job are swapped out", human_bytes(kb * 1024)));
      },
      facts.job->status_kb("VmSwap"));
}

Outcome job_may_lock(const Facts& facts) {
  if (!facts.job) return no_job();
  return when_known(
      [&](double bytes) {
        if (std::isinf(bytes)) return good("the job may lock all memory");
        return facts.network.has_rdma()
                   ? bad(format("the job may lock {} only", human_bytes(bytes)))
                   : note(format("the job may lock {}; there is no RDMA", human_bytes(bytes)));
      },
      facts.job->limit("Max locked memory"));
}

Outcome job_runs_near_its_gpu(const Facts& facts) {
  if (!facts.job) return no_job();
  if (facts.cpu.num_nodes_with_cpus() < 2) return not_applicable("there is one NUMA node");
  const int node = gpu_node(facts);
  if (node < 0) return not_applicable("the job's GPUs are on several nodes, or unknown");
  return when_known(
      [&](const std::vector<int>& cpus) {
        if (!is_subset(cpus, facts.cpu.cpus_of(node)))
          return bad(format("the job may run on CPUs {}, its GPU is on node {}", to_list(cpus), node),
              {{facts.intent.pid, to_list(cpus)}});
        return judge(cpus.size() >= kLeastCpus, format("the job has {} CPUs of its GPU's node", cpus.size()));
      },
      facts.job->cpus);
}

Outcome job_memory_is_local(const Facts& facts) {
  if (!facts.job) return no_job();
  if (facts.cpu.num_nodes_with_cpus() < 2) return not_applicable("there is one NUMA node");
  return when_known(
      [&](const std::map<int, double>& bytes) {
        double total = 0, most = 0;
        for (const auto& [node, amount] : bytes) {
          total += amount;
          most = std::max(most, amount);
        }
        const int node = gpu_node(facts);
        const auto own = bytes.find(node);
        const double local = node >= 0 ? (own == bytes.end() ? 0 : own->second) : most;
        return judge(local >= kLeastLocal * total,
            format("{:.0f} % of the job's memory is on {}", 100 * local / std::max(total, 1.0),
                node >= 0 ? format("its GPU's node {}", node) : "one node"));
      },
      facts.job->node_bytes);
}

Outcome threads_are_spread(const Facts& facts) {
  if (!facts.job) return no_job();
  return when_known(
      [&](const std::vector<ThreadFacts>& threads) {
        std::map<int, int> pinned;
        std::set<int> nodes;
        for (const ThreadFacts& thread : threads) {
          if (!thread.cpus || thread.cpus->empty()) continue;
          if (thread.cpus->size() == 1) ++pinned[thread.cpus->front()];
          for (const int cpu : *thread.cpus) nodes.insert(facts.cpu.node_of(cpu));
        }
        for (const auto& [cpu, count] : pinned)
          if (count > 4 && count * 2 > static_cast<int>(threads.size()))
            return bad(format("{} of {} threads share CPU {}", count, threads.size(), cpu));
        return judge(nodes.size() <= 1 || gpu_node(facts) < 0,
            nodes.size() <= 1 ? "all threads stay on one node" : "threads may run on several nodes");
      },
      facts.job->threads);
}

Outcome job_is_not_preempted(const Facts& facts) {
  if (!facts.job) return no_job();
  return when_known(
      [](double forced, double voluntary) {
        const double share = forced / std::max(forced + voluntary, 1.0);
        return judge(forced < 1000 || share < 0.5,
            format("{:.0f} of {:.0f} switches were forced", forced, forced + voluntary));
      },
      facts.job->status_kb("nonvoluntary_ctxt_switches"), facts.job->status_kb("voluntary_ctxt_switches"));
}

Outcome real_time_is_safe(const Facts& facts) {
  if (!facts.job) return no_job();
  return when_known(
      [&](const std::vector<ThreadFacts>& threads) {
        const auto real_time = std::count_if(threads.begin(), threads.end(),
            [](const ThreadFacts& thread) { return thread.policy.is(1) || thread.policy.is(2); });
        if (real_time == 0) return good("no thread runs with real-time priority");
        if (facts.host.rt_runtime_us.is(-1))
          return bad(
              format("{} real-time threads, and nothing keeps them from starving the kernel", real_time));
        return note(format("{} real-time threads, throttled by the kernel", real_time));
      },
      facts.job->threads);
}

std::optional<int64_t> integer_of(const Facts& facts, const char* variable) {
  const auto value = facts.software.variable(variable);
  return value ? to_integer(*value) : std::nullopt;
}

Outcome math_threads_fit(const Facts& facts) {
  if (!facts.job) return no_job();
  if (!facts.software.environment) return without(facts.software.environment);
  const int64_t ranks = integer_of(facts, "LOCAL_WORLD_SIZE").value_or(std::max(1, facts.gpu.count()));
  const auto threads = integer_of(facts, "OMP_NUM_THREADS");
  return when_known(
      [&](const std::vector<int>& cpus) {
        const auto allowed = static_cast<int64_t>(cpus.size());
        if (!threads)
          return ranks > 1 ? bad(format("OMP_NUM_THREADS is not set: {} ranks may start {} threads each",
                                 ranks, allowed))
                           : good("one process: all CPUs are its own");
        return judge(*threads <= allowed &&
                         *threads * ranks <=
                             static_cast<int64_t>(facts.cpu.online ? facts.cpu.online->size() : cpus.size()),
            format("{} ranks of {} threads on {} allowed CPUs", ranks, *threads, allowed));
      },
      facts.job->cpus);
}

Outcome libraries_are_single(const Facts& facts) {
  if (!facts.job) return no_job();
  return when_known(
      [](const std::vector<std::string>& libraries) {
        std::vector<Subject> doubled;
        for (const char* stem : {"libnccl.so", "libcudart.so", "libcuda.so", "libcublas.so", "libcudnn.so"}) {
          std::set<std::string> paths;
          for (const std::string& path : libraries)
            if (contains(path.substr(path.rfind('/') + 1), stem)) paths.insert(path);
          if (paths.size() > 1) doubled.push_back({stem, format("{} copies", paths.size())});
        }
        return bad_if_any(
            std::move(doubled), "the job has loaded a library twice", "every CUDA library is loaded once");
      },
      facts.job->libraries);
}

Outcome one_process_a_gpu(const Facts& facts) {
  if (!facts.job) return no_job();
  return when_known(
      [&](const std::vector<int>& gpus) {
        if (gpus.empty()) return not_applicable("the job holds no GPU");
        return judge(gpus.size() == 1 || !facts.trains(), format("one process drives {} GPUs", gpus.size()));
      },
      facts.job->gpus);
}

Outcome workers_feed_the_rank(const Facts& facts) {
  if (!facts.job) return no_job();
  if (!facts.trains()) return not_applicable("only training has loader workers (--purpose train)");
  return when_known(
      [&](const std::vector<int64_t>& children) {
        const auto cpus = static_cast<int64_t>(facts.job->cpus.value_or({}).size());
        const auto workers = static_cast<int64_t>(children.size());
        return judge(workers >= 1 && (cpus == 0 || workers <= cpus),
            format("{} worker processes on {} CPUs", workers, cpus));
      },
      facts.job->children);
}

Outcome huge_pages_are_used(const Facts& facts) {
  if (!facts.job) return no_job();
  return when_known(
      [](const Fields& smaps, const std::string& mode) {
        const double huge = number_in(smaps, "AnonHugePages").value_or(0),
                     rss = number_in(smaps, "Rss").value_or(0);
        if (mode == "never" || rss < kLargeRssKb)
          return not_applicable("huge pages are off, or the job is small");
        return judge(
            huge >= 0.30 * rss, format("{:.0f} % of the job's memory is in huge pages", 100 * huge / rss));
      },
      facts.job->smaps, facts.memory.thp_enabled);
}

Outcome direct_reads_are_direct(const Facts& facts) {
  if (!facts.job) return no_job();
  if (!facts.storage.gds_stats && !facts.software.setting("direct_io"))
    return not_applicable("direct I/O is not asked for");
  return when_known(
      [](const std::vector<int64_t>& flags) {
        constexpr int64_t kDirect = 040000;
        const auto direct =
            std::count_if(flags.begin(), flags.end(), [](int64_t flag) { return (flag & kDirect) != 0; });
        return judge(direct > 0, format("{} of {} open files are direct", direct, flags.size()));
      },
      facts.job->open_flags);
}

constexpr Check kChecks[] = {
    {"JOB-01", Layer::kJob, Level::kFail, 0.30, "The job is not swapped out",
        "Its next touch of that memory waits for the disk.", "stalls of milliseconds a page",
        FixKind::kCommand, "turn swap off when memory has room for what is swapped out", "", "F02,J08",
        job_is_not_swapped},
    {"JOB-02", Layer::kJob, Level::kFail, 0.25, "The job may lock memory",
        "RDMA registration, io_uring and pinned pools lock memory.", "fallback to TCP, or failure",
        FixKind::kSetting, "start it with ulimit -l unlimited", "", "F08", job_may_lock},
    {"JOB-03", Layer::kJob, Level::kFail, 0.22, "The job runs next to its GPU",
        "Threads on the other socket launch, copy and poll across the link between the sockets.",
        "10-50 % of copy bandwidth, and launch latency", FixKind::kSetting,
        "start it with numactl -N n -m n of its GPU's node; memory that is already placed stays where it is",
        "", "F05", job_runs_near_its_gpu},
    {"JOB-04", Layer::kJob, Level::kWarn, 0.15, "The job's memory is local",
        "Remote memory is 1.4 to 2 times slower; pages allocated before binding stay where they are.",
        "up to half the staging bandwidth", FixKind::kSetting,
        "bind before the first allocation: numactl -N n -m n", "", "F05,D02", job_memory_is_local},
    {"JOB-05", Layer::kJob, Level::kWarn, 0.15, "Threads are spread over the job's CPUs",
        "A library that pins badly puts all threads on one CPU.", "one core's worth of speed",
        FixKind::kSetting, "unset KMP_AFFINITY and GOMP_CPU_AFFINITY, set OMP_PROC_BIND=spread", "", "F05",
        threads_are_spread},
    {"JOB-06", Layer::kJob, Level::kWarn, 0.08, "The job is not preempted",
        "A forced switch means another thread wanted its CPU.", "jitter in every step", FixKind::kSetting,
        "fewer threads than CPUs; exclusive CPUs", "", "P07", job_is_not_preempted},
    {"JOB-07", Layer::kJob, Level::kWarn, 0.05, "Real-time priority cannot starve the kernel",
        "A real-time thread that spins locks out the kernel's own threads.", "hangs", FixKind::kCommand,
        "set kernel.sched_rt_runtime_us to 950000", "", "I04", real_time_is_safe},
    {"JOB-08", Layer::kJob, Level::kWarn, 0.10, "Math threads fit the CPUs",
        "Each rank starts a thread for every CPU it sees; eight ranks make eight times too many.",
        "oversubscription: 10-50 % of CPU work", FixKind::kSetting,
        "export OMP_NUM_THREADS=$((cores / ranks))", "", "F04", math_threads_fit},
    {"JOB-09", Layer::kJob, Level::kFail, 0.20, "CUDA libraries are loaded once",
        "A wheel's NCCL beside the system's gives ranks of different versions, hangs and slow paths.",
        "hangs; slow algorithms", FixKind::kSetting,
        "remove one copy of {it} from LD_LIBRARY_PATH or the environment", "", "F09", libraries_are_single},
    {"JOB-10", Layer::kJob, Level::kWarn, 0.10, "One process drives one GPU",
        "A single interpreter cannot launch for several GPUs at once.", "launch-bound GPUs",
        FixKind::kSetting, "start a process a GPU (torchrun, DDP)", "", "L01", one_process_a_gpu},
    {"JOB-11", Layer::kJob, Level::kWarn, 0.20, "Loader workers feed the rank",
        "Without workers the training loop reads and decodes by itself.", "GPU idle during loading",
        FixKind::kSetting, "num_workers >= 2, persistent_workers=True", "", "H01,I07", workers_feed_the_rank},
    {"JOB-12", Layer::kJob, Level::kInfo, 0.03, "The job's memory is in huge pages",
        "Small pages mean TLB misses in large buffers.", "a few percent of CPU work", FixKind::kSetting,
        "madvise(MADV_HUGEPAGE), or an allocator that does", "", "F07", huge_pages_are_used},
    {"JOB-13", Layer::kJob, Level::kWarn, 0.05, "Direct reads are direct",
        "cuFile and direct loaders need O_DIRECT, else the page cache is in between.", "an extra copy",
        FixKind::kSetting, "open with O_DIRECT, offsets and sizes in 4 KiB", "", "H04",
        direct_reads_are_direct},
};

}  // namespace

std::span<const Check> job_checks() { return kChecks; }

}  // namespace cheetah::doctor
