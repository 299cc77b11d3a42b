// SPDX-License-Identifier: MIT
#include "base/random.h"

#include <array>
#include <cmath>
#include <numbers>

namespace cheetah {
namespace {

// Constants of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
constexpr uint32_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;

using Block = std::array<uint32_t, 4>;

Block philox_block(uint64_t seed, uint64_t stream, uint64_t index) {
  Block x = {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), static_cast<uint32_t>(stream),
      static_cast<uint32_t>(stream >> 32)};
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{kMultiplier0} * x[0], product1 = uint64_t{kMultiplier1} * x[2];
    x = {static_cast<uint32_t>(product1 >> 32) ^ x[1] ^ key0, static_cast<uint32_t>(product1),
        static_cast<uint32_t>(product0 >> 32) ^ x[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return x;
}

}  // namespace

uint32_t philox_at(uint64_t seed, uint64_t stream, uint64_t counter) {
  return philox_block(seed, stream, counter / 4)[counter % 4];
}

uint32_t Philox::next_u32() { return philox_at(seed_, stream_, counter_++); }

double Philox::next_uniform() {
  const uint64_t high = next_u32() >> 5, low = next_u32() >> 6;
  return (static_cast<double>(high) * 67108864.0 + static_cast<double>(low)) / 9007199254740992.0;
}

float Philox::next_normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - next_uniform()));
  return static_cast<float>(radius * std::cos(2.0 * std::numbers::pi * next_uniform()));
}

}  // namespace cheetah
