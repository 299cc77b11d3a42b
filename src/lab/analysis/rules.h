// SPDX-License-Identifier: MIT
#pragma once
// What a rule is: a condition on counters in three values, and words for when it holds.
#include <functional>
#include <span>

#include "lab/analysis/diagnose.h"

namespace cheetah::analysis {

// Yes, no, or not to be told from what was collected.
enum class Tri { kNo, kUnknown, kYes };
inline Tri operator&(Tri a, Tri b) { return a < b ? a : b; }
inline Tri operator|(Tri a, Tri b) { return a > b ? a : b; }
inline Tri operator!(Tri a) { return a == Tri::kUnknown ? a : a == Tri::kYes ? Tri::kNo : Tri::kYes; }
inline Tri tri(bool known) { return known ? Tri::kYes : Tri::kNo; }
inline Tri at_least(Number n, double limit) { return n ? tri(*n >= limit) : Tri::kUnknown; }
inline Tri below(Number n, double limit) { return n ? tri(*n < limit) : Tri::kUnknown; }
// The same for what only speaks against a rule: no news is good news.
inline Tri not_above(Number n, double limit) { return tri(!n || *n < limit); }

struct Rule {
  std::string_view id, title;
  std::vector<std::string_view>
      needs;  // counters without which it cannot be judged; "stalls" for all of them
  Tri (*holds)(const Counters&);
  Finding (*words)(const Counters&);  // id and title are filled in
  Regime regime = Regime::kUnclear;   // what the kernel's regime is when this is the first rule that holds
};

// In the order of judgement: the first that holds and names a regime gives the verdict.
const std::vector<Rule>& regime_rules();  // D0-D12
const std::vector<Rule>& memory_rules();  // M1-M9
const std::vector<Rule>& launch_rules();  // O1-O6, lanes

// How busy the math pipes are: their own counter, or the SM's throughput, which includes other parts.
Number math_share(const Counters& c);
Tri math_is_low(const Counters& c);
// Loads touch more sectors than their width needs.
Tri loads_waste(const Counters& c);
// The remedies for few warps, by what limits them.
std::vector<std::string> more_warps(const Counters& c);

// "DRAM in use 25 %", for each counter that is known.
std::vector<std::string> evidence_of(const Counters& c, std::initializer_list<std::string_view> counters);
std::string stall_evidence(const Counters& c, std::string_view reason);

}  // namespace cheetah::analysis
