// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <span>

#include "kernels/context.h"

namespace cheetah {

// Rotates the first 2 * half dimensions of every head by the angle of its token's position.
// kHalves: pair (i, i + half), the Hugging Face layout. kInterleaved: pair (2i, 2i + 1), GGUF llama and
// DeepSeek.
enum class RopeLayout { kHalves, kInterleaved };

struct RopeArgs {
  float* x = nullptr;        // [tokens, heads, head_dim] f32, rotated in place
  int64_t token_stride = 0;  // elements between tokens
  int64_t head_stride = 0;   // elements between heads
  int64_t heads = 0;
  std::span<const int32_t> positions;  // [tokens]
  std::span<const float> inv_freq;     // [half]; angle = position * inv_freq[i]
  float magnitude = 1.f;               // multiplies cos and sin (yarn's and longrope's attention factor)
  RopeLayout layout = RopeLayout::kHalves;
};
void rope(const RopeArgs& args, const CpuContext& context);
void rope_reference(const RopeArgs& args);

}  // namespace cheetah
