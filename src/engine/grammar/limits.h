// SPDX-License-Identifier: MIT
#pragma once
// What compiling a grammar may cost. Grammars come from clients, so every dimension has a bound and every
// refusal names it.
#include <chrono>
#include <cstdint>
#include <string_view>

namespace cheetah {

struct GrammarLimits {
  int64_t max_text_bytes = 256 << 10;
  int64_t max_regex_bytes = 4 << 10;
  int max_nesting = 64;                // groups, and JSON levels of a schema
  int max_schema_depth = 32;           // schemas within schemas
  int64_t max_repetition = 200'000;    // the n of {m,n}, maxLength, maxItems …
  int64_t max_nullable_copies = 2000;  // … of what may be empty: every count is then possible at once
  int64_t max_properties = 2000;       // minProperties, maxProperties: each counts beside the declared ones
  int64_t max_enum_values = 10000;
  int64_t max_references = 1000;
  int64_t max_states = 1'000'000;
  int64_t max_bytes = int64_t{256} << 20;
  int64_t max_steps = 20'000'000;  // elementary steps: the same verdict on every machine
  std::chrono::milliseconds max_time{1000};
};

// Counts the work of one compilation and throws Error when a limit is passed. One thread.
class CompileBudget {
 public:
  explicit CompileBudget(const GrammarLimits& limits);

  const GrammarLimits& limits() const { return limits_; }
  void step(int64_t count = 1);
  void allocate(int64_t bytes);
  void check_text(std::string_view text) const;
  void check_regex(std::string_view text) const;
  void check_nesting(int64_t depth) const;
  void check_repetition(int64_t count) const;
  void check_nullable_copies(int64_t count) const;
  void check_states(int64_t count) const;

 private:
  GrammarLimits limits_;
  int64_t steps_ = 0;
  int64_t bytes_ = 0;
  int64_t next_clock_check_ = 0;
  std::chrono::steady_clock::time_point deadline_;
};

}  // namespace cheetah
