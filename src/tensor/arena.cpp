// SPDX-License-Identifier: MIT
#include "tensor/arena.h"

#include <algorithm>

namespace cheetah {
namespace {

// Blocks grow with what is held: a small model wastes little, a large one has few of them.
constexpr int64_t kLeastBlock = int64_t{4} << 20;
constexpr int64_t kMostBlock = int64_t{64} << 20;

}  // namespace

std::byte* Arena::take(int64_t bytes) {
  const int64_t padded = (bytes + 63) / 64 * 64;
  const int64_t needed = std::max(padded, together_);
  together_ = 0;
  if (blocks_.empty() || blocks_.back().size() - used_ < needed) {
    blocks_.emplace_back(std::max(needed, std::clamp(size(), kLeastBlock, kMostBlock)));
    used_ = 0;
  }
  std::byte* piece = blocks_.back().data() + used_;
  used_ += padded;
  return piece;
}

int64_t Arena::size() const {
  int64_t total = 0;
  for (const Buffer& block : blocks_) total += block.size();
  return total;
}

}  // namespace cheetah
