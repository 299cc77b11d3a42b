// SPDX-License-Identifier: MIT
#include "lab/experiment.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace cheetah::lab {
namespace {

struct Registry {
  std::vector<std::unique_ptr<Experiment>> owned;
  std::vector<const Experiment*> by_id;
};

// Experiments register themselves before main, in any order: the first one makes the registry.
Registry& registry() {
  static Registry all;
  return all;
}

}  // namespace

Registered::Registered(Experiment experiment) {
  CHEETAH_ASSERT(!experiment.variants.empty() && !experiment.sizes.empty() && experiment.make,
      "an experiment has variants, sizes and code");
  if (experiment.domain == Domain::kCpu) experiment.timing = Timing::kWallClock;
  if (experiment.quick.empty()) experiment.quick = {experiment.sizes.front()};
  Registry& all = registry();
  all.owned.push_back(std::make_unique<Experiment>(std::move(experiment)));
  const Experiment* added = all.owned.back().get();
  const auto at = std::ranges::lower_bound(all.by_id, added->id, {}, [](const auto* e) { return e->id; });
  CHEETAH_ASSERT(at == all.by_id.end() || (*at)->id != added->id, "two experiments have one id");
  all.by_id.insert(at, added);
}

std::span<const Experiment* const> all_experiments() { return registry().by_id; }

bool matches_glob(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || (pattern[p] == text[t] && pattern[p] != '*'))) {
      ++p, ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::vector<const Experiment*> find_experiments(std::span<const std::string> patterns) {
  std::vector<const Experiment*> found;
  for (const std::string& pattern : patterns) {
    const size_t before = found.size();
    for (const Experiment* each : all_experiments())
      if (matches_glob(pattern, each->id)) found.push_back(each);
    if (found.size() == before)
      throw UsageError(
          format("'{}' matches no experiment; 'cheetah lab list' shows all", printable(pattern)));
  }
  std::ranges::sort(found, {}, [](const Experiment* e) { return e->id; });
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

std::vector<Size> sizes_of(std::initializer_list<int64_t> counts) {
  std::vector<Size> sizes;
  for (const int64_t count : counts) {
    std::string label = format("{}", count);
    for (const auto& [unit, suffix] :
        {std::pair{int64_t{1} << 30, "G"}, {int64_t{1} << 20, "M"}, {int64_t{1} << 10, "K"}})
      if (count >= unit && count % unit == 0) {
        label = format("{}{}", count / unit, suffix);
        break;
      }
    sizes.push_back({.label = label, .dims = {count}});
  }
  return sizes;
}

std::string_view name_of(Domain domain) { return domain == Domain::kCpu ? "cpu" : "cuda"; }

std::string_view name_of(Timing timing) {
  constexpr std::string_view kNames[] = {"graph", "events", "wall clock"};
  return kNames[static_cast<size_t>(timing)];
}

namespace {
constexpr std::string_view kRoofNames[] = {"none", "DRAM", "DRAM read", "L3", "L2", "L1", "FP32",
    "BF16 tensor", "FP8 tensor", "host link", "core DRAM", "core FP32", "launch"};
static_assert(std::size(kRoofNames) == kNumRoofs);
}  // namespace

std::string_view name_of(Roof roof) { return kRoofNames[static_cast<size_t>(roof)]; }

std::optional<Roof> roof_named(std::string_view name) {
  const auto at = std::ranges::find(kRoofNames, name);
  if (at == std::end(kRoofNames)) return std::nullopt;
  return static_cast<Roof>(at - std::begin(kRoofNames));
}

bool counts_flops(Roof roof) {
  return roof == Roof::kFp32 || roof == Roof::kTensorBf16 || roof == Roof::kTensorFp8 ||
         roof == Roof::kCoreFp32;
}

bool counts_bytes(Roof roof) { return roof != Roof::kNone && roof != Roof::kLaunch && !counts_flops(roof); }

}  // namespace cheetah::lab
