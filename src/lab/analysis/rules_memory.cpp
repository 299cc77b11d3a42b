// SPDX-License-Identifier: MIT
// M1-M9: how the kernel uses memory.
#include "base/format.h"
#include "lab/analysis/rules.h"

namespace cheetah::analysis {
namespace {

Number throttle_share(const Counters& c) {
  if (c.stalls.empty()) return std::nullopt;
  return *c.stall("lg_throttle") + *c.stall("mio_throttle");
}

// M1
Finding waste_words(const Counters& c) {
  Finding f;
  f.evidence = evidence_of(c, {"sectors_per_request", "load_efficiency_pct", "dram_pct", "sm_active_pct"});
  if (const Number width = c["lane_bytes"])
    f.evidence.push_back(
        format("{:.0f} sectors per request are ideal for {:.0f}-byte lanes", *width, *width));
  f.remedies = {"neighbouring lanes take neighbouring elements (index by the global thread number)",
      "structure of arrays instead of array of structures", "align the base to 128 bytes",
      "stage the tile through shared memory"};
  f.expect = {
      "sectors per request fall to the ideal, efficiency rises to 100 %, DRAM in use rises, time falls"};
  return f;
}

// M2
Tri loads_are_narrow(const Counters& c) {
  const Tri clean = c["sectors_per_request"] || c["load_efficiency_pct"] ? !loads_waste(c) : Tri::kUnknown;
  const Tri narrow = c["lane_bytes"] ? below(c["lane_bytes"], 16) : Tri::kYes;
  return clean & narrow & (at_least(throttle_share(c), 15) | at_least(c["lsu_pipe_pct"], 70));
}
Finding narrow_words(const Counters& c) {
  Finding f;
  f.strength = c["lane_bytes"] ? Strength::kSure : Strength::kLikely;
  f.evidence = evidence_of(c, {"sectors_per_request", "lane_bytes", "lsu_pipe_pct", "load_efficiency_pct"});
  f.evidence.push_back(stall_evidence(c, "lg_throttle"));
  f.remedies = {"16 bytes per lane (float4), where base and length allow it; a scalar tail",
      "lab sass shows whether it was emitted"};
  f.expect = {"a quarter of the load instructions for the same bytes"};
  return f;
}

// M3
Tri reads_again(const Counters& c) {
  Tri again = Tri::kUnknown;
  if (c["least_bytes"] && c["dram_bytes"])
    again = tri(*c["dram_bytes"] >= 1.5 * *c["least_bytes"]);
  else if (c["gflops"])
    again = tri(*c["gflops"] > 0);
  else
    again = at_least(c["l1_hit_pct"], 40);
  return at_least(c["dram_pct"], 80) & not_above(math_share(c), 50) & again;
}
Finding again_words(const Counters& c) {
  Finding f;
  f.strength = c["least_bytes"] ? Strength::kSure : Strength::kLikely;
  f.evidence = evidence_of(c, {"dram_pct", "gflops", "math_pct", "dram_bytes", "least_bytes", "l1_hit_pct"});
  f.remedies = {"tile the operands in shared memory, so that each is read once a block",
      "block in registers: several results a thread", "fuse with the neighbour kernels", "lower precision"};
  f.expect = {"DRAM in use falls while FLOP/s and FLOP per byte rise: a falling DRAM share is success here"};
  return f;
}

// M4
Tri banks_conflict(const Counters& c) {
  if (!c["bank_conflicts"]) return Tri::kUnknown;
  if (*c["bank_conflicts"] <= 0) return Tri::kNo;
  return c["shared_wavefronts"] ? tri(*c["bank_conflicts"] > 0.05 * *c["shared_wavefronts"]) : Tri::kYes;
}
Finding conflict_words(const Counters& c) {
  Finding f;
  f.evidence = evidence_of(c, {"bank_conflicts", "shared_wavefronts", "shared_pct"});
  f.evidence.push_back(stall_evidence(c, "short_scoreboard"));
  f.evidence.push_back(stall_evidence(c, "mio_throttle"));
  f.remedies = {"pad each row by one word", "or swizzle: column ^ row, for no memory",
      "another mapping of lanes to elements; shuffles inside a warp",
      "lab access finds the smallest pad and swizzle"};
  f.expect = {"no conflicts, shared memory in use rises, those stalls vanish"};
  return f;
}

// M5
Tri exchange_needs_no_memory(const Counters& c) {
  const Tri uses_shared = at_least(c["shared_wavefronts"], 1) | at_least(c["shared_pct"], 1);
  return at_least(c.stall("barrier"), 20) & uses_shared;
}
Finding exchange_words(const Counters& c) {
  return {.strength = Strength::kLikely,
      .evidence = {stall_evidence(c, "barrier")},
      .remedies =
          {"where lanes of one warp exchange values: shuffles or cooperative-group reduces, no barrier",
              "across warps: one value per warp through shared memory, one barrier"},
      .expect = {"fewer shared loads, stores and barriers"}};
}

// M6
Tri tables_are_fetched_again(const Counters& c) {
  if (c["readonly_loads"].value_or(0) > 0 || c["l1_hit_pct"].value_or(0) > 80) return Tri::kNo;
  const Number l2 = c["l2_bytes_per_s"], dram = c["dram_bytes_per_s"];
  if (!l2 || !dram) return Tri::kUnknown;
  // L2 serves more than it reads, so data is asked for again; yet a fifth still misses.
  return tri(*l2 >= 1.5 * *dram && *dram >= 0.2 * *l2) & not_above(c["sm_active_pct"], 80);
}
Finding table_words(const Counters& c) {
  return {.strength = Strength::kLikely,
      .evidence = evidence_of(c,
          {"l2_bytes_per_s", "dram_bytes_per_s", "load_efficiency_pct", "sm_active_pct", "readonly_loads"}),
      .remedies = {"const __restrict__ or __ldg, so that the read-only path may keep it",
          "constant memory when all lanes read one address of at most 64 KiB",
          "textures for 2D and 3D neighbourhoods"},
      .expect = {"hits and L2 throughput rise, DRAM traffic falls; on Hopper parity is possible: L1 "
                 "keeps plain loads too"}};
}

// M7
Tri latency_is_exposed(const Counters& c) {
  if (!c.stalls.empty())
    return tri(c.top_stall() == "long_scoreboard") & at_least(c.stall("long_scoreboard"), 30) &
           not_above(c["dram_pct"], 80) & tri(loads_waste(c) != Tri::kYes);
  const Tri loads = c["load_efficiency_pct"] || c["sectors_per_request"] ? Tri::kYes : Tri::kUnknown;
  return loads & below(c["dram_pct"], 60) & below(c["sm_active_pct"], 80);
}
Finding exposed_words(const Counters& c) {
  Finding f;
  f.strength = c.stalls.empty() ? Strength::kLikely : Strength::kSure;
  f.evidence = evidence_of(c, {"dram_pct", "sm_active_pct"});
  f.evidence.push_back(stall_evidence(c, "long_scoreboard"));
  if (loads_waste(c) == Tri::kYes) f.remedies.push_back("M1 first; this only if waiting remains");
  f.remedies.push_back("load the next tile while this one is computed: cp.async, 2 buffers");
  f.remedies.push_back("TMA with an mbarrier and 3 to 4 stages on Hopper and later");
  f.expect = {"SM active near 100 %, waiting for memory falls"};
  return f;
}

// M8
Tri threads_copy(const Counters& c) {
  const Tri pressed = at_least(c["lsu_pipe_pct"], 60) & at_least(c["alu_pipe_pct"], 30);
  return pressed & math_is_low(c) & tri(c["bulk_copies"].value_or(0) == 0);
}
Finding copy_words(const Counters& c) {
  return {.strength = Strength::kLikely,
      .evidence = evidence_of(c, {"lsu_pipe_pct", "alu_pipe_pct", "math_pct", "bulk_copies"}),
      .remedies = {"let TMA copy whole tiles (cp.async.bulk): one thread issues, no address math"},
      .expect = {"fewer load and store instructions, issue slots for math"}};
}

// M9
Tri copies_wait(const Counters& c) { return below(c["copy_overlap_pct"], 50); }
Finding copies_wait_words(const Counters& c) {
  return {.evidence = evidence_of(c, {"copy_overlap_pct"}),
      .remedies = {"pinned host memory; pageable copies cannot overlap",
          "cudaMemcpyAsync in a stream of its own, not the default stream",
          "events between copy and kernel instead of synchronising"},
      .expect = {"copies lie beside kernels on the timeline"}};
}

}  // namespace

Tri loads_waste(const Counters& c) {
  const Number sectors = c["sectors_per_request"], efficiency = c["load_efficiency_pct"],
               width = c["lane_bytes"];
  if (sectors && width) return tri(*sectors > 1.1 * *width);  // a warp of w-byte lanes needs w sectors
  if (efficiency) return tri(*efficiency < 80);
  return Tri::kUnknown;
}

const std::vector<Rule>& memory_rules() {
  static const std::vector<Rule> kRules = {
      {"M1", "Global loads waste their sectors", {"load_efficiency_pct", "sectors_per_request"}, loads_waste,
          waste_words, Regime::kAccess},
      {"M2", "Many narrow loads", {"sectors_per_request", "stalls", "lsu_pipe_pct"}, loads_are_narrow,
          narrow_words, Regime::kAccess},
      {"M3", "The same data is read from memory again", {"dram_pct", "l1_hit_pct"}, reads_again, again_words,
          Regime::kBandwidth},
      {"M4", "Shared memory banks conflict", {"bank_conflicts"}, banks_conflict, conflict_words,
          Regime::kAccess},
      {"M5", "Shared memory where shuffles would do", {"stalls", "shared_wavefronts"},
          exchange_needs_no_memory, exchange_words, Regime::kSynchronisation},
      {"M6", "Read-only data is fetched again and again", {"l2_bytes_per_s", "dram_bytes_per_s"},
          tables_are_fetched_again, table_words, Regime::kAccess},
      {"M7", "Loads are not hidden behind work", {"stalls", "dram_pct"}, latency_is_exposed, exposed_words,
          Regime::kLatency},
      {"M8", "Threads copy what a copy engine could", {"lsu_pipe_pct", "alu_pipe_pct"}, threads_copy,
          copy_words, Regime::kAccess},
      {"M9", "Copies and kernels do not overlap", {"copy_overlap_pct"}, copies_wait, copies_wait_words,
          Regime::kHost},
  };
  return kRules;
}

}  // namespace cheetah::analysis
