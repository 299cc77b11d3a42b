// SPDX-License-Identifier: MIT
#pragma once
// What the chain's kernel is told: one record an operation, and the step's numbers.
#include <array>
#include <cstddef>
#include <cstdint>

#include "gpu/tensor_map.h"
#include "kernels/attention/attention_cuda.h"

namespace cheetah::gpu::chain {

inline constexpr std::array kRowBoxes = {1, 8};  // rows of x a copy moves: the kernel's shapes
inline constexpr int kConsumerWarps = 8;
inline constexpr int kThreads = (kConsumerWarps + 4) * 32;  // and a group: producers of W and of x, a watcher
inline constexpr int kStageWeightBytes = 28 << 10;
inline constexpr int kMaxWBoxes = 7;    // a stage
inline constexpr int kPartPitch = 68;   // floats between tokens of partial sums: no bank twice
inline constexpr int kMaxPairs = 32;    // of blocks that share a sequence's key head
inline constexpr int kSumPitch = 1024;  // floats between tokens of the tiles' sums of squares

// What qkv holds until it is written: attention waits for its numbers, not for the product's end. No BF16
// conversion makes such a word.
inline constexpr uint32_t kUnwritten = 0xFFFFFFFF;

enum class Kind : int { kPrepare, kProduct, kAttend };
enum class Weights { kBf16, kF16, kFp8 };

struct Op {
  Kind kind = Kind::kProduct;

  // kProduct: y = W x, scaled by 1 / rms(x) where square_sums says how large x was.
  const TensorMap* w = nullptr;
  const TensorMap* x = nullptr;
  int tiles = 0, k_boxes = 0, outputs = 0;
  int up_row = 0;  // > 0: gated, and where W's second half begins
  int box_rows = 0, boxes_per_stage = 0, k_ways = 1;
  float x_scale = 1.f;  // of the rows of x, undone here
  const float* row_scales = nullptr;
  const float* bias = nullptr;
  const uint16_t* residual = nullptr;
  uint16_t* y = nullptr;
  bool makes_logits = false;           // Params::logits instead of y
  int qkv_tiles = 0, qkv_rows = 0;     // tiles of qkv that are cleared before this product, where there are
  const float* square_sums = nullptr;  // [tokens, kSumPitch]: a sum a tile of the operation that made x
  int num_square_sums = 0;

  // kProduct and kPrepare: what the next norm needs, y times its gains and the sums of squares.
  float y_scale = 1.f;  // of the next product's x: y of a gated product, gained of the others
  const float* gain = nullptr;
  uint16_t* gained = nullptr;
  float* square_sums_out = nullptr;

  // kAttend, and the product before it, which asks for them ahead of time
  std::byte* keys = nullptr;
  std::byte* values = nullptr;
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;
  int window = 0;
  bool follows_attention = false;  // a product
};

struct Params {
  const Op* ops = nullptr;
  int num_ops = 0;
  int rows = 0;
  int hidden = 0;
  float norm_eps = 0.f;
  int heads = 0, kv_heads = 0, head_dim = 0;
  int pairs = 1;  // of blocks that may share a sequence's key head
  float attention_scale = 1.f;
  const SequenceEntry* sequences = nullptr;
  const int32_t* pages = nullptr;
  const int32_t* positions = nullptr;
  int page_tokens = 16;
  const float* inv_freq = nullptr;
  float rope_magnitude = 1.f;
  const uint16_t* x = nullptr;          // [rows, hidden]
  uint16_t* qkv = nullptr;              // [rows, (heads + 2 kv_heads) * head_dim]
  uint16_t* attended = nullptr;         // [rows, heads * head_dim]
  float* logits = nullptr;              // [rows, vocab]
  float* partial = nullptr;             // [rows, kv_heads, pairs, group, head_dim]
  float* statistics = nullptr;          // [rows, kv_heads, pairs, group, 2]
  unsigned* shares_done = nullptr;      // [rows, kv_heads]; zero between steps
  unsigned* arrivals = nullptr;         // of blocks at operations, since the beginning of time
  unsigned* arrivals_before = nullptr;  // as of the last step's end
};

}  // namespace cheetah::gpu::chain
