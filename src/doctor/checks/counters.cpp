// SPDX-License-Identifier: MIT
// PRF: hardware counters of kernels, by Nsight Compute's names.
#include <algorithm>

#include "base/format.h"
#include "doctor/check.h"

namespace cheetah::doctor {
namespace {

// Looks at each kernel: what is wrong with it, "" nothing; nullopt when the counters are not there.
template <class Look>
Outcome each_kernel(const Facts& facts, const std::string& found, const std::string& otherwise, Look look) {
  if (!facts.profile) return not_applicable("no counters were named (cheetah doctor profile FILE)");
  return when_known(
      [&](const std::vector<KernelCounters>& kernels) {
        std::vector<Subject> subjects;
        int told = 0;
        for (const KernelCounters& kernel : kernels) {
          const std::optional<std::string> what = look(kernel);
          told += what ? 1 : 0;
          if (what && !what->empty()) subjects.push_back({kernel.name.substr(0, 60), *what});
        }
        if (told == 0) return not_applicable("the counters it needs were not collected (ncu --set full)");
        return bad_if_any(std::move(subjects), found, format("{} ({} kernels)", otherwise, told));
      },
      facts.profile->counters);
}
using Wrong = std::optional<std::string>;

Value<double> counter(const KernelCounters& kernel, std::initializer_list<std::string_view> names) {
  if (const auto value = kernel.find(names)) return {*value, std::string(*names.begin())};
  return Value<double>::absent(std::string(*names.begin()), "the counter was not collected");
}

Value<double> dram(const KernelCounters& k) {
  return counter(k, {"dram__throughput.avg.pct_of_peak_sustained_elapsed",
                        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "DRAM Throughput"});
}
Value<double> sm(const KernelCounters& k) {
  return counter(k, {"sm__throughput.avg.pct_of_peak_sustained_elapsed", "Compute (SM) Throughput"});
}
Value<double> occupancy(const KernelCounters& k) {
  return counter(k, {"sm__warps_active.avg.pct_of_peak_sustained_active", "Achieved Occupancy"});
}

Outcome not_memory_bound(const Facts& facts) {
  return each_kernel(facts, "kernels are bound by memory bandwidth", "no kernel is at the memory's limit",
      [](const KernelCounters& k) -> Wrong {
        const auto memory = dram(k), math = sm(k);
        if (!memory || !math) return std::nullopt;
        return *memory >= 80 && *memory > *math ? format("DRAM at {:.0f} %", *memory) : "";
      });
}

Outcome not_compute_bound(const Facts& facts) {
  return each_kernel(facts, "kernels are bound by the math units", "no kernel is at the math units' limit",
      [](const KernelCounters& k) -> Wrong {
        const auto memory = dram(k), math = sm(k);
        if (!memory || !math) return std::nullopt;
        return *math >= 80 && *math >= *memory ? format("SM at {:.0f} %", *math) : "";
      });
}

Outcome not_latency_bound(const Facts& facts) {
  return each_kernel(facts, "kernels wait for latency: neither memory nor math is busy",
      "no kernel merely waits", [](const KernelCounters& k) -> Wrong {
        const auto memory = dram(k), math = sm(k);
        const auto stall =
            counter(k, {"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
                           "smsp__average_warp_latency_issue_stalled_long_scoreboard.ratio"});
        if (!memory || !math) return std::nullopt;
        return *memory < 60 && *math < 60 && stall.value_or(5) >= 4
                   ? format("DRAM {:.0f} %, SM {:.0f} %{}", *memory, *math,
                         stall ? format(", {:.1f} warps wait for memory", *stall) : "")
                   : "";
      });
}

Outcome grids_fill_the_gpu(const Facts& facts) {
  return each_kernel(
      facts, "grids leave SMs idle", "grids fill the GPU", [](const KernelCounters& k) -> Wrong {
        const auto waves = counter(k, {"launch__waves_per_multiprocessor", "Waves Per SM"});
        if (!waves) return std::nullopt;
        return *waves < 0.8 ? format("{:.2f} waves", *waves) : "";
      });
}

Outcome loads_are_coalesced(const Facts& facts) {
  return each_kernel(facts, "global loads waste their sectors", "global loads are coalesced",
      [](const KernelCounters& k) -> Wrong {
        const auto share = counter(k, {"smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct"});
        const auto bytes = counter(k, {"smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"});
        const double percent = share ? *share : bytes ? *bytes / 32 * 100 : -1;
        if (percent < 0) return std::nullopt;
        return percent < 80 ? format("{:.0f} % of each sector is used", percent) : "";
      });
}

Outcome banks_do_not_conflict(const Facts& facts) {
  return each_kernel(facts, "shared memory conflicts", "shared memory is free of conflicts",
      [](const KernelCounters& k) -> Wrong {
        const auto conflicts = counter(k, {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
                                              "l1tex__data_bank_conflicts_pipe_lsu.sum"});
        const auto wavefronts = counter(
            k, {"l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", "l1tex__data_pipe_lsu_wavefronts.sum"});
        if (!conflicts || !wavefronts || *wavefronts < 1) return std::nullopt;
        return *conflicts > 0.05 * *wavefronts
                   ? format("{:.0f} % of the accesses repeat", 100 * *conflicts / *wavefronts)
                   : "";
      });
}

Outcome warps_stay_together(const Facts& facts) {
  return each_kernel(facts, "threads of a warp go different ways", "warps stay together",
      [](const KernelCounters& k) -> Wrong {
        const auto lanes = counter(
            k, {"smsp__thread_inst_executed_per_inst_executed.ratio", "Avg. Active Threads Per Warp"});
        if (!lanes) return std::nullopt;
        return *lanes < 0.8 * 32 ? format("{:.1f} of 32 lanes work", *lanes) : "";
      });
}

Outcome occupancy_suffices(const Facts& facts) {
  return each_kernel(facts, "few warps, and they wait", "warps suffice to hide latency",
      [](const KernelCounters& k) -> Wrong {
        const auto active = occupancy(k), memory = dram(k), math = sm(k);
        if (!active) return std::nullopt;
        // Matrix kernels with asynchronous copies run well at an eighth of the warps: only waiting ones
        // count.
        const bool waits = memory.value_or(0) < 60 && math.value_or(0) < 60;
        const auto registers = counter(k, {"launch__registers_per_thread", "Registers Per Thread"});
        return *active < 25 && waits ? format("{:.0f} % occupancy{}", *active,
                                           registers ? format(", {:.0f} registers a thread", *registers) : "")
                                     : "";
      });
}

Outcome local_memory_is_unused(const Facts& facts) {
  return each_kernel(
      facts, "kernels spill to local memory", "no kernel spills", [](const KernelCounters& k) -> Wrong {
        const auto loads =
            counter(k, {"smsp__sass_inst_executed_op_local_ld.sum", "smsp__inst_executed_op_local_ld.sum",
                           "sass__inst_executed_local_loads"});
        if (!loads) return std::nullopt;
        return *loads > 0 ? format("{:.0f} local loads", *loads) : "";
      });
}

Outcome tensor_pipes_are_used(const Facts& facts) {
  return each_kernel(facts, "matrix kernels leave the tensor cores idle",
      "matrix kernels use the tensor cores", [](const KernelCounters& k) -> Wrong {
        const auto pipe = counter(k, {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
                                         "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active"});
        const bool matrix = contains(k.name, "gemm") || contains(k.name, "Gemm") || contains(k.name, "nvjet");
        if (!pipe || !matrix) return std::nullopt;
        return *pipe < 5 ? format("{:.0f} % tensor", *pipe) : "";
      });
}

Outcome traffic_is_minimal(const Facts& facts) {
  return each_kernel(facts, "caches miss what they could hold", "caches hold what they can",
      [](const KernelCounters& k) -> Wrong {
        const auto hit = counter(k, {"lts__t_sector_hit_rate.pct", "L2 Hit Rate"});
        const auto memory = dram(k);
        if (!hit || !memory) return std::nullopt;
        return *hit < 30 && *memory >= 80 ? format("L2 hits {:.0f} %, DRAM {:.0f} %", *hit, *memory) : "";
      });
}

Outcome barriers_are_short(const Facts& facts) {
  return each_kernel(
      facts, "warps wait at barriers", "barriers are short", [](const KernelCounters& k) -> Wrong {
        const auto stall = counter(k, {"smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
                                          "smsp__average_warp_latency_issue_stalled_barrier.ratio"});
        if (!stall) return std::nullopt;
        return *stall > 2 ? format("{:.1f} warps an issue", *stall) : "";
      });
}

constexpr Check kChecks[] = {
    {"PRF-14", Layer::kProfile, Level::kInfo, 0.05, "No kernel is memory-bound",
        "At the memory's limit only fewer bytes help.", "up to the ratio of bytes moved to bytes needed",
        FixKind::kSetting, "fuse, tile for reuse, smaller types, vector loads", "", "J01,K17,K01",
        not_memory_bound},
    {"PRF-15", Layer::kProfile, Level::kInfo, 0.05, "No kernel is compute-bound",
        "At the math units' limit only cheaper math helps.", "tensor cores: 8x; half the bits: 2x",
        FixKind::kSetting, "tensor cores, lower precision, fewer instructions", "", "J01,K17",
        not_compute_bound},
    {"PRF-16", Layer::kProfile, Level::kWarn, 0.15, "No kernel merely waits",
        "Neither memory nor math busy: latency is not hidden.", "up to the missing throughput",
        FixKind::kSetting, "more independent loads in flight, asynchronous copies, more warps", "", "K10",
        not_latency_bound},
    {"PRF-17", Layer::kProfile, Level::kWarn, 0.10, "Grids fill the GPU",
        "Fewer blocks than SMs leave some idle.", "the idle SMs", FixKind::kSetting,
        "smaller tiles, split-K, or concurrent streams", "", "K14", grids_fill_the_gpu},
    {"PRF-18", Layer::kProfile, Level::kWarn, 0.15, "Loads are coalesced",
        "Neighbouring threads that read far apart fetch 32 bytes for 4.", "up to 8x the traffic",
        FixKind::kSetting, "change the layout, or transpose through shared memory", "", "K02,J05",
        loads_are_coalesced},
    {"PRF-19", Layer::kProfile, Level::kWarn, 0.08, "Shared memory has no conflicts",
        "Threads of a warp that meet in one bank take turns.", "up to 32x on those accesses",
        FixKind::kSetting, "pad or swizzle the tile", "", "K03", banks_do_not_conflict},
    {"PRF-20", Layer::kProfile, Level::kWarn, 0.10, "Warps stay together",
        "A warp runs both sides of a branch, one after the other.", "the idle lanes", FixKind::kSetting,
        "sort or group the work; predicate short branches", "", "J06,K12", warps_stay_together},
    {"PRF-21", Layer::kProfile, Level::kWarn, 0.10, "Warps hide the latency",
        "Few warps that wait cannot cover for each other.", "part of the waiting", FixKind::kSetting,
        "by limiter: fewer registers, less shared memory, larger blocks", "", "K07,K08,L05",
        occupancy_suffices},
    {"PRF-38", Layer::kProfile, Level::kWarn, 0.10, "No kernel spills",
        "Spilled registers are loads and stores in the inner loop.", "10-50 % of that kernel",
        FixKind::kSetting, "smaller tiles, launch bounds, fewer live values", "", "K08,K18",
        local_memory_is_unused},
    {"PRF-39", Layer::kProfile, Level::kWarn, 0.40, "Matrix kernels use tensor cores",
        "A GEMM on the plain pipes runs at a fraction.", "up to 8x", FixKind::kSetting,
        "bf16 or TF32, aligned dimensions", "", "M05", tensor_pipes_are_used},
    {"PRF-24", Layer::kProfile, Level::kWarn, 0.10, "Caches hold what they can",
        "Low hits at full bandwidth: the working set passes the L2 again and again.", "the repeated traffic",
        FixKind::kSetting, "tile so that neighbours in time are neighbours in memory; swizzle blocks", "",
        "K01", traffic_is_minimal},
    {"PRF-25", Layer::kProfile, Level::kWarn, 0.05, "Barriers are short",
        "Warps that finish early wait for the last.", "the waiting", FixKind::kSetting,
        "smaller groups, named barriers, warp specialization", "", "K11", barriers_are_short},
};

}  // namespace

std::span<const Check> counter_checks() { return kChecks; }

}  // namespace cheetah::doctor
