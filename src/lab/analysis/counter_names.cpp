// SPDX-License-Identifier: MIT
// The counters the rules know, and where Nsight Compute keeps each: a metric's name or a label of the details
// page.
#include <initializer_list>

#include "lab/analysis/counters.h"

namespace cheetah::analysis {
namespace {

struct Alias {
  std::string_view counter;
  std::vector<std::string_view> names;  // the first one collected counts
  double scale = 1;
};

const std::vector<Alias>& aliases() {
  static const std::vector<Alias> kAliases = {
      {"duration_us", {"gpu__time_duration.sum", "gpu__time_duration.avg", "Duration"}, 1e-3},
      {"occupancy_pct", {"sm__warps_active.avg.pct_of_peak_sustained_active", "Achieved Occupancy"}},
      {"theoretical_occupancy_pct", {"sm__maximum_warps_per_active_cycle_pct", "Theoretical Occupancy"}},
      {"dram_pct", {"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
                       "dram__throughput.avg.pct_of_peak_sustained_elapsed", "DRAM Throughput"}},
      {"dram_bytes_per_s",
          {"dram__bytes.sum.per_second", "Memory Throughput [byte/second]", "Memory Throughput [byte/s]"}},
      {"sm_pct", {"sm__throughput.avg.pct_of_peak_sustained_elapsed", "Compute (SM) Throughput"}},
      {"l2_pct", {"lts__throughput.avg.pct_of_peak_sustained_elapsed",
                     "lts__t_sectors.avg.pct_of_peak_sustained_elapsed", "L2 Cache Throughput"}},
      {"l1_pct", {"l1tex__throughput.avg.pct_of_peak_sustained_active", "L1/TEX Cache Throughput"}},
      {"shared_pct", {"l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed",
                         "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed"}},
      {"l1_hit_pct", {"l1tex__t_sector_hit_rate.pct", "L1/TEX Hit Rate"}},
      {"l2_hit_pct", {"lts__t_sector_hit_rate.pct", "L2 Hit Rate"}},
      {"eligible_warps", {"smsp__warps_eligible.avg.per_cycle_active", "Eligible Warps Per Scheduler"}},
      {"issued_per_scheduler", {"smsp__issue_active.avg.per_cycle_active", "Issued Warp Per Scheduler"}},
      {"active_lanes",
          {"smsp__thread_inst_executed_per_inst_executed.ratio", "Avg. Active Threads Per Warp"}},
      {"working_lanes", {"smsp__thread_inst_executed_pred_on_per_inst_executed.ratio",
                            "Avg. Not Predicated Off Threads Per Warp"}},
      {"uniform_branches_pct",
          {"smsp__sass_average_branch_targets_threads_uniform.pct", "Branch Efficiency"}},
      {"instructions", {"smsp__inst_executed.sum", "sm__inst_executed.sum", "Executed Instructions"}},
      {"load_efficiency_pct", {"smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct"}},
      {"sectors_per_request", {"l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"}},
      {"bank_conflicts", {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"}},
      {"shared_wavefronts", {"l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
                                "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"}},
      {"spill_instructions",
          {"smsp__inst_executed_op_local.sum", "smsp__sass_inst_executed_op_local.sum",
              "smsp__inst_executed_op_local_ld.sum", "smsp__sass_inst_executed_op_local_ld.sum",
              "Local Memory Spilling Requests"}},
      {"registers", {"launch__registers_per_thread", "Registers Per Thread"}},
      {"limit_registers", {"launch__occupancy_limit_registers", "Block Limit Registers"}},
      {"limit_shared", {"launch__occupancy_limit_shared_mem", "Block Limit Shared Mem"}},
      {"limit_warps", {"launch__occupancy_limit_warps", "Block Limit Warps"}},
      {"limit_blocks", {"launch__occupancy_limit_blocks", "Block Limit SM"}},
      {"waves", {"launch__waves_per_multiprocessor", "Waves Per SM"}},
      {"grid_blocks", {"launch__grid_size", "Grid Size"}},
      {"num_sms", {"device__attribute_multiprocessor_count", "# SMs"}},
      {"fma_pipe_pct", {"sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
                           "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active"}},
      {"tensor_pipe_pct", {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
                              "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active"}},
      {"lsu_pipe_pct", {"sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active"}},
      {"alu_pipe_pct", {"sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active"}},
  };
  return kAliases;
}

void set(Counters& counters, std::string_view name, Number value) {
  if (value) counters.values.emplace(name, *value);
}

Number ratio(Number above, Number below, double scale = 1) {
  if (!above || !below || *below <= 0) return std::nullopt;
  return scale * *above / *below;
}

Number sum(Number a, Number b) {
  if (!a && !b) return std::nullopt;
  return a.value_or(0) + b.value_or(0);
}

void derive_from_metrics(const KernelCounters& k, Counters& counters) {
  set(counters, "sectors_per_request",
      ratio(k.find({"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"}),
          k.find({"l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"})));
  set(counters, "load_efficiency_pct",
      ratio(k.find({"smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"}), 32.0, 100));
  set(counters, "sm_active_pct",
      ratio(k.find({"sm__cycles_active.avg", "SM Active Cycles"}),
          k.find({"sm__cycles_elapsed.max", "sm__cycles_elapsed.avg", "Elapsed Cycles"}), 100));
  set(counters, "bank_conflicts",
      sum(k.find({"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"}),
          k.find({"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"})));
  set(counters, "dram_bytes", sum(k.find({"dram__bytes_read.sum"}), k.find({"dram__bytes_write.sum"})));
  set(counters, "l2_bytes_per_s",
      ratio(k.find({"lts__t_bytes.sum"}), k.find({"gpu__time_duration.sum"}), 1e9));
}

void derive_from_counters(Counters& counters) {
  const Number lanes = counters["active_lanes"], working = counters["working_lanes"];
  set(counters, "warp_efficiency_pct", ratio(lanes, 32.0, 100));
  if (lanes && working && *lanes > 0) set(counters, "predicated_off_pct", 100 * (1 - *working / *lanes));
  const Number seconds = counters["duration_us"] ? Number(*counters["duration_us"] * 1e-6) : Number();
  set(counters, "dram_bytes_per_s", ratio(counters["dram_bytes"], seconds));
  if (!counters["dram_bytes"] && counters["dram_bytes_per_s"] && seconds)
    set(counters, "dram_bytes", *counters["dram_bytes_per_s"] * *seconds);
  Number math;
  for (const char* pipe : {"fma_pipe_pct", "tensor_pipe_pct"})
    if (const Number busy = counters[pipe]; busy && busy > math) math = busy;
  set(counters, "math_pct", math);
}

// Several families of metrics tell the same shares; the first one that is there counts.
void read_stalls(const KernelCounters& kernel, Counters& counters) {
  constexpr std::pair<std::string_view, std::string_view> kForms[] = {
      {"smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"},
      {"smsp__average_warp_latency_issue_stalled_", ".ratio"}, {"smsp__pcsamp_warps_issue_stalled_", ""}};
  for (const auto& [before, after] : kForms) {
    double total = 0;
    for (auto at = kernel.metrics.lower_bound(before);
         at != kernel.metrics.end() && at->first.starts_with(before); ++at) {
      std::string_view reason = at->first;
      reason.remove_prefix(before.size());
      if (!reason.ends_with(after) || (after.empty() && reason.ends_with("_not_issued"))) continue;
      reason.remove_suffix(after.size());
      if (reason.find('.') != std::string_view::npos || reason == "selected" || !(at->second >= 0)) continue;
      counters.stalls[normal_stall(reason)] += at->second;
      total += at->second;
    }
    if (total > 0) {
      for (auto& [reason, share] : counters.stalls) share *= 100 / total;
      return;
    }
    counters.stalls.clear();
  }
}

}  // namespace

const std::vector<CounterName>& counter_names() {
  static const std::vector<CounterName> kNames = {
      {"duration_us", "time of one run, microseconds", "--section SpeedOfLight"},
      {"occupancy_pct", "warps on an SM, % of the most, while it works", "--section Occupancy"},
      {"theoretical_occupancy_pct", "warps that the resources allow, %", "--section Occupancy"},
      {"sm_active_pct", "time an SM had at least one warp, %", "--section SpeedOfLight"},
      {"dram_pct", "memory bandwidth in use, % of the peak", "--section SpeedOfLight"},
      {"dram_bytes_per_s", "memory traffic, bytes per second", "--section MemoryWorkloadAnalysis"},
      {"dram_bytes", "memory traffic of one run, bytes", "--section MemoryWorkloadAnalysis_Tables"},
      {"least_bytes", "bytes that had to move, known from the algorithm", ""},
      {"sm_pct", "the busiest part of the SM, %", "--section SpeedOfLight"},
      {"math_pct", "the busiest math pipe, %, or FLOP/s over their peak",
          "--section ComputeWorkloadAnalysis"},
      {"gflops", "10^9 floating-point operations per second", ""},
      {"intensity", "FLOP per byte of memory traffic", ""},
      {"ridge", "FLOP per byte where the roofs of this card meet", ""},
      {"fma_pipe_pct", "FMA pipe in use, %", "--section ComputeWorkloadAnalysis"},
      {"tensor_pipe_pct", "tensor pipe in use, %", "--section ComputeWorkloadAnalysis"},
      {"lsu_pipe_pct", "load/store pipe in use, %", "--section ComputeWorkloadAnalysis"},
      {"alu_pipe_pct", "integer pipe in use, %", "--section ComputeWorkloadAnalysis"},
      {"l1_pct", "L1 in use, %", "--section SpeedOfLight"},
      {"l2_pct", "L2 in use, %", "--section SpeedOfLight"},
      {"l2_bytes_per_s", "traffic between L1 and L2, bytes per second",
          "--section MemoryWorkloadAnalysis_Tables"},
      {"l1_hit_pct", "sectors found in L1, %", "--section MemoryWorkloadAnalysis"},
      {"l2_hit_pct", "sectors found in L2, %", "--section MemoryWorkloadAnalysis"},
      {"shared_pct", "shared memory in use, %", "--section MemoryWorkloadAnalysis_Tables"},
      {"load_efficiency_pct", "bytes used of bytes fetched by global loads, %",
          "--section MemoryWorkloadAnalysis_Tables"},
      {"sectors_per_request", "32-byte sectors a global load of a warp touches",
          "--section MemoryWorkloadAnalysis_Tables"},
      {"lane_bytes", "bytes per lane loads at once (lab sass tells)", ""},
      {"bank_conflicts", "extra passes through shared memory", "--section MemoryWorkloadAnalysis_Tables"},
      {"shared_wavefronts", "all passes through shared memory", "--section MemoryWorkloadAnalysis_Tables"},
      {"readonly_loads", "read-only loads in the code (lab sass tells)", ""},
      {"bulk_copies", "TMA copies in the code (lab sass tells)", ""},
      {"eligible_warps", "warps ready to issue, of one scheduler", "--section SchedulerStats"},
      {"issued_per_scheduler", "instructions per cycle of one scheduler, at most 1",
          "--section SchedulerStats"},
      {"active_lanes", "lanes that run an instruction, of 32", "--section WarpStateStats"},
      {"working_lanes", "lanes not switched off by a predicate, of 32", "--section WarpStateStats"},
      {"warp_efficiency_pct", "active lanes, % of 32", "--section WarpStateStats"},
      {"predicated_off_pct", "active lanes switched off by a predicate, %", "--section WarpStateStats"},
      {"uniform_branches_pct", "branches all lanes took the same way, %", "--section SourceCounters"},
      {"branch_stall_cycles", "cycles a warp waited for a branch", "--section WarpStateStats"},
      {"instructions", "warp instructions executed", "--section InstructionStats"},
      {"spill_instructions", "loads and stores of local memory", "--section MemoryWorkloadAnalysis_Tables"},
      {"registers", "registers a thread", "--section LaunchStats"},
      {"limit_registers", "blocks an SM can hold by registers", "--section Occupancy"},
      {"limit_shared", "blocks an SM can hold by shared memory", "--section Occupancy"},
      {"limit_warps", "blocks an SM can hold by warps", "--section Occupancy"},
      {"limit_blocks", "blocks an SM can hold at all", "--section Occupancy"},
      {"waves", "blocks over what all SMs hold at once", "--section LaunchStats"},
      {"grid_blocks", "blocks of the grid", "--section LaunchStats"},
      {"num_sms", "SMs of the card", "--section LaunchStats"},
      {"compute_capability", "of the card, e.g. 9.0", ""},
      {"timeline_gap_pct", "time without a kernel, % (a timeline tells: nsys, cheetah doctor profile)", ""},
      {"cpu_busy", "1: the host computed during the gaps", ""},
      {"copy_overlap_pct", "copies hidden behind kernels, %", ""},
      {"small_kernels_pct", "kernels shorter than 10 us, %", ""},
      {"throttled", "1: the clock was held down while measuring", ""},
      {"disturbed", "1: something else used the machine while measuring", ""},
      {"debug_build", "1: built with -G", ""},
  };
  return kNames;
}

Counters counters_from_ncu(const KernelCounters& kernel) {
  Counters counters;
  counters.name = kernel.name;
  for (const Alias& alias : aliases())
    for (const std::string_view name : alias.names)
      if (const auto value = kernel.find({name})) {
        counters.values.emplace(alias.counter, alias.scale * *value);
        break;
      }
  derive_from_metrics(kernel, counters);
  derive_from_counters(counters);
  read_stalls(kernel, counters);
  return counters;
}

}  // namespace cheetah::analysis
