// SPDX-License-Identifier: MIT
#pragma once
// The unit of work of the CPU attention: a few query rows that share a kv head, against one span of keys.
//
// Bits must not depend on how a prompt is cut into chunks, on the batch or on the threads. So positions are
// always walked in the same pieces, cut at absolute positions: blocks of kBlock keys share one softmax
// update, spans of kSpan keys start from an empty state and are merged in order. A key a row may not see gets
// weight zero within its block; nothing is ever shifted to a row's first visible key.
#include <algorithm>
#include <cstdint>

#include "kernels/attention/attention.h"

namespace cheetah::attention_tile {

constexpr int64_t kBlock = 64;
constexpr int64_t kSpan = 512;
constexpr int64_t kRows = 48;  // most rows of a tile: packing a block of keys then costs a tenth of using it
constexpr int64_t kMaxLanes = 16;  // rows of values are padded to whole vectors of any target

struct Tile {
  const AttentionSequence* sequence = nullptr;
  int64_t kv_head = 0;
  int64_t first_row = 0;  // row r is head r % group of token r / group, group = heads / kv_heads
  int64_t rows = 0;
  int64_t key_begin = 0;  // positions that some row sees
  int64_t key_end = 0;
  const Tile* after = nullptr;  // which comes next on this worker, as far as one can tell
};

// Softmax state of a tile's rows: out is not yet divided by sum, and both are relative to exp(peak).
struct State {
  float* peak = nullptr;  // [rows]
  float* sum = nullptr;   // [rows]
  float* out = nullptr;   // [rows, value_stride]
};

struct Workspace {
  float* q = nullptr;     // [rows, key_dim], scaled
  float* keys = nullptr;  // [key_dim, kBlock]: transposed, so that a vector holds one dimension of many keys
  float* values = nullptr;   // [kBlock, value_stride]
  float* scores = nullptr;   // [rows, kBlock]; weights after the softmax
  float* decay = nullptr;    // [rows]: what a block's new peak multiplies the older sums by
  float* sums = nullptr;     // [rows, kMaxLanes]: sums of weights, lane by lane
  float* zeros = nullptr;    // [key_dim]: used for keys outside the tile's range
  float* widened = nullptr;  // [kMaxLanes, key_dim]: rows of an 8-bit cache on their way to `keys`
};

inline int64_t value_stride(const PagedKv& kv) {
  return (kv.value_dim + kMaxLanes - 1) / kMaxLanes * kMaxLanes;
}
inline int64_t group_of(const AttentionArgs& args) { return args.heads / args.kv.kv_heads; }
inline int64_t position_of(const AttentionSequence& sequence, int64_t token) {
  return sequence.context_tokens - sequence.query_count + token;
}
inline int64_t first_visible(const AttentionArgs& args, int64_t position) {
  return args.window > 0 ? std::max<int64_t>(0, position - args.window + 1) : 0;
}

// The tile's rows against positions [span * kSpan, (span + 1) * kSpan), from an empty state.
void attend_span(
    const AttentionArgs& args, const Tile& tile, int64_t span, const Workspace& work, const State& state);
// Adds a span's state to that of the spans before it.
void merge(const Tile& tile, int64_t stride, const State& span, const State& total);
// Divides and stores to args.out.
void finish(const AttentionArgs& args, const Tile& tile, const State& total);

}  // namespace cheetah::attention_tile
