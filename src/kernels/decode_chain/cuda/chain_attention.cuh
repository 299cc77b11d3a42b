// SPDX-License-Identifier: MIT
#pragma once
// The chain's attention: a block reads one share of one sequence and key head, straight from memory into
// registers (shared memory is full of weights), 16 tokens a warp at a time. Scores are K q^T: tokens are the
// long side of the tensor cores' tile and the heads that share the key the short one. The step's own key and
// value come from the qkv product; the warp that meets them rotates and stores them.
#include "kernels/decode_chain/cuda/chain_merge.cuh"
#include "kernels/decode_chain/cuda/chain_unit.cuh"

namespace cheetah::gpu::chain {

inline constexpr int kPrefetchedTokens = 512;  // that a block asks for ahead of time
inline constexpr int kUnitsAPair = 16;         // of 16 tokens, that a pair of blocks takes alone

__device__ inline int ceil_of(int a, int b) { return (a + b - 1) / b; }

// A pair of blocks takes as much as it can before another one helps: what pairs have to tell each other goes
// through global memory.
__device__ inline Share share_of(const Params& p, const Op& op, int item) {
  Share share;
  share.pair = item % p.pairs;
  share.head = item / p.pairs % p.kv_heads;
  share.row = item / p.pairs / p.kv_heads;
  const int4 entry =
      __ldg(reinterpret_cast<const int4*>(p.sequences + share.row));  // the same in every layer
  share.context = entry.x;
  share.pages = p.pages + entry.w;
  share.first_token = op.window > 0 ? max(0, share.context - op.window) : 0;
  const int first = share.first_token / kUnit, units = ceil_of(share.context, kUnit) - first;
  const int pairs = min(p.pairs, max(1, ceil_of(units, kUnitsAPair)));
  const int each = max(kConsumerWarps, ceil_of(units, 2 * pairs)), num_shares = ceil_of(units, each);
  share.num_pairs = (num_shares + 1) / 2;
  share.has_both_blocks = share.pair * 2 + 1 < num_shares;
  share.begin = first + (share.pair * 2 + static_cast<int>(blockIdx.x) % 2) * each;
  share.end = min(share.begin + each, first + units);
  return share;
}

// All computing threads: the table for an item, made anew where it is another's.
__device__ inline void look_up(const Params& p, const Op& op, int item, ShareTable& table) {
  if (table.item == item && table.window == op.window) return;
  sync_consumers();
  const Share share = share_of(p, op, item);
  const int first = share.begin * kUnit / p.page_tokens,
            end =
                share.begin < share.end ? (min(share.end * kUnit, share.context) - 1) / p.page_tokens + 1 : 0;
  if (threadIdx.x == 0) {
    table.share = share;
    table.item = item, table.window = op.window, table.first_page = first;
  }
  if (threadIdx.x < kTablePages && first + static_cast<int>(threadIdx.x) < end)
    table.pages[threadIdx.x] = __ldg(share.pages + first + threadIdx.x);
  sync_consumers();
}

// What a warp has seen of a share's tokens. U says how the cache is stored (chain_unit.cuh).
template <class U>
struct Attention {
  static constexpr int kDim = U::kDim, kTiles = kDim / 16;
  static constexpr int kPiece = U::kPiece, kPieces = U::kPieces;

  const Params& p;
  const Op& op;
  const float2* turns;  // [rows, kDim / 2]: cosine and sine
  const ShareTable& table;
  U unit;                // its tokens, and the queries of head `line`
  float out[kTiles][4];  // number line * kDim / 8 + 2 tile (+ 1), heads 2 quarter (+ 1)
  float top[2], sum[2];  // of those heads

  __device__ Attention(
      const Params& params, const Op& operation, const float2* turn_table, const ShareTable& share_table)
      : p(params), op(operation), turns(turn_table), table(share_table) {}

  __device__ int group() const { return p.heads / p.kv_heads; }
  __device__ int64_t qkv_width() const { return static_cast<int64_t>(p.heads + 2 * p.kv_heads) * kDim; }

