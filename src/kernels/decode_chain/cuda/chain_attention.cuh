#pragma once
// The chain's attention: a block reads one share of one sequence and key head, straight from memory into
// registers (shared memory is full of weights), 16 tokens a warp at a time. Scores are K q^T: tokens are the
// long side of the tensor cores' tile and the heads that share the key the short one. The step's own key and
// value come from the qkv product; the warp that meets them rotates and stores them.
#include "kernels/attention/cuda/hopper_math.cuh"
#include "kernels/decode_chain/cuda/chain_product.cuh"

namespace cheetah::gpu::chain {

inline constexpr int kUnit = 16;       // tokens
inline constexpr int kLeastUnits = 2;  // a share
inline constexpr int kPrefetched = 4;  // units a warp asks for before it knows its queries
inline constexpr int kMaxGroup = 8;

// A share of one sequence's tokens for one key head.
struct Share {
  int row, head, split;
  int context, first_token;
  int begin, end;  // units
  int num_shares;  // with something in them
  const int32_t* pages;
};

__device__ inline Share share_of(const Params& p, const Op& op, int item) {
  Share share;
  share.split = item % p.splits;
  share.head = item / p.splits % p.kv_heads;
  share.row = item / p.splits / p.kv_heads;
  const int4 entry =
      __ldg(reinterpret_cast<const int4*>(p.sequences + share.row));  // the same in every layer
  share.context = entry.x;
  share.pages = p.pages + entry.w;
  share.first_token = op.window > 0 ? max(0, share.context - op.window) : 0;
  const int first = share.first_token / kUnit, units = (share.context + kUnit - 1) / kUnit - first;
  const int each = max(kLeastUnits, (units + p.splits - 1) / p.splits);
  share.num_shares = (units + each - 1) / each;
  share.begin = first + share.split * each;
  share.end = min(share.begin + each, first + units);
  return share;
}

template <int kDim, bool kFp8>
struct Attention {
  static constexpr int kChunks = kDim / 32;       // of 8 numbers: a thread's part of a key or query
  static constexpr int kValueChunks = kDim / 64;  // … of a value: 2 * kDim / 16 consecutive numbers
  static constexpr int kTiles = kDim / 16;
  using Row = uint4[kChunks];

  const Params& p;
  const Op& op;
  const float2* turns;            // [rows, kDim / 2]: cosine and sine
  uint4 keys[2][kChunks];         // tokens line and line + 8: numbers 32 j + 8 quarter …
  uint4 values[4][kValueChunks];  // tokens 2 quarter + {0, 1, 8, 9}: kDim / 8 numbers from line * kDim / 8
  uint4 q[kChunks];               // head `line`
  float out[kTiles][4];           // number line * kDim / 8 + 2 tile (+ 1), heads 2 quarter (+ 1)
  float top[2], sum[2];           // of those heads

  __device__ Attention(const Params& params, const Op& operation, const float2* turn_table)
      : p(params), op(operation), turns(turn_table) {}

  __device__ static int line() { return threadIdx.x % 32 / 4; }
  __device__ static int quarter() { return threadIdx.x % 4; }
  __device__ int group() const { return p.heads / p.kv_heads; }
  __device__ int64_t qkv_width() const { return static_cast<int64_t>(p.heads + 2 * p.kv_heads) * kDim; }
  __device__ static int value_token(int i) { return 2 * quarter() + (i & 1) + (i >> 1) * 8; }

  // Where a token's row begins in keys and values.
  __device__ int64_t cache_row(const Share& share, int token) const {
    const int64_t page = __ldg(share.pages + token / p.page_tokens);
    return ((page * p.kv_heads + share.head) * p.page_tokens + token % p.page_tokens) * kDim;
  }
  // Tokens of earlier steps only; everything else reads as zero.
  __device__ static bool is_cached(const Share& share, int token) {
    return token >= share.first_token && token < share.context - 1;
  }
  __device__ void load_keys(const Share& share, int unit) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int token = unit * kUnit + line() + half * 8;
      const bool cached = is_cached(share, token);
      const auto* row = cached ? reinterpret_cast<const uint4*>(op.keys + cache_row(share, token)) : nullptr;
#pragma unroll
      for (int j = 0; j < kChunks; ++j) keys[half][j] = cached ? __ldcs(row + j * 4 + quarter()) : uint4{};
    }
  }
  __device__ void load_values(const Share& share, int unit) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = unit * kUnit + value_token(i);
      const bool cached = is_cached(share, token);
      const auto* row =
          cached ? reinterpret_cast<const uint4*>(op.values + cache_row(share, token)) : nullptr;
