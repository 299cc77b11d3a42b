// SPDX-License-Identifier: MIT
#pragma once
// "Don't repeat yourself": a token that would lengthen a repetition of what was said before loses the more the
// longer the repetition is.
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace cheetah {

struct DryParams {
  float multiplier = 0.f;  // 0: off
  float base = 1.75f;
  int64_t allowed_length =
      2;                // repetitions this long cost the multiplier, each further token a factor of base
  int64_t last_n = -1;  // tokens looked at; -1: all

  bool is_on() const { return multiplier != 0.f && base >= 1.f && last_n != 0; }
  bool operator==(const DryParams&) const = default;
};

// Token sequences that no repetition crosses, such as a newline's. Immutable once filled.
class DryBreakers {
 public:
  // `tail` follows `head`, and may be empty.
  void add(int32_t head, std::vector<int32_t> tail);
  // How many of the last tokens come after the last breaker; all where there is none.
  int64_t length_after_last(std::span<const int32_t> tokens) const;
  bool empty() const { return tails_.empty(); }

 private:
  std::unordered_map<int32_t, std::vector<std::vector<int32_t>>> tails_;  // of each head, each once
};

// Reused from call to call.
struct DryScratch {
  std::vector<int32_t> reversed;
  std::vector<int64_t> matches;
  std::unordered_map<int32_t, int64_t> longest;
};

// `tokens`: all so far, those looked at are the last of them. breakers: nullptr: none.
void penalize_repetition(std::span<const int32_t> tokens, const DryParams& params,
    const DryBreakers* breakers, std::span<float> logits, DryScratch& scratch);

}  // namespace cheetah