  // Where a token's row begins in keys and values.
  __device__ int64_t cache_row(const Share& share, int token) const {
    const int at = token / p.page_tokens, in_table = at - table.first_page;
    const int64_t page = in_table < kTablePages ? table.pages[in_table] : __ldg(share.pages + at);
    return ((page * p.kv_heads + share.head) * p.page_tokens + token % p.page_tokens) * U::kRowBytes;
  }
  // Tokens of earlier steps only; everything else reads as zero.
  __device__ static bool is_cached(const Share& share, int token) {
    return token >= share.first_token && token < share.context - 1;
  }
  __device__ const std::byte* row_of(const std::byte* rows, const Share& share, int token) const {
    return is_cached(share, token) ? rows + cache_row(share, token) : nullptr;
  }
  __device__ void load_keys(const Share& share, int index) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      unit.load_key(half, row_of(op.keys, share, index * kUnit + lane_line() + half * 8));
  }
  __device__ void load_values(const Share& share, int index) {
#pragma unroll
    for (int i = 0; i < 4; ++i) unit.load_value(i, row_of(op.values, share, index * kUnit + value_token(i)));
#pragma unroll
    for (int half = 0; half < 2; ++half)
      unit.load_value_scale(half, row_of(op.values, share, index * kUnit + lane_line() + half * 8));
  }

  // Asks the second-level cache for the share's first tokens.
  __device__ void prefetch(const Share& share) const {
    constexpr int kLines = (U::kRowBytes + 127) / 128;  // of a token
    const int count = min((share.end - share.begin) * kUnit, kPrefetchedTokens) * kLines;
    for (int i = threadIdx.x; i < count; i += kConsumerWarps * 32) {
      const int token = share.begin * kUnit + i / kLines;
      if (!is_cached(share, token)) continue;
      const int64_t at = cache_row(share, token) + i % kLines * 128;
      asm volatile("prefetch.global.L2 [%0];" ::"l"(op.keys + at));
      asm volatile("prefetch.global.L2 [%0];" ::"l"(op.values + at));
    }
  }

  using Raw = typename U::Piece[kPieces];
  using Numbers = typename U::Numbers;
  // A lane's numbers of a row of qkv, and whether they are there.
  __device__ bool load_raw(Raw& raw, const uint16_t* row) const {
    const auto* from = reinterpret_cast<const typename U::Piece*>(row);
#pragma unroll
    for (int j = 0; j < kPieces; ++j) raw[j] = look_at(from + j * 4 + lane_quarter());
    bool there = true;
#pragma unroll
    for (int j = 0; j < kPieces; ++j) there = there && is_written(raw[j]);
    return there;
  }
  // Normed, where the model does that, and turned by the row's position. The four threads of a line call
  // together.
  __device__ void norm_and_turn(const Raw& raw, const float* gains, int row, Numbers& v) const {
#pragma unroll
    for (int j = 0; j < kPieces; ++j) widen_piece(raw[j], v[j]);
    if (gains) {
      float squares = 0.f;
#pragma unroll
      for (int j = 0; j < kPieces; ++j)
#pragma unroll
        for (int e = 0; e < kPiece; ++e) squares += v[j][e] * v[j][e];
      const float scale = rsqrtf(hopper::quad_sum(squares) / kDim + p.norm_eps);
#pragma unroll
      for (int j = 0; j < kPieces; ++j)
#pragma unroll
        for (int e = 0; e < kPiece; ++e)
          v[j][e] *= scale * __ldg(gains + (j * 4 + lane_quarter()) * kPiece + e);
    }
#pragma unroll
    for (int j = 0; j < kPieces / 2; ++j)
#pragma unroll
      for (int e = 0; e < kPiece; ++e) {
        const float2 turn = turns[row * (kDim / 2) + (j * 4 + lane_quarter()) * kPiece + e];
        const float a = v[j][e], b = v[j + kPieces / 2][e];
        v[j][e] = a * turn.x - b * turn.y;
        v[j + kPieces / 2][e] = b * turn.x + a * turn.y;
      }
  }

  __device__ void take_query(const Share& share, const Raw& raw) {
    Numbers query;
    norm_and_turn(raw, op.q_norm, share.row, query);
    unit.put_query(query);
  }

  // The step's own token, as the qkv product left it, and where it belongs: place `at` of its unit.
  struct Fresh {
    Raw key;
    typename U::OfValue value;
  };
  __device__ bool load_fresh(const Share& share, Fresh& fresh) const {
    constexpr int kEach = kDim / 64;
    const uint16_t* row = p.qkv + share.row * qkv_width() + (p.heads + share.head) * kDim;
    const auto* value = reinterpret_cast<const uint4*>(row + p.kv_heads * kDim) + lane_line() * kEach;
#pragma unroll
    for (int j = 0; j < kEach; ++j) fresh.value[j] = look_at(value + j);
    bool there = load_raw(fresh.key, row);
#pragma unroll
    for (int j = 0; j < kEach; ++j) there = there && is_written(fresh.value[j]);
    return there;
  }
  __device__ void insert(const Share& share, const Fresh& fresh, int at) {
    const int64_t to = cache_row(share, share.context - 1);
    Numbers key;
    norm_and_turn(fresh.key, op.k_norm, share.row, key);
    unit.put_key(key, at, op.keys + to);
    unit.put_value(fresh.value, at, op.values + to);
  }

