// SPDX-License-Identifier: MIT
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/format.h"
#include "doctor/check.h"

namespace cheetah::doctor {

using Wrong = std::optional<std::string>;

// Cards for desks come without peer access, and with error correction off.
inline bool is_for_the_desk(const Gpu& gpu) {
  for (const char* name : {"GeForce", "TITAN", "RTX", "Quadro"})
    if (contains(gpu.name(), name)) return true;
  return false;
}

// Calls `wrong` for each GPU: the text of what is wrong, "" when all is well, nullopt when it does not tell.
template <class Body>
Outcome every_gpu(const Facts& facts, const std::string& found, const std::string& otherwise, Body wrong) {
  if (!facts.gpu.gpus) return without(facts.gpu.gpus);
  if (facts.gpu.gpus->empty()) return not_applicable("the driver lists no GPU");
  std::vector<Subject> subjects;
  std::vector<Evidence> evidence;
  int told = 0;
  for (const Gpu& gpu : *facts.gpu.gpus) {
    const std::optional<std::string> what = wrong(gpu);
    if (!what) continue;
    ++told;
    if (!what->empty()) {
      subjects.push_back({format("{}", gpu.index), *what});
      evidence.push_back({format("{}#gpu.{}", gpu.source, gpu.index), *what});
    }
  }
  if (told == 0) return not_applicable("the driver does not tell it for these GPUs");
  Outcome outcome = bad_if_any(std::move(subjects), found, format("{} ({} GPUs)", otherwise, told));
  if (evidence.empty()) evidence.push_back({facts.gpu.gpus.source(), format("{} GPUs", told)});
  outcome.evidence = std::move(evidence);
  return outcome;
}

}  // namespace cheetah::doctor
