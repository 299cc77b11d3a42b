// SPDX-License-Identifier: MIT
// D0-D12: is the measurement good, is it the kernel at all, and which limit does the kernel run into.
#include "base/format.h"
#include "lab/analysis/rules.h"

namespace cheetah::analysis {
namespace {

constexpr double kNearPeak = 80, kWellBelow = 60, kLowMath = 30, kLowOccupancy = 50, kDominant = 30;

Tri stall_leads(const Counters& c, std::initializer_list<std::string_view> reasons, double least) {
  if (c.stalls.empty()) return Tri::kUnknown;
  const std::string top = c.top_stall();
  for (const std::string_view reason : reasons)
    if (top == reason) return at_least(c.stall(reason), least);
  return Tri::kNo;
}

// D0
Tri is_suspect(const Counters& c) {
  const Tri wrong = at_least(c["throttled"], 1) | at_least(c["disturbed"], 1) | at_least(c["debug_build"], 1);
  return wrong | at_least(c["spill_instructions"], 1) | below(c["duration_us"], 5);
}
Finding suspect_words(const Counters& c) {
  Finding f;
  f.evidence = evidence_of(c, {"throttled", "disturbed", "debug_build", "spill_instructions", "duration_us"});
  if (c["throttled"].value_or(0) >= 1)
    f.remedies.push_back("fix power or cooling, or lock the clocks, and measure again");
  if (c["disturbed"].value_or(0) >= 1)
    f.remedies.push_back("measure again on a machine that does nothing else");
  if (c["debug_build"].value_or(0) >= 1) f.remedies.push_back("build without -G (use -lineinfo)");
  if (c["spill_instructions"].value_or(0) >= 1)
    f.remedies.push_back(
        "registers spill to local memory: fewer live values, smaller tiles, a looser launch bound");
  if (c["duration_us"].value_or(10) < 5)
    f.remedies.push_back("under 5 us launch and tail dominate: use a size as in production");
  f.expect = {"no local loads or stores", "the same time in repeated runs"};
  const bool only_spills = c["throttled"].value_or(0) < 1 && c["debug_build"].value_or(0) < 1;
  f.strength = only_spills ? Strength::kLikely : Strength::kSure;
  return f;
}

// D1
Tri host_is_late(const Counters& c) {
  const Tri gaps = at_least(c["timeline_gap_pct"], 30);
  return gaps | (at_least(c["timeline_gap_pct"], 20) & at_least(c["small_kernels_pct"], 50));
}
Finding host_words(const Counters& c) {
  Finding f;
  f.evidence = evidence_of(
      c, {"timeline_gap_pct", "cpu_busy", "small_kernels_pct", "sm_active_pct", "load_efficiency_pct"});
  if (c["cpu_busy"].value_or(0) >= 1)
    f.remedies.push_back(
        "the host computes while the GPU waits: prepare data ahead, in more threads, or on the GPU");
  f.remedies.push_back("remove synchronising calls from the loop; use events and streams");
  f.remedies.push_back("fuse or batch small kernels, capture the step in a CUDA graph");
  f.expect = {"gaps close, the SMs are active, throughput rises; the kernel itself stays as it is"};
  return f;
}

// D2
Tri is_underutilised(const Counters& c) {
  const Tri small_grid =
      c["grid_blocks"] && c["num_sms"] ? tri(*c["grid_blocks"] < *c["num_sms"]) : Tri::kUnknown;
  const Tri idle =
      c["sm_active_pct"] ? below(c["sm_active_pct"], 50) : small_grid | at_least(c["timeline_gap_pct"], 30);
  return below(c["occupancy_pct"], kLowOccupancy) & idle & not_above(c["dram_pct"], 50) &
         not_above(math_share(c), 50);
}
Finding underutilised_words(const Counters& c) {
  Finding f;
  f.evidence = evidence_of(
      c, {"occupancy_pct", "sm_active_pct", "grid_blocks", "num_sms", "dram_pct", "math_pct", "sm_pct"});
  f.remedies = {"more blocks and threads: at least one block for each SM, usually several waves",
      "a larger batch, or split the long dimension (split-K)",
      "fuse it with its neighbours, or run independent kernels beside it in streams"};
  f.expect = {"SM active near 100 %", "time falls about as the grid grows, until another limit shows"};
  return f;
}

// D3
Tri is_compute_bound(const Counters& c) {
  const Tri throttled = stall_leads(c, {"math_pipe_throttle"}, 25);
  return (at_least(math_share(c), kNearPeak) | (throttled & at_least(math_share(c), 60))) &
         not_above(c["dram_pct"], kNearPeak);
}
Finding compute_words(const Counters& c) {
  Finding f;
  f.evidence = evidence_of(c, {"math_pct", "tensor_pipe_pct", "fma_pipe_pct", "sm_pct", "dram_pct"});
  f.evidence.push_back(stall_evidence(c, "math_pipe_throttle"));
  f.strength = c["math_pct"] ? Strength::kSure : Strength::kLikely;
  if (c["tensor_pipe_pct"].value_or(100) < 5) f.remedies.push_back("move the products to tensor cores");
  f.remedies.push_back("lower precision where the accuracy allows it (BF16, FP8)");
  f.remedies.push_back("fewer operations: share common terms, cheaper functions, no divergence");
  f.expect = {"FLOP/s rise with the pipe's new peak; DRAM in use rises as math gets cheaper"};
  return f;
}

// D4
Tri is_bandwidth_bound(const Counters& c) {
  return at_least(c["dram_pct"], kNearPeak) & not_above(math_share(c), 95);
}
Finding bandwidth_words(const Counters& c) {
  Finding f;
  f.evidence =
      evidence_of(c, {"dram_pct", "dram_bytes_per_s", "math_pct", "load_efficiency_pct", "l2_hit_pct"});
  if (loads_waste(c) == Tri::kYes) f.remedies.push_back("first stop the waste: see M1");
  f.remedies.push_back("reuse: tile in shared memory and registers, keep neighbours in time close in memory");
  f.remedies.push_back(
      "fewer bytes: fuse with the kernels that write or read the same data, smaller types, compression");
  f.expect = {
      "fewer bytes of DRAM traffic for the same result; DRAM in use may fall while time falls: that is "
      "success"};
  if (loads_waste(c) == Tri::kNo)
    f.evidence.push_back("the access pattern is clean: bandwidth is spent on wanted bytes");
  return f;
}

// D4c
Tri is_on_chip_bound(const Counters& c) {
  const Tri busy = at_least(c["l2_pct"], kNearPeak) | at_least(c["l1_pct"], kNearPeak) |
                   at_least(c["shared_pct"], kNearPeak);
  return busy & not_above(c["dram_pct"], kNearPeak);
}
Finding on_chip_words(const Counters& c) {
  Finding f;
  f.evidence = evidence_of(c, {"shared_pct", "l1_pct", "l2_pct", "dram_pct", "l1_hit_pct", "l2_hit_pct"});
  if (c["shared_pct"].value_or(0) >= kNearPeak)
    f.remedies = {
        "more work from each value read from shared memory: register blocking, wider reads (ldmatrix, 16 "
        "bytes)",
        "tensor cores, which read operands once for many products"};
  else
    f.remedies = {"keep values in registers or shared memory instead of asking the cache again",
        "wider loads, and swizzle the blocks so that neighbours share lines"};
  f.expect = {"fewer passes for the same result, FLOP/s rise"};
  return f;
}

// D5
Tri is_latency_bound(const Counters& c) {
  const Tri waits = stall_leads(c, {"long_scoreboard", "wait", "short_scoreboard"}, kDominant) |
                    (c.stalls.empty() ? below(c["eligible_warps"], 0.75) : Tri::kNo);
  return below(c["dram_pct"], kWellBelow) & math_is_low(c) & waits;
}
Finding latency_words(const Counters& c) {
  Finding f;
  f.evidence = evidence_of(c, {"dram_pct", "math_pct", "sm_pct", "occupancy_pct", "eligible_warps"});
  if (!c.top_stall().empty()) f.evidence.push_back(stall_evidence(c, c.top_stall()));
  if (loads_waste(c) == Tri::kYes) f.remedies.push_back("stop the waste first: see M1");
  if (c["occupancy_pct"] && *c["occupancy_pct"] < kLowOccupancy)
    for (std::string& remedy : more_warps(c)) f.remedies.push_back(std::move(remedy));
  f.remedies.push_back(
      "more independent work in each thread: unroll by 2 to 4 with separate accumulators, loads first");
  f.remedies.push_back("load ahead: cp.async or TMA into a ring of 2 to 4 buffers");
  f.expect = {"less waiting, more eligible warps, DRAM or math in use rises"};
  f.strength = c.stalls.empty() ? Strength::kLikely : Strength::kSure;
  return f;
}

// D6
Tri waits_for_itself(const Counters& c) {
  return stall_leads(c, {"barrier", "membar", "no_instruction", "imc_miss", "dispatch", "sleeping"}, 25);
}
Finding wait_words(const Counters& c) {
  Finding f;
  const std::string top = c.top_stall();
  f.evidence = {stall_evidence(c, top)};
  if (top == "barrier" || top == "membar" || top == "sleeping")
    f.remedies = {"fewer and narrower barriers: warp or named barriers, mbarriers, pipelines",
        "balance the work between the warps of a block", "smaller blocks, so that fewer warps wait"};
  else
    f.remedies = {"shrink the code of the loop: less unrolling and inlining",
        "split the kernel where its parts differ"};
  f.expect = {"that stall falls below 10 %"};
  return f;
}

// D8
Tri diverges(const Counters& c) {
  const Tri signs = at_least(c["predicated_off_pct"], 10) | below(c["uniform_branches_pct"], 90) |
                    at_least(c.stall("branch_resolving"), 10) | at_least(c["branch_stall_cycles"], 150);
  return below(c["warp_efficiency_pct"], 80) & signs;
}
Finding divergence_words(const Counters& c) {
  Finding f;
  f.evidence = evidence_of(c, {"warp_efficiency_pct", "predicated_off_pct", "uniform_branches_pct",
                                  "branch_stall_cycles", "instructions"});
  f.remedies = {"short branches: select both values instead of branching",
      "long branches: sort or partition the data so that a warp goes one way; branch on the warp's number",
      "one kernel for each case, or votes that hand the rare case to few lanes"};
  f.expect = {"warp efficiency near 100 %, fewer instructions, time down by at most the idle lanes' share"};
  return f;
}

// D9
Tri warps_are_plenty(const Counters& c) {
  return at_least(c["eligible_warps"], 2) & not_above(math_share(c), kNearPeak);
}
Finding plenty_words(const Counters& c) {
  return {.strength = Strength::kNote,
      .evidence = evidence_of(c, {"eligible_warps", "issued_per_scheduler", "occupancy_pct"}),
      .remedies = {"more threads will not help: look at bandwidth and dependencies"},
      .expect = {}};
}

// D10
Tri occupancy_is_not_it(const Counters& c) {
  return at_least(c["occupancy_pct"], kLowOccupancy) & stall_leads(c, {"long_scoreboard"}, kDominant) &
         not_above(c["dram_pct"], kNearPeak);
}
Finding not_occupancy_words(const Counters& c) {
  Finding f;
  f.evidence = evidence_of(c, {"occupancy_pct", "dram_pct"});
  f.evidence.push_back(stall_evidence(c, "long_scoreboard"));
  f.remedies = {"the access pattern, or overlap of loads and math; more warps will not help"};
  f.expect = {"waiting for memory falls at the same occupancy"};
  return f;
}

// D11
Tri chains_are_long(const Counters& c) {
  return at_least(math_share(c), kLowMath) & below(c["dram_pct"], 40) &
         stall_leads(c, {"wait", "short_scoreboard"}, 25);
}
Finding chain_words(const Counters& c) {
  Finding f;
  f.evidence = evidence_of(c, {"math_pct", "sm_pct", "dram_pct"});
  f.evidence.push_back(stall_evidence(c, c.top_stall()));
  f.remedies = {"independent instructions side by side: 2 to 4 accumulators, unrolled loops",
      "then more warps, if registers allow"};
  f.expect = {"instructions per cycle rise (at most 1 per scheduler), this stall falls"};
  return f;
}

// D12
Tri roof_is_far(const Counters& c) {
  if (!c["intensity"] || !c["ridge"]) return Tri::kUnknown;
  return tri(*c["intensity"] > *c["ridge"]) & below(c["math_pct"], 50);
}
Finding far_words(const Counters& c) {
  return {.strength = Strength::kLikely,
      .evidence = evidence_of(c, {"intensity", "ridge", "math_pct"}),
      .remedies =
          {"intensity is not the problem: hide latency (more warps, load ahead) or shorten chains (ILP)"},
      .expect = {"the point rises on the roofline at the same intensity"}};
}

}  // namespace

const std::vector<Rule>& regime_rules() {
  static const std::vector<Rule> kRules = {
      {"D0", "The measurement is suspect", {"throttled", "spill_instructions"}, is_suspect, suspect_words},
      {"D1", "The GPU waits for the program", {"timeline_gap_pct"}, host_is_late, host_words, Regime::kHost},
      {"D2", "Too little work for this GPU", {"occupancy_pct", "sm_active_pct"}, is_underutilised,
          underutilised_words, Regime::kUnderutilised},
      {"D3", "Bound by the math pipes", {"math_pct", "dram_pct"}, is_compute_bound, compute_words,
          Regime::kCompute},
      {"D4", "Bound by memory bandwidth", {"dram_pct"}, is_bandwidth_bound, bandwidth_words,
          Regime::kBandwidth},
      {"D4c", "Bound by caches or shared memory", {"l1_pct", "l2_pct", "shared_pct"}, is_on_chip_bound,
          on_chip_words, Regime::kOnChip},
      {"D5", "Bound by latency", {"dram_pct", "math_pct", "stalls"}, is_latency_bound, latency_words,
          Regime::kLatency},
      {"D6", "Warps wait for each other or for instructions", {"stalls"}, waits_for_itself, wait_words,
          Regime::kSynchronisation},
      {"D8", "Lanes of a warp go different ways", {"warp_efficiency_pct", "predicated_off_pct"}, diverges,
          divergence_words, Regime::kDivergence},
      {"D11", "Instructions wait for the one before", {"math_pct", "dram_pct", "stalls"}, chains_are_long,
          chain_words, Regime::kLatency},
      {"D12", "Intense enough, yet far below the roof", {"intensity", "ridge", "math_pct"}, roof_is_far,
          far_words, Regime::kLatency},
      {"D10", "Enough warps, and they still wait for memory", {"occupancy_pct", "stalls"},
          occupancy_is_not_it, not_occupancy_words},
      {"D9", "Warps are plenty", {"eligible_warps"}, warps_are_plenty, plenty_words},
  };
  return kRules;
}

}  // namespace cheetah::analysis