  __device__ void clear() {
#pragma unroll
    for (int h = 0; h < 2; ++h) top[h] = -INFINITY, sum[h] = 0.f;
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int e = 0; e < 4; ++e) out[t][e] = 0.f;
  }

  // Scores of tokens line and line + 8 for two heads to weights of the running softmax.
  __device__ void weigh(const Share& share, int index, float (&scores)[4]) {
    const float scale = p.attention_scale * hopper::kLog2E;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int token = index * kUnit + lane_line() + (e / 2) * 8;
      scores[e] = token >= share.first_token && token < share.context ? scores[e] * scale : -INFINITY;
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float highest = fmaxf(scores[h], scores[h + 2]);
#pragma unroll
      for (int step = 4; step < 32; step *= 2) highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, step));
      highest = fmaxf(highest, top[h]);  // some token of the unit is always seen
      const float factor = hopper::exp2_fast(top[h] - highest);
      top[h] = highest;
      sum[h] *= factor;
#pragma unroll
      for (int t = 0; t < kTiles; ++t) out[t][h] *= factor, out[t][h + 2] *= factor;
      scores[h] = hopper::exp2_fast(scores[h] - highest);
      scores[h + 2] = hopper::exp2_fast(scores[h + 2] - highest);
      sum[h] += scores[h] + scores[h + 2];
    }
  }

  // Everything of the warp's units. The first one's cached tokens are in registers already.
  template <class Tell>
  __device__ void read_units(const Share& share, const Tell& tell) {
    const int first = share.begin + static_cast<int>(threadIdx.x / 32);
    const auto place_of_new = [&](int index) { return share.context - 1 - index * kUnit; };
    const int head = share.head * group() + (lane_line() < group() ? lane_line() : 0);
    const uint16_t* row = p.qkv + share.row * qkv_width() + head * kDim;
    Raw raw;
    if (first < share.end && place_of_new(first) < kUnit) {  // asked for together with the query
      Fresh fresh;
      bool there;
      do {
        there = load_fresh(share, fresh);
        there = load_raw(raw, row) && there;
      } while (!__all_sync(~0u, there));
      tell();
      take_query(share, raw);
      insert(share, fresh, place_of_new(first));
    } else {
      while (!__all_sync(~0u, load_raw(raw, row))) {
      }
      tell();
      take_query(share, raw);
    }
    for (int index = first; index < share.end; index += kConsumerWarps) {
      const int next = index + kConsumerWarps;
      if (index != first && place_of_new(index) < kUnit) {
        Fresh fresh;
        while (!__all_sync(~0u, load_fresh(share, fresh))) {
        }
        insert(share, fresh, place_of_new(index));
      }
      float scores[4] = {};
      unit.score(scores);
      if (next < share.end) load_keys(share, next);
      weigh(share, index, scores);
      unit.add_values(out, scores);
      if (next < share.end) load_values(share, next);
    }
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int step = 4; step < 32; step *= 2) sum[h] += __shfl_xor_sync(~0u, sum[h], step);
  }
};

// The block's shares, one after another. It waits for the numbers of qkv it needs, not for the product's end,
// and tells when it has the first.
template <class U, class M, class S>
__device__ void attend(const Params& p, const Op& op, S& shared, const M& merger) {
  bool tells = threadIdx.x == 0;
  const auto tell = [&] {
    if (tells) ptx::barrier_arrive(&shared.queries_in);
    tells = false;
  };
  for (int item = blockIdx.x / 2; item < p.rows * p.kv_heads * p.pairs; item += gridDim.x / 2) {
    look_up(p, op, item, shared.table);
    const Share share = shared.table.share;
    Attention<U> attention(p, op, shared.turns, shared.table);
    const int index = share.begin + static_cast<int>(threadIdx.x / 32);
    attention.clear();
    if (index < share.end) {
      attention.load_keys(share, index);
      attention.load_values(share, index);
    }
    if (share.begin >= share.end) continue;
    attention.read_units(share, tell);
    merger.finish(share, attention);
  }
  tell();
}

// Before the qkv product: asks the second-level cache for what the attention behind it will read.
template <class U, class S>
__device__ void prefetch_cache(const Params& p, const Op& op, S& shared) {
  const int item = blockIdx.x / 2;
  if (item >= p.rows * p.kv_heads * p.pairs) return;
  look_up(p, op, item, shared.table);
  Attention<U>(p, op, shared.turns, shared.table).prefetch(shared.table.share);
}

}  // namespace cheetah::gpu::chain
