// SPDX-License-Identifier: MIT
// MSR: what doctor measure found, against what the part can do.
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/table.h"
#include "doctor/check.h"

namespace cheetah::doctor {
namespace {

struct Peaks {
  const char* name;
  double memory, bf16;  // bytes and dense operations a second, by the vendor's data sheets
};
constexpr Peaks kPeaks[] = {{"H200", 4.8e12, 989e12}, {"H100", 3.35e12, 989e12}, {"A100", 2.04e12, 312e12},
    {"B200", 8e12, 2250e12}, {"L40S", 0.864e12, 362e12}, {"L4", 0.3e12, 121e12}};

const Peaks* peaks_of(const Facts& facts) {
  if (facts.gpu.count() == 0) return nullptr;
  for (const Peaks& peaks : kPeaks)
    if (contains(facts.gpu.gpus->front().name(), peaks.name)) return &peaks;
  return nullptr;
}

template <class Body>
Outcome with_measured(const Facts& facts, Body body) {
  return facts.measured ? body(*facts.measured)
                        : not_applicable("nothing was measured (cheetah doctor measure)");
}

std::string gigabytes(double rate) { return format("{:.1f} GB/s", rate / 1e9); }

Outcome links_deliver(const Facts& facts) {
  return with_measured(facts, [&](const MeasuredFacts& m) {
    const Gpu* gpu = facts.gpu.count() > 0 ? &facts.gpu.gpus->front() : nullptr;
    // Per lane and direction: 0.985 GB/s in generation 3, doubled each time.
    const double link = gpu == nullptr ? 0
                                       : 0.985e9 * std::pow(2, gpu->number("pcie.gen.max").value_or(5) - 3) *
                                             gpu->number("pcie.width.max").value_or(16);
    return when_known(
        [&](double in, double out) {
          return judge(std::min(in, out) >= 0.75 * link, format("{} to the GPU, {} back, over a link of {}",
                                                             gigabytes(in), gigabytes(out), gigabytes(link)));
        },
        m.number("gpu.0.pinned_in"), m.number("gpu.0.pinned_out"));
  });
}

Outcome pinning_pays(const Facts& facts) {
  return with_measured(facts, [](const MeasuredFacts& m) {
    return when_known(
        [](double pinned, double pageable) {
          return judge(pinned >= 1.3 * pageable,
              format("pinned {}, pageable {}", gigabytes(pinned), gigabytes(pageable)));
        },
        m.number("gpu.0.pinned_in"), m.number("gpu.0.pageable_in"));
  });
}

Outcome gpu_memory_delivers(const Facts& facts) {
  return with_measured(facts, [&](const MeasuredFacts& m) {
    const Peaks* peaks = peaks_of(facts);
    if (peaks == nullptr) return not_applicable("this GPU's data sheet is not known to us");
    return when_known(
        [&](double rate) {
          return judge(rate >= 0.8 * peaks->memory,
              format("{:.2f} TB/s of {:.2f}", rate / 1e12, peaks->memory / 1e12));
        },
        m.number("gpu.0.copy"));
  });
}

Outcome matrices_deliver(const Facts& facts) {
  return with_measured(facts, [&](const MeasuredFacts& m) {
    const Peaks* peaks = peaks_of(facts);
    if (peaks == nullptr) return not_applicable("this GPU's data sheet is not known to us");
    return when_known(
        [&](double rate) {
          return judge(rate >= 0.7 * peaks->bf16,
              format("{:.0f} TFLOP/s in BF16 of {:.0f}", rate / 1e12, peaks->bf16 / 1e12));
        },
        m.number("gpu.0.gemm_bf16"));
  });
}

Outcome gpus_are_equal(const Facts& facts) {
  return with_measured(facts, [](const MeasuredFacts& m) {
    std::vector<double> rates;
    for (int i = 0; i < 8; ++i)
      if (const auto rate = m.number(format("gpu.{}.gemm_bf16", i))) rates.push_back(*rate);
    if (rates.size() < 2) return not_applicable("there are no two measured GPUs");
    const auto [least, most] = std::minmax_element(rates.begin(), rates.end());
    return judge(
        *most <= 1.1 * *least, format("GPUs from {:.0f} to {:.0f} TFLOP/s", *least / 1e12, *most / 1e12));
  });
}

Outcome launches_are_fast(const Facts& facts) {
  return with_measured(facts, [](const MeasuredFacts& m) {
    return when_known([](double us) { return judge(us < 10, format("{:.1f} us a launch", us)); },
        m.number("gpu.0.launch_us"));
  });
}

Outcome cuda_starts_fast(const Facts& facts) {
  return with_measured(facts, [](const MeasuredFacts& m) {
    return when_known([](double s) { return judge(s < 3, format("CUDA takes {:.1f} s to start", s)); },
        m.number("gpu.start_s"));
  });
}

Outcome clocks_hold(const Facts& facts) {
  return with_measured(facts, [](const MeasuredFacts& m) {
    return when_known(
        [&](double clock, double most) {
          const auto bits = static_cast<uint64_t>(std::max(0.0, m.number("gpu.0.load.throttle").value_or(0)));
          constexpr uint64_t kBad =
              0x8 | 0x20 | 0x40 | 0x80;  // hardware, heat, power brake; a power cap at full load is normal
          return judge(clock >= 0.6 * most && (bits & kBad) == 0,
              format("{:.0f} of {:.0f} MHz under load, {:.0f} W, {:.0f} C", clock, most,
                  m.number("gpu.0.load.power.draw").value_or(0),
                  m.number("gpu.0.load.temperature").value_or(0)));
        },
        m.number("gpu.0.load.clock.sm"), m.number("gpu.0.load.clock.sm.max"));
  });
}

Outcome remote_memory_is_near(const Facts& facts) {
  return with_measured(facts, [](const MeasuredFacts& m) {
    return when_known(
        [](double local, double remote) {
          return judge(remote <= 2.2 * local,
              format("{:.0f} ns on the own node, {:.0f} ns on the other", local, remote));
        },
        m.number("memory.latency_ns.0"), m.number("memory.remote_latency_ns"));
  });
}

Outcome memory_answers_fast(const Facts& facts) {
  return with_measured(facts, [](const MeasuredFacts& m) {
    return when_known([](double ns) { return judge(ns < 250, format("{:.0f} ns a random access", ns)); },
        m.number("memory.latency_ns.0"));
  });
}

Outcome nodes_are_equal(const Facts& facts) {
  return with_measured(facts, [](const MeasuredFacts& m) {
    const auto rates = m.all("memory.read.");
    if (rates.size() < 2) return not_applicable("there is one NUMA node");
    const auto [least, most] = std::minmax_element(rates.begin(), rates.end());
    return judge(*least >= 0.8 * *most, format("nodes read {} to {}", gigabytes(*least), gigabytes(*most)));
  });
}

Outcome memory_delivers(const Facts& facts) {
  return with_measured(facts, [&](const MeasuredFacts& m) {
    const double cores = static_cast<double>(facts.cpu.physical_cores.value_or(1)) /
                         std::max(1, facts.cpu.num_nodes_with_cpus());
    // A core of any server of the last ten years reads 4 GB/s; all of a socket read more than 20.
    return when_known(
        [&](double rate) {
          return judge(
              rate >= std::min(4e9 * cores, 20e9) * 0.5, format("{} read on node 0", gigabytes(rate)));
        },
        m.number("memory.read.0"));
  });
}

Outcome huge_pages_pay(const Facts& facts) {
  return with_measured(facts, [&](const MeasuredFacts& m) {
    return when_known(
        [&](double gain) {
          return judge(gain < 1.15 || !facts.memory.thp_enabled.is("never"),
              format("random access is {:.2f} times as fast with huge pages, which are '{}'", gain,
                  facts.memory.thp_enabled.value_or("?")));
        },
        m.number("memory.huge_page_gain"));
  });
}

Outcome cores_are_near(const Facts& facts) {
  return with_measured(facts, [](const MeasuredFacts& m) {
    return when_known(
        [](double ns) {
          return judge(ns < 1000, format("{:.0f} ns to hand a value to the farthest core", ns));
        },
        m.number("core.hand_over_ns.max"));
  });
}

Outcome cores_are_ours(const Facts& facts) {
  return with_measured(facts, [](const MeasuredFacts& m) {
    return when_known(
        [](double share, double longest) {
          return judge(
              share < 0.05, format("a spinning thread was stopped {:.1f} % of the time, {:.0f} us at most",
                                100 * share, longest));
        },
        m.number("core.stolen_share"), m.number("core.jitter_max_us"));
  });
}

Outcome timers_fire_in_time(const Facts& facts) {
  return with_measured(facts, [](const MeasuredFacts& m) {
    return when_known(
        [](double us) {
          return judge(
              us < 1000, format("a sleeping thread wakes {:.0f} us late in the worst of a hundred", us));
        },
        m.number("core.wake_us.p99"));
  });
}

Outcome disk_reads_fast(const Facts& facts) {
  return with_measured(facts, [](const MeasuredFacts& m) {
    return when_known(
        [](double rate) { return judge(rate >= 200e6, format("{} read in sequence", gigabytes(rate))); },
        m.number("disk.read"));
  });
}

Outcome disk_seeks_fast(const Facts& facts) {
  return with_measured(facts, [](const MeasuredFacts& m) {
    return when_known(
        [](double rate) {
          return judge(rate >= 1000, format("{:.0f} random reads per second, one at a time", rate));
        },
        m.number("disk.random_reads"));
  });
}

Outcome disk_syncs_fast(const Facts& facts) {
  return with_measured(facts, [](const MeasuredFacts& m) {
    return when_known([](double ms) { return judge(ms < 20, format("{:.1f} ms to sync a page", ms)); },
        m.number("disk.fsync_ms.p50"));
  });
}

Outcome loopback_is_fast(const Facts& facts) {
  return with_measured(facts, [](const MeasuredFacts& m) {
    return when_known(
        [](double rate, double us) {
          return judge(rate >= 500e6 && us < 200,
              format("{} in a stream, {:.0f} us there and back", gigabytes(rate), us));
        },
        m.number("loopback.stream"), m.number("loopback.round_trip_us.p50"));
  });
}

constexpr Check kChecks[] = {
    {"MSR-01", Layer::kMeasured, Level::kWarn, 0.10, "The link to the GPU delivers",
        "Slow copies point to lanes, generation, IOMMU or the wrong node.", "loading and offloading",
        FixKind::kAdvice, "see GPU-15, GPU-33, HST-24 and JOB-03", "", "C06,H02", links_deliver},
    {"MSR-02", Layer::kMeasured, Level::kInfo, 0.03, "Pinned memory is faster",
        "Equal speeds mean pinning does not work, or the link is the limit.", "copy bandwidth",
        FixKind::kAdvice, "check the locked-memory limit and the NUMA node", "", "H02", pinning_pays},
    {"MSR-03", Layer::kMeasured, Level::kWarn, 0.20, "GPU memory delivers",
        "A copy below four fifths of the data sheet: ECC repair, clocks or a neighbour.",
        "memory-bound kernels, in proportion", FixKind::kAdvice, "see GPU-05, GPU-12 and GPU-18", "", "C06",
        gpu_memory_delivers},
    {"MSR-04", Layer::kMeasured, Level::kWarn, 0.30, "Matrix products deliver",
        "Below 70 % of the dense peak on random data: clocks, power or heat.",
        "compute-bound work, in proportion", FixKind::kAdvice, "see GPU-11 to GPU-14", "", "K15",
        matrices_deliver},
    {"MSR-22", Layer::kMeasured, Level::kWarn, 0.10, "GPUs are equally fast",
        "The slowest sets the pace of a synchronous job.", "the difference", FixKind::kAdvice,
        "look at clocks and temperature of the slow one", "", "J07", gpus_are_equal},
    {"MSR-11", Layer::kMeasured, Level::kWarn, 0.10, "Launches are fast",
        "Slow launches come from a slow or far core, or a virtualized driver.", "launch-bound steps",
        FixKind::kAdvice, "see HST-08, HST-09 and JOB-03", "", "L02", launches_are_fast},
    {"MSR-20", Layer::kMeasured, Level::kInfo, 0.01, "CUDA starts fast",
        "Seconds at each start: persistence is off, or many GPUs are visible.", "start-up", FixKind::kCommand,
        "run nvidia-persistenced", "", "F09", cuda_starts_fast},
    {"MSR-21", Layer::kMeasured, Level::kWarn, 0.20, "Clocks hold under load",
        "A clock that falls for heat falls further in a long run.", "in proportion to the clock",
        FixKind::kFirmware, "check the cooling and the power limit", "", "C08,R07,R04", clocks_hold},
    {"MSR-12", Layer::kMeasured, Level::kWarn, 0.05, "The other node is near",
        "More than twice the latency: a link between sockets is down or saturated.", "remote accesses",
        FixKind::kFirmware, "check the BIOS's NUMA and link settings", "", "F05", remote_memory_is_near},
    {"MSR-23", Layer::kMeasured, Level::kWarn, 0.05, "Memory answers fast",
        "High latency without load: power saving of the memory, or a busy neighbour.", "pointer-heavy work",
        FixKind::kFirmware, "a performance profile in the BIOS", "", "F01", memory_answers_fast},
    {"MSR-24", Layer::kMeasured, Level::kWarn, 0.10, "Nodes read equally fast",
        "A slower node misses a memory channel.", "its bandwidth", FixKind::kFirmware,
        "look for a missing module", "", "C06", nodes_are_equal},
    {"MSR-25", Layer::kMeasured, Level::kWarn, 0.15, "Memory delivers",
        "Far below what its cores can read: a shared or throttled machine.", "everything on the CPU",
        FixKind::kAdvice, "another machine, or fewer neighbours", "", "C06", memory_delivers},
    {"MSR-26", Layer::kMeasured, Level::kWarn, 0.05, "Huge pages are on where they pay",
        "Measured here: what turning them on gives random access.", "the measured gain, on TLB-bound work",
        FixKind::kCommand, "set transparent huge pages to madvise", "", "F07", huge_pages_pay},
    {"MSR-27", Layer::kMeasured, Level::kWarn, 0.05, "Cores are near each other",
        "A microsecond between cores: they are on different machines' worth of silicon, or not really ours.",
        "locks and queues", FixKind::kAdvice, "keep a job's threads on one node", "", "F05", cores_are_near},
    {"MSR-13", Layer::kMeasured, Level::kWarn, 0.10, "The core is ours",
        "A thread that never sleeps was stopped: neighbours, interrupts or a quota.",
        "the stolen share, and jitter", FixKind::kAdvice,
        "see CTR-05, HST-19 and HST-23; isolate the worker CPUs", "", "F11", cores_are_ours},
    {"MSR-28", Layer::kMeasured, Level::kWarn, 0.03, "Timers fire in time",
        "Late wake-ups delay every hand-over between threads.", "latency of lightly loaded servers",
        FixKind::kAdvice, "see HST-09 and HST-19", "", "F11", timers_fire_in_time},
    {"MSR-08", Layer::kMeasured, Level::kWarn, 0.10, "The disk reads fast",
        "Below 200 MB/s weights of 100 GB take ten minutes.", "loading and data", FixKind::kAdvice,
        "local NVMe; see the storage checks", "", "H10,H08", disk_reads_fast},
    {"MSR-09", Layer::kMeasured, Level::kWarn, 0.05, "The disk seeks fast",
        "A thousand random reads per second are a spinning disk's or a far volume's.",
        "small files and shuffled reads", FixKind::kAdvice, "local NVMe, or larger shards", "", "H06",
        disk_seeks_fast},
    {"MSR-19", Layer::kMeasured, Level::kWarn, 0.03, "The disk syncs fast",
        "Checkpoints and logs wait for the sync.", "a stall a checkpoint", FixKind::kAdvice,
        "a disk with power-loss protection; sync in the background", "", "H11", disk_syncs_fast},
    {"MSR-07", Layer::kMeasured, Level::kWarn, 0.05, "The loopback is fast",
        "Local connections carry requests between router and engine.", "request overhead", FixKind::kAdvice,
        "look for a proxy, a firewall rule or a sandbox in the way", "", "J09,O09", loopback_is_fast},
};

}  // namespace

std::span<const Check> measured_checks() { return kChecks; }

}  // namespace cheetah::doctor