#pragma unroll
      for (int j = 0; j < kValueChunks; ++j)
        values[i][j] = cached ? __ldcs(row + line() * kValueChunks + j) : uint4{};
    }
  }

  // Asks the second-level cache for a unit that the registers have no room for yet: a lane a line of each.
  __device__ void prefetch_unit(const Share& share, int unit) const {
    constexpr int kLines = kDim * 2 / 128;  // of a token
    if (unit >= share.end) return;
#pragma unroll
    for (int n = 0; n < kUnit * kLines / 32; ++n) {
      const int i = n * 32 + static_cast<int>(threadIdx.x % 32), token = unit * kUnit + i / kLines;
      if (!is_cached(share, token)) continue;
      const int64_t at = cache_row(share, token) + i % kLines * 64;
      asm volatile("prefetch.global.L2 [%0];" ::"l"(op.keys + at));
      asm volatile("prefetch.global.L2 [%0];" ::"l"(op.values + at));
    }
  }

  // Normed, where the model does that, and turned by the row's position. The four threads of a line call
  // together.
  __device__ void norm_and_turn(Row& x, const float* gains, int row) const {
    float v[kChunks][8];
#pragma unroll
    for (int j = 0; j < kChunks; ++j) unpack(x[j], v[j]);
    if (gains) {
      float squares = 0.f;
#pragma unroll
      for (int j = 0; j < kChunks; ++j)
#pragma unroll
        for (int e = 0; e < 8; ++e) squares += v[j][e] * v[j][e];
      const float scale = rsqrtf(hopper::quad_sum(squares) / kDim + p.norm_eps);
#pragma unroll
      for (int j = 0; j < kChunks; ++j)
#pragma unroll
        for (int e = 0; e < 8; ++e) v[j][e] *= scale * __ldg(gains + j * 32 + quarter() * 8 + e);
    }
#pragma unroll
    for (int j = 0; j < kChunks / 2; ++j)
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float2 turn = turns[row * (kDim / 2) + j * 32 + quarter() * 8 + e];
        const float a = v[j][e], b = v[j + kChunks / 2][e];
        v[j][e] = a * turn.x - b * turn.y;
        v[j + kChunks / 2][e] = b * turn.x + a * turn.y;
      }
