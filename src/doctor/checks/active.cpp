// SPDX-License-Identifier: MIT
// ACT: what doctor test found: wrong bits, and rates that did not hold.
#include <algorithm>
#include <map>

#include "base/format.h"
#include "base/statistics.h"
#include "doctor/check.h"

namespace cheetah::doctor {
namespace {

constexpr double kLeastHeld = 0.90, kLeastOfMedian = 0.80, kLeastOfHistory = 0.85;

// The results whose names are prefix + anything + suffix, by the part between.
std::map<std::string, double> results_of(
    const Facts& facts, std::string_view prefix, std::string_view suffix) {
  std::map<std::string, double> found;
  for (const auto& [name, text] : facts.measured->values) {
    if (!starts_with(name, prefix) || name.size() < prefix.size() + suffix.size() || !name.ends_with(suffix))
      continue;
    if (const auto number = to_number(text))
      found[name.substr(prefix.size(), name.size() - prefix.size() - suffix.size())] = *number;
  }
  return found;
}

template <class Body>
Outcome with_results(const Facts& facts, std::string_view prefix, std::string_view suffix, Body body) {
  if (!facts.measured) return not_applicable("nothing was tested (cheetah doctor test)");
  const auto found = results_of(facts, prefix, suffix);
  if (found.empty()) return not_applicable(format("no {}* result (cheetah doctor test)", suffix));
  return body(found);
}

Outcome no_wrong(const Facts& facts, const char* suffix, const char* found, const char* otherwise) {
  return with_results(facts, "gpu.", suffix, [&](const std::map<std::string, double>& errors) {
    std::vector<Subject> wrong;
    for (const auto& [gpu, count] : errors)
      if (count > 0) wrong.push_back({"GPU " + gpu, format("{:.0f} words", count)});
    return bad_if_any(std::move(wrong), found, format("{} ({} GPUs)", otherwise, errors.size()));
  });
}
Outcome memory_keeps_its_bits(const Facts& facts) {
  return no_wrong(facts, ".memory_test.errors", "GPU memory returned other bits than were written",
      "GPU memory keeps every pattern");
}
Outcome products_are_equal(const Facts& facts) {
  return no_wrong(facts, ".stress.errors", "GPUs computed different results of the same product",
      "every product equals the first, bit by bit");
}

Outcome peers_keep_bits(const Facts& facts) {
  if (!facts.measured) return not_applicable("nothing was tested (cheetah doctor test)");
  return when_known(
      [](double wrong) {
        return judge(wrong == 0, format("{:.0f} words arrived wrong between GPUs", wrong));
      },
      facts.measured->number("peer.errors"));
}

Outcome rates_hold(const Facts& facts) {
  return with_results(facts, "gpu.", ".stress.gemm_last", [&](const std::map<std::string, double>& last) {
    const auto first = results_of(facts, "gpu.", ".stress.gemm_first"),
               throttled = results_of(facts, "gpu.", ".stress.throttled_s");
    std::vector<Subject> dropping;
    double worst = 1;
    for (const auto& [gpu, rate] : last) {
      const auto begin = first.find(gpu);
      const double held = begin == first.end() || begin->second <= 0 ? 1 : rate / begin->second;
      const auto slow = throttled.find(gpu);
      const double seconds = slow == throttled.end() ? 0 : slow->second;
      worst = std::min(worst, held);
      if (held < kLeastHeld || seconds > 1)
        dropping.push_back({"GPU " + gpu,
            format("{:.0f} % of its first rate, slowed down for {:.0f} s", 100 * held, seconds)});
    }
    Outcome outcome = bad_if_any(std::move(dropping), "GPUs do not hold their rate under load",
        format("every GPU holds at least {:.0f} % of its first rate", 100 * worst));
    outcome.risk = std::clamp(1 - worst, 0.05, 0.9);
    return outcome;
  });
}

Outcome gpus_are_equally_fast(const Facts& facts) {
  return with_results(facts, "gpu.", ".stress.gemm_last", [&](const std::map<std::string, double>& rates) {
    if (rates.size() < 2) return not_applicable("there is one GPU");
    std::vector<double> all;
    for (const auto& [gpu, rate] : rates) all.push_back(rate);
    const double middle = median(all);
    std::vector<Subject> slow;
    for (const auto& [gpu, rate] : rates)
      if (rate < 0.93 * middle)
        slow.push_back({"GPU " + gpu, format("{:.0f} % of the median", 100 * rate / middle)});
    return bad_if_any(std::move(slow), "GPUs are slower than their neighbours", "all GPUs are equally fast");
  });
}

Outcome pairs_are_equally_fast(const Facts& facts) {
  return with_results(facts, "peer.", ".copy", [&](const std::map<std::string, double>& rates) {
    std::vector<double> all;
    for (const auto& [pair, rate] : rates) all.push_back(rate);
    const double middle = median(all);
    std::vector<Subject> slow;
    for (const auto& [pair, rate] : rates)
      if (rate < kLeastOfMedian * middle)
        slow.push_back({"GPUs " + pair, format("{:.0f} of {:.0f} GB/s", rate / 1e9, middle / 1e9)});
    return bad_if_any(std::move(slow), "pairs of GPUs copy slower than the others",
        format("{} pairs copy at {:.0f} GB/s", rates.size(), middle / 1e9));
  });
}

bool is_rate(std::string_view name) {
  for (const char* part : {"gemm", "stream", "copy", "pinned", "disk.read", "disk.write", "memory.read"})
    if (contains(name, part)) return !contains(name, "_us") && !contains(name, "latency");
  return false;
}

Outcome rates_are_as_before(const Facts& facts) {
  if (!facts.measured) return not_applicable("nothing was measured");
  if (facts.measured_before.empty()) return not_applicable("no earlier results (--history FILE keeps them)");
  std::vector<Subject> slower;
  int compared = 0;
  for (const auto& [name, usual] : facts.measured_before) {
    const auto now = facts.measured->number(name);
    if (!now || !is_rate(name) || usual <= 0) continue;
    ++compared;
    if (*now < kLeastOfHistory * usual)
      slower.push_back({name, format("{:.0f} % of its usual rate", 100 * *now / usual)});
  }
  if (compared == 0) return not_applicable("no rate was measured before");
  return bad_if_any(
      std::move(slower), "slower than this machine was before", format("{} rates are as before", compared));
}

constexpr Check kChecks[] = {
    {"ACT-01", Layer::kMeasured, Level::kFail, 0.60, "GPU memory keeps its bits",
        "A bit that does not stay is a wrong weight or a wrong token.", "wrong results", FixKind::kAdvice,
        "drain the node; reset {it}, and replace it when the test fails again", "", "J10",
        memory_keeps_its_bits},
    {"ACT-02", Layer::kMeasured, Level::kFail, 0.60, "GPUs compute the same twice",
        "A core that computes wrongly now and then spoils a training run without a message.", "wrong results",
        FixKind::kAdvice, "drain the node and have {it} replaced", "", "J10", products_are_equal},
    {"ACT-03", Layer::kMeasured, Level::kFail, 0.60, "Copies between GPUs arrive whole",
        "A link that changes bits spoils every collective.", "wrong results", FixKind::kAdvice,
        "drain the node; reset the GPUs and the fabric; replace the board", "", "J10,E06", peers_keep_bits},
    {"ACT-04", Layer::kMeasured, Level::kFail, 0.15, "GPUs hold their rate",
        "A GPU that slows down when it is warm is the straggler of every long job.",
        "the drop, for the whole job", FixKind::kFirmware, "check cooling and power of {it}", "", "R02,J10",
        rates_hold},
    {"ACT-05", Layer::kMeasured, Level::kWarn, 0.10, "GPUs are equally fast",
        "Collectives run at the pace of the slowest.", "the slow GPU's deficit, times all", FixKind::kAdvice,
        "compare clocks, power limit and temperature of {it} with the others", "", "J10",
        gpus_are_equally_fast},
    {"ACT-06", Layer::kMeasured, Level::kFail, 0.20, "Pairs of GPUs are equally fast",
        "One slow pair slows every ring that passes through it.", "collectives at the slow pair's rate",
        FixKind::kAdvice, "look at the NVLinks of {it} (GPU-16), IOMMU and ACS", "", "E01,J10",
        pairs_are_equally_fast},
    {"ACT-07", Layer::kMeasured, Level::kWarn, 0.10, "The machine is as fast as before",
        "A part that ages or a setting that changed shows first against its own past.", "the loss since then",
        FixKind::kAdvice, "look at what changed since: cheetah doctor diff", "", "J10", rates_are_as_before},
};

}  // namespace

std::span<const Check> active_checks() { return kChecks; }

}  // namespace cheetah::doctor
