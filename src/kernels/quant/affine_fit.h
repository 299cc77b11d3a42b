// SPDX-License-Identifier: MIT
#pragma once
// Fits of a sub-block's numbers to a few levels, weighted by how much each number matters.
#include <cstdint>

namespace cheetah {

struct Affine {  // x ~ scale * q - offset, q in 0..levels, both at least 0
  float scale = 0;
  float offset = 0;
};

struct SubBlock {
  const float* x = nullptr;
  int count = 32;                     // at most 32
  const float* importance = nullptr;  // [count]; none: large numbers matter more
};

int level_of(float value, const Affine& fit, int levels);

// Tries a range of step sizes around the one that spans the values; each guess is refitted once.
Affine fit_affine(const SubBlock& block, int levels);

// The scale for x ~ scale * q with q in -most - 1..most, either sign.
float fit_symmetric(const SubBlock& block, int most);

}  // namespace cheetah