#pragma unroll
    for (int j = 0; j < kChunks; ++j) x[j] = pack(v[j]);
  }
  __device__ static void unpack(const uint4& raw, float (&v)[8]) {
    const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair = unpack_pair<kBf16>(words[i]);
      v[2 * i] = pair.x;
      v[2 * i + 1] = pair.y;
    }
  }
  __device__ static uint4 pack(const float (&v)[8]) {
    return make_uint4(pack_pair<kBf16>(v[0], v[1]), pack_pair<kBf16>(v[2], v[3]),
                      pack_pair<kBf16>(v[4], v[5]), pack_pair<kBf16>(v[6], v[7]));
  }

  __device__ void load_query(const Share& share) {
    const int head = share.head * group() + (line() < group() ? line() : 0);
    const auto* row = reinterpret_cast<const uint4*>(p.qkv + share.row * qkv_width() + head * kDim);
#pragma unroll
    for (int j = 0; j < kChunks; ++j) q[j] = __ldcg(row + j * 4 + quarter());
  }

  // The step's own token, as the qkv product left it, and where it belongs: place `at` of its unit.
  struct Fresh {
    Row key;
    uint4 value[kValueChunks];
  };
  __device__ Fresh load_fresh(const Share& share) const {
    const uint16_t* row = p.qkv + share.row * qkv_width() + (p.heads + share.head) * kDim;
    const auto* key = reinterpret_cast<const uint4*>(row);
    const auto* value = reinterpret_cast<const uint4*>(row + p.kv_heads * kDim);
    Fresh fresh;
#pragma unroll
    for (int j = 0; j < kChunks; ++j) fresh.key[j] = __ldcg(key + j * 4 + quarter());
#pragma unroll
    for (int j = 0; j < kValueChunks; ++j) fresh.value[j] = __ldcg(value + line() * kValueChunks + j);
    return fresh;
  }
  __device__ void insert(const Share& share, Fresh& fresh, int at) {
    const int64_t to = cache_row(share, share.context - 1);
    norm_and_turn(fresh.key, op.k_norm, share.row);
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if (line() + half * 8 == at)
#pragma unroll
        for (int j = 0; j < kChunks; ++j) {
          keys[half][j] = fresh.key[j];
          reinterpret_cast<uint4*>(op.keys + to)[j * 4 + quarter()] = fresh.key[j];
        }
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (value_token(i) == at)
#pragma unroll
        for (int j = 0; j < kValueChunks; ++j) {
          values[i][j] = fresh.value[j];
          reinterpret_cast<uint4*>(op.values + to)[line() * kValueChunks + j] = fresh.value[j];
        }
  }

  __device__ void clear() {
#pragma unroll
    for (int h = 0; h < 2; ++h) top[h] = -INFINITY, sum[h] = 0.f;
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int e = 0; e < 4; ++e) out[t][e] = 0.f;
  }

  __device__ void score(float (&scores)[4]) const {
#pragma unroll
    for (int j = 0; j < kChunks; ++j) {
      ptx::multiply_bf16(scores, {keys[0][j].x, keys[1][j].x, keys[0][j].y, keys[1][j].y}, q[j].x, q[j].y);
      ptx::multiply_bf16(scores, {keys[0][j].z, keys[1][j].z, keys[0][j].w, keys[1][j].w}, q[j].z, q[j].w);
    }
  }
  // Scores of tokens line and line + 8 for two heads to weights of the running softmax.
  __device__ void weigh(const Share& share, int unit, float (&scores)[4]) {
    const float scale = p.attention_scale * hopper::kLog2E;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int token = unit * kUnit + line() + (e / 2) * 8;
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
  __device__ static Pair transpose(Pair x) {
    Pair y;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
    return y;
  }
  __device__ void add_values(const float (&weights)[4]) {
    const Pair b0 = transpose(pack_pair<kBf16>(weights[0], weights[1]));
    const Pair b1 = transpose(pack_pair<kBf16>(weights[2], weights[3]));
#pragma unroll
    for (int j = 0; j < kValueChunks; ++j) {
      const uint32_t v[4][4] = {{values[0][j].x, values[0][j].y, values[0][j].z, values[0][j].w},
                                {values[1][j].x, values[1][j].y, values[1][j].z, values[1][j].w},
                                {values[2][j].x, values[2][j].y, values[2][j].z, values[2][j].w},
                                {values[3][j].x, values[3][j].y, values[3][j].z, values[3][j].w}};
#pragma unroll
      for (int i = 0; i < 4; ++i)
        ptx::multiply_bf16(out[j * 4 + i],
                           {__byte_perm(v[0][i], v[1][i], 0x5410), __byte_perm(v[0][i], v[1][i], 0x7632),
                            __byte_perm(v[2][i], v[3][i], 0x5410), __byte_perm(v[2][i], v[3][i], 0x7632)},
                           b0, b1);
    }
  }

  // Everything of the warp's units. The first one's cached tokens are in registers already.
  __device__ void read_units(const Share& share) {
    const int first = share.begin + static_cast<int>(threadIdx.x / 32);
    const auto place_of_new = [&](int unit) { return share.context - 1 - unit * kUnit; };
    load_query(share);
    if (first < share.end && place_of_new(first) < kUnit) {  // asked for together with the query
      Fresh fresh = load_fresh(share);
      norm_and_turn(q, op.q_norm, share.row);
      insert(share, fresh, place_of_new(first));
    } else {
      norm_and_turn(q, op.q_norm, share.row);
    }
    for (int unit = first; unit < share.end; unit += kConsumerWarps) {
      const int next = unit + kConsumerWarps;
      if (unit != first && place_of_new(unit) < kUnit) {
        Fresh fresh = load_fresh(share);
        insert(share, fresh, place_of_new(unit));
      }
      float scores[4] = {};
      score(scores);
      if (next < share.end) load_keys(share, next);
      weigh(share, unit, scores);
      add_values(scores);
      if (next < share.end) load_values(share, next);
    }
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int step = 4; step < 32; step *= 2) sum[h] += __shfl_xor_sync(~0u, sum[h], step);
  }

  // A thread's 2 heads: numbers line * kDim / 8 … of each.
  template <class Visit>
  __device__ void each_four(const Visit& visit) {
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int t = 0; t < kTiles; t += 2)
        visit(h, (2 * quarter() + h) * kDim + line() * (kDim / 8) + t * 2, out[t][h], out[t][h + 2],
              out[t + 1][h], out[t + 1][h + 2]);
  }
  // Parts lie in shared or in global memory: [group, kDim] numbers and a pair of statistics a head.
  __device__ void store_part(float* numbers, float2* statistics) {
    each_four([&](int h, int at, float a, float b, float c, float d) {
      if (2 * quarter() + h < group()) *reinterpret_cast<float4*>(numbers + at) = make_float4(a, b, c, d);
    });
    if (line() == 0)
#pragma unroll
      for (int h = 0; h < 2; ++h)
        if (2 * quarter() + h < group()) statistics[2 * quarter() + h] = make_float2(top[h], sum[h]);
  }
  __device__ void merge_part(const float* numbers, const float2* statistics) {
    float mine[2], theirs[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int head = 2 * quarter() + h;
      const float2 other = head < group() ? statistics[head] : make_float2(-INFINITY, 0.f);
      const float highest = fmaxf(top[h], other.x), base = highest == -INFINITY ? 0.f : highest;
      mine[h] = hopper::exp2_fast(top[h] - base);
      theirs[h] = hopper::exp2_fast(other.x - base);
      sum[h] = sum[h] * mine[h] + other.y * theirs[h];
      top[h] = highest;
    }
    each_four([&](int h, int at, float& a, float& b, float& c, float& d) {
      if (2 * quarter() + h >= group()) return;
      const float4 other = *reinterpret_cast<const float4*>(numbers + at);
      a = a * mine[h] + other.x * theirs[h];
      b = b * mine[h] + other.y * theirs[h];
      c = c * mine[h] + other.z * theirs[h];
      d = d * mine[h] + other.w * theirs[h];
    });
  }
  __device__ void store_output(const Share& share) {
    uint16_t* row = p.attended + (static_cast<int64_t>(share.row) * p.heads + share.head * group()) * kDim;
    const float scale[2] = {1.f / sum[0], 1.f / sum[1]};
    each_four([&](int h, int at, float a, float b, float c, float d) {
      if (2 * quarter() + h < group())
        *reinterpret_cast<uint2*>(row + at) = narrow_row<kFp8>(times(make_float4(a, b, c, d), scale[h]));
    });
  }

  // The warps pass their parts down to the first; those from `active` on have none.
  __device__ void merge_warps(int active, float* shared) {
    constexpr int kNumbers = kMaxGroup * kDim;
    static_assert(kConsumerWarps / 2 * (kNumbers * 4 + kMaxGroup * 8) + 4 <= kPartBytes);
    auto* statistics = reinterpret_cast<float2*>(shared + kConsumerWarps / 2 * kNumbers);
    const int warp = threadIdx.x / 32;
    for (int half = kConsumerWarps / 2; half > 0; half /= 2) {
      if (half >= active) continue;
      const int slot = warp % half;
      if (warp >= half && warp < 2 * half)
        store_part(shared + slot * kNumbers, statistics + slot * kMaxGroup);
      sync_consumers();
      if (warp < half) merge_part(shared + slot * kNumbers, statistics + slot * kMaxGroup);
      sync_consumers();
    }
  }

  // The output, or a part of it. The block that writes a head's last part makes the output of all.
  __device__ void finish(const Share& share, float* shared) {
    merge_warps(share.end - share.begin, shared);
    const bool first_warp = threadIdx.x < 32;
    if (share.num_shares == 1) {
      if (first_warp) store_output(share);
      return;
    }
    const int64_t slot = static_cast<int64_t>(share.row) * p.kv_heads + share.head, numbers = group() * kDim;
    float* parts = p.partial + slot * p.splits * numbers;
    auto* statistics = reinterpret_cast<float2*>(p.statistics) + slot * p.splits * group();
    auto* before = reinterpret_cast<unsigned*>(shared) + kPartBytes / 4 - 1;
    if (first_warp) {
      store_part(parts + share.split * numbers, statistics + share.split * group());
      __syncwarp();
      if (threadIdx.x == 0) *before = add_acquire_release(p.shares_done + slot);
    }
    sync_consumers();
    if (*before + 1 != static_cast<unsigned>(share.num_shares)) return;
    clear();
    for (int i = threadIdx.x / 32; i < share.num_shares; i += kConsumerWarps)
      merge_part(parts + i * numbers, statistics + i * group());
    merge_warps(share.num_shares, shared);
    if (first_warp) store_output(share);
    if (threadIdx.x == 0) p.shares_done[slot] = 0;
  }
};

// The block's shares, one after another. `wait` returns once the qkv product is there.
template <int kDim, bool kFp8, class Wait>
__device__ void attend(const Params& p, const Op& op, const float2* turns, float* shared, const Wait& wait) {
  Attention<kDim, kFp8> attention(p, op, turns);
  for (int item = blockIdx.x; item < p.rows * p.kv_heads * p.splits; item += gridDim.x) {
    const Share share = share_of(p, op, item);
    const int unit = share.begin + static_cast<int>(threadIdx.x / 32);
    attention.clear();
    if (unit < share.end) {
      attention.load_keys(share, unit);
      attention.load_values(share, unit);
    }
    for (int ahead = 1; ahead < kPrefetched; ++ahead)
      attention.prefetch_unit(share, unit + ahead * kConsumerWarps);
    wait();
    if (share.begin >= share.end) continue;
    attention.read_units(share);
    attention.finish(share, shared);
    sync_consumers();
  }
  wait();
}

}  // namespace cheetah::gpu::chain
