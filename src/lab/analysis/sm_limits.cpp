// SPDX-License-Identifier: MIT
#include "lab/analysis/sm_limits.h"

#include <string>

#include "base/error.h"
#include "base/format.h"

namespace cheetah::analysis {
namespace {

constexpr SmLimits kLimits[] = {
    {8, 0, "A100", 108, 64, 32, 164 * 1024, 163 * 1024},
    {8, 6, "A40", 84, 48, 16, 100 * 1024, 99 * 1024},
    {8, 9, "L40S", 142, 48, 24, 100 * 1024, 99 * 1024},
    {9, 0, "H200", 132, 64, 32, 228 * 1024, 227 * 1024},
    {10, 0, "B200", 148, 64, 32, 228 * 1024, 227 * 1024},
    {12, 0, "RTX PRO 6000 Blackwell", 188, 48, 24, 100 * 1024, 99 * 1024},
};

// "sm_90a" and "9.0" -> "90".
std::string digits_of(std::string_view text) {
  std::string digits;
  for (const char c : text)
    if (c >= '0' && c <= '9') digits += c;
  return digits;
}

}  // namespace

std::span<const SmLimits> known_sm_limits() { return kLimits; }

const SmLimits& sm_limits(std::string_view compute_capability) {
  const std::string wanted = digits_of(compute_capability);
  std::string known;
  for (const SmLimits& limits : kLimits) {
    if (wanted == format("{}{}", limits.major, limits.minor)) return limits;
    known += format("{}{}.{}", known.empty() ? "" : ", ", limits.major, limits.minor);
  }
  throw UsageError(
      format("compute capability '{}' is not known; known: {}", printable(compute_capability), known));
}

}  // namespace cheetah::analysis
