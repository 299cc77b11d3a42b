// SPDX-License-Identifier: MIT
#pragma once
// Hashes and a small generator with published constants. Not for secrets.
#include <cstdint>
#include <string_view>

namespace cheetah {

inline constexpr uint64_t kGoldenRatio64 = 0x9E3779B97F4A7C15u;  // 2^64 / golden ratio

// A bijection that spreads every bit over all others (the finalizer of SplitMix64).
constexpr uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Number `index` of the SplitMix64 sequence that begins at `seed`.
constexpr uint64_t split_mix64(uint64_t seed, uint64_t index) {
  return mix64(seed + kGoldenRatio64 * (index + 1));
}

class SplitMix64 {
 public:
  constexpr explicit SplitMix64(uint64_t seed) : state_(seed) {}
  constexpr uint64_t next() { return mix64(state_ += kGoldenRatio64); }
  constexpr double next_uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)

 private:
  uint64_t state_;
};

inline constexpr uint64_t kFnvStart = 14695981039346656037u;

// FNV-1a. Pass the result as `start` to continue with more bytes.
constexpr uint64_t fnv1a(std::string_view bytes, uint64_t start = kFnvStart) {
  for (const char c : bytes) start = (start ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return start;
}

}  // namespace cheetah
