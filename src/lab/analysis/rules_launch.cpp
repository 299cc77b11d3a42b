// SPDX-License-Identifier: MIT
// O1-O6: occupancy and launch shape; and what the other rules share.
#include <algorithm>

#include "base/format.h"
#include "base/table.h"
#include "lab/analysis/rules.h"

namespace cheetah::analysis {
namespace {

// O1
Tri occupancy_is_low(const Counters& c) { return below(c["occupancy_pct"], 50); }
// Nothing is busy: neither memory nor math.
Tri is_slow(const Counters& c) {
  if (!c["dram_pct"] && !math_share(c)) return below(c["sm_active_pct"], 80);
  return not_above(c["dram_pct"], 60) & not_above(math_share(c), 60);
}
Finding occupancy_words(const Counters& c) {
  Finding f;
  f.evidence = evidence_of(c, {"occupancy_pct", "theoretical_occupancy_pct", "waves"});
  if (is_slow(c) != Tri::kYes) {
    f.strength = Strength::kNote;
    f.remedies = {
        "nothing here says that it costs time: low occupancy with independent work in each thread can be "
        "best"};
    return f;
  }
  f.remedies = more_warps(c);
  f.expect = {"fewer cycles without an eligible warp, memory or math in use rises; if not, undo it",
      "gains beyond 50 to 70 % occupancy are small"};
  return f;
}

// O2
Tri occupancy_suffices(const Counters& c) {
  return at_least(c["occupancy_pct"], 50) & at_least(c["dram_pct"], 80);
}
Finding suffices_words(const Counters& c) {
  return {.strength = Strength::kNote,
      .evidence = evidence_of(c, {"occupancy_pct", "dram_pct"}),
      .remedies = {"leave occupancy alone: memory is the limit"},
      .expect = {}};
}

// O6
Tri registers_limit(const Counters& c) {
  const Number by_registers = c["limit_registers"];
  Tri limits = Tri::kUnknown;
  if (by_registers) {
    bool least = true;
    for (const char* other : {"limit_shared", "limit_warps", "limit_blocks"})
      least = least && (!c[other] || *by_registers < *c[other]);
    limits = tri(least);
  }
  return below(c["occupancy_pct"], 50) & at_least(c["registers"], 48) & limits & is_slow(c);
}
Finding registers_words(const Counters& c) {
  return {.strength = Strength::kLikely,
      .evidence =
          evidence_of(c, {"registers", "limit_registers", "limit_shared", "limit_warps", "occupancy_pct"}),
      .remedies = {"fewer live values, less unrolling",
          "__launch_bounds__ or -maxrregcount, as long as nothing spills (ptxas -v)",
          "lab occupancy tells which count gives the next block"},
      .expect = {"occupancy rises; local loads and stores stay 0"}};
}

// LANES
Tri lanes_are_few(const Counters& c) {
  return below(c["warp_efficiency_pct"], 50) & not_above(c["predicated_off_pct"], 10);
}
Finding lanes_words(const Counters& c) {
  return {.strength = c["warp_efficiency_pct"].value_or(100) < 25 ? Strength::kSure : Strength::kLikely,
      .evidence = evidence_of(c, {"warp_efficiency_pct", "active_lanes"}),
      .remedies = {"give every lane work: one thread per element, blocks of whole warps",
          "if lanes left early or took other branches, see D8"},
      .expect = {"warp efficiency near 100 %"}};
}

std::string shown(double value) {
  return std::abs(value) >= 1e6 ? human_count(value) : format("{:.4g}", value);
}

}  // namespace

Number math_share(const Counters& c) { return c["math_pct"] ? c["math_pct"] : c["sm_pct"]; }

Tri math_is_low(const Counters& c) {
  // The SM's throughput counts loads and issue slots too, so that it is higher than the math it does.
  return c["math_pct"] ? below(c["math_pct"], 30) : below(c["sm_pct"], 60);
}

std::vector<std::string> more_warps(const Counters& c) {
  const std::pair<const char*, const char*> limits[] = {
      {"limit_registers", "registers limit the warps: fewer live values, a launch bound that does not spill"},
      {"limit_shared", "shared memory limits the warps: smaller tiles or types, a larger carve-out"},
      {"limit_warps", "threads limit the warps: another block size (lab occupancy)"},
      {"limit_blocks", "block slots limit the warps: larger blocks"}};
  std::vector<std::string> remedies;
  Number least;
  for (const auto& [name, remedy] : limits)
    if (c[name] && (!least || *c[name] < *least)) least = c[name];
  const Number theory = c["theoretical_occupancy_pct"];
  if (theory && c["occupancy_pct"] && *c["occupancy_pct"] < *theory - 20)
    remedies.push_back("resources would allow more: a small grid, a tail or uneven blocks keep warps away");
  else
    for (const auto& [name, remedy] : limits)
      if (least && c[name] == least && theory.value_or(0) < 99) remedies.push_back(remedy);
  if (remedies.empty())
    remedies.push_back(
        "more warps: a bigger grid, blocks of 128 to 256 threads, fewer registers or less shared memory");
  return remedies;
}

std::vector<std::string> evidence_of(const Counters& c, std::initializer_list<std::string_view> counters) {
  std::vector<std::string> evidence;
  for (const CounterName& known : counter_names())
    if (std::ranges::find(counters, known.name) != counters.end())
      if (const Number value = c[known.name])
        evidence.push_back(format("{}: {}", known.meaning, shown(*value)));
  return evidence;
}

std::string stall_evidence(const Counters& c, std::string_view reason) {
  const Number share = c.stall(reason);
  return share ? format("{:.0f} % of the waiting is {}", *share, reason) : "";
}

const std::vector<Rule>& launch_rules() {
  static const std::vector<Rule> kRules = {
      {"LANES", "Few lanes of a warp have work", {"warp_efficiency_pct"}, lanes_are_few, lanes_words},
      {"O1", "Occupancy is low", {"occupancy_pct"}, occupancy_is_low, occupancy_words},
      {"O2", "Occupancy suffices", {"occupancy_pct", "dram_pct"}, occupancy_suffices, suffices_words},
      {"O6", "Registers keep warps away", {"registers", "limit_registers", "occupancy_pct"}, registers_limit,
          registers_words},
  };
  return kRules;
}

}  // namespace cheetah::analysis
