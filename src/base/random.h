// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace cheetah {

// Counter-based generator (Philox 4x32-10): the n-th number of a seed and stream is a pure function of the
// three, so a request can move to another worker and continue with the same numbers.
class Philox {
 public:
  explicit Philox(uint64_t seed, uint64_t stream = 0, uint64_t counter = 0)
      : seed_(seed), stream_(stream), counter_(counter) {}

  uint32_t next_u32();
  double next_uniform();  // [0, 1), 53 bits
  float next_normal();    // mean 0, deviation 1
  uint64_t counter() const { return counter_; }

 private:
  uint64_t seed_;
  uint64_t stream_;
  uint64_t counter_;
};

// The 32 bits at one point of the sequence.
uint32_t philox_at(uint64_t seed, uint64_t stream, uint64_t counter);

}  // namespace cheetah
