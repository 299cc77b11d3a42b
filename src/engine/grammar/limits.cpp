// SPDX-License-Identifier: MIT
#include "engine/grammar/limits.h"

#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

constexpr int64_t kStepsBetweenClockChecks = 1 << 14;

[[noreturn]] void too_complex(std::string_view limit, int64_t found, int64_t allowed) {
  throw Error(format("grammar_too_complex: {}: {}, more than the limit of {}", limit, found, allowed));
}

void check(std::string_view limit, int64_t found, int64_t allowed) {
  if (found > allowed) too_complex(limit, found, allowed);
}

}  // namespace

CompileBudget::CompileBudget(const GrammarLimits& limits)
    : limits_(limits), deadline_(std::chrono::steady_clock::now() + limits.max_time) {}

void CompileBudget::step(int64_t count) {
  steps_ += count;
  check("compile steps", steps_, limits_.max_steps);
  if (steps_ < next_clock_check_) return;
  next_clock_check_ = steps_ + kStepsBetweenClockChecks;
  if (std::chrono::steady_clock::now() > deadline_)
    throw Error(
        format("grammar_too_complex: compile time: more than the limit of {} ms", limits_.max_time.count()));
}

void CompileBudget::allocate(int64_t bytes) {
  bytes_ += bytes;
  check("memory bytes", bytes_, limits_.max_bytes);
}

void CompileBudget::check_text(std::string_view text) const {
  check("size in bytes", static_cast<int64_t>(text.size()), limits_.max_text_bytes);
}

void CompileBudget::check_regex(std::string_view text) const {
  check("regex size in bytes", static_cast<int64_t>(text.size()), limits_.max_regex_bytes);
}

void CompileBudget::check_nesting(int64_t depth) const { check("nesting", depth, limits_.max_nesting); }

void CompileBudget::check_repetition(int64_t count) const {
  check("repetition", count, limits_.max_repetition);
}

void CompileBudget::check_nullable_copies(int64_t count) const {
  check("repetition of what may be empty", count, limits_.max_nullable_copies);
}

void CompileBudget::check_states(int64_t count) const { check("states", count, limits_.max_states); }

}  // namespace cheetah
