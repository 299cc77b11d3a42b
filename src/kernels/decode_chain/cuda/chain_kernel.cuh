// SPDX-License-Identifier: MIT
#pragma once
// The kernel of decode_chain.h. Eight warps compute, one thread streams weights, one streams the rows they
// are multiplied with, and one watches for the operation before to end on all blocks. Blocks come in clusters
// of two, which share the tokens of a sequence in attention.
//
// Bytes: every weight once, every cached token once. Bound: memory.
#include "gpu/launch.cuh"
#include "kernels/decode_chain/cuda/chain.h"
#include "kernels/decode_chain/cuda/chain_attention.cuh"

namespace cheetah::gpu::chain {

inline constexpr int kWeightWarp = kConsumerWarps, kRowWarp = kConsumerWarps + 1,
                     kWatchWarp = kConsumerWarps + 2;

// One kernel: rows of x a copy moves, the type of the weights, how the cache is stored.
template <int kRows, Weights kTypeOfWeights, class UnitOfCache>
struct Form {
  static constexpr Weights kWeights = kTypeOfWeights;
  using R = Ring<kRows, kWeights>;
  using U = UnitOfCache;
  static constexpr int kTokens = R::kTokens, kDim = U::kDim;
};

template <class F>
struct Shared {
  using R = typename F::R;
  uint64_t w_full[R::kStages], x_full[R::kStages], empty[R::kStages];
  uint64_t begun;       // an operation: all blocks have ended the one before
  uint64_t ended;       // it, on this block: its arithmetic, and who brings x knows that it began
  uint64_t queries_in;  // attention has the first it needs
  float2 turns[R::kMaxRows * F::kDim / 2];
  Meeting<F::kDim> meeting;
  Op ops[2];  // this one, and the next
  ShareTable table;
  unsigned base;
};

// One thread: tells when an operation may begin. Attention waits for its numbers instead.
__device__ inline void watch(const Params& p, unsigned base, uint64_t* begun, uint64_t* ended) {
  for (int o = 0; o < p.num_ops; ++o) {
    const bool waits = p.ops[o].kind != Kind::kAttend;
    if (o > 0) ptx::barrier_wait(ended, (o - 1) & 1);
    if (waits) wait_for_op(p, base, o);
    ptx::barrier_arrive(begun);
  }
}

// The block's own tiles: it is the one that writes them next.
__device__ inline void clear_qkv(const Params& p, const Op& op) {
  const int width = (p.heads + 2 * p.kv_heads) * p.head_dim;
  for (int tile = blockIdx.x; tile < op.qkv_tiles; tile += gridDim.x) {
    const int first = tile * op.qkv_rows, words = min(op.qkv_rows, width - first) / 4;
    for (int i = threadIdx.x; i < p.rows * words; i += kConsumerWarps * 32)
      *reinterpret_cast<uint2*>(p.qkv + static_cast<int64_t>(i / words) * width + first + i % words * 4) =
          make_uint2(kUnwritten, kUnwritten);
  }
}

template <class F>
__device__ void run_product(const Params& p, const Op& op, const typename F::R& ring, int& i, float* parts) {
  RowScales<F::kTokens> scales;
  for (int tile = blockIdx.x; tile < op.tiles; tile += gridDim.x) {
    const bool is_first = tile == static_cast<int>(blockIdx.x);
    const Early<F::kTokens> early = load_early<F::kTokens>(p, op, tile);
    if (is_first) {
      ring.wait_x(i);  // with x its sums of squares have come
      scales.ask(p, op);
    }
    if (op.up_row)
      multiply_gated<F::kTokens, F::kWeights>(op, ring, i, parts);
    else
      multiply_plain<F::kTokens, F::kWeights>(op, ring, i, parts);
    sync_consumers();
    if (is_first) scales.finish(p, op);
    finish_tile<F::kTokens, F::kWeights>(p, op, tile, parts, scales, early);
    sync_consumers();
  }
}

// A word of the next operation, on its way while this one runs.
struct NextOp {
  static constexpr int kWords = sizeof(Op) / 4;
  static_assert(kWords <= kConsumerWarps * 32);
  bool brings;
  uint32_t word = 0;

  __device__ NextOp(const Params& p, int o) : brings(o < p.num_ops && threadIdx.x < kWords) {
    if (brings) word = __ldg(reinterpret_cast<const uint32_t*>(p.ops + o) + threadIdx.x);
  }
  __device__ void put(Op& to) const {
    if (brings) reinterpret_cast<uint32_t*>(&to)[threadIdx.x] = word;
  }
};

template <class F>
__device__ void compute(const Params& p, const typename F::R& ring, float* parts, Shared<F>& shared) {
  int i = 0, meetings = 0;
  const Merger<F::kDim, F::kWeights, F::R::kHeadsAtOnce> merger{p, parts, shared.meeting, meetings};
  for (int o = 0; o < p.num_ops; ++o) {
    const Op op = shared.ops[o & 1];
    const NextOp next(p, o + 1);
    if (op.kind == Kind::kProduct) {
      if (op.qkv_tiles > 0) clear_qkv(p, op);
      if (op.keys) prefetch_cache<typename F::U>(p, op, shared);
      run_product<F>(p, op, ring, i, parts);
    } else if (op.kind == Kind::kAttend) {
      attend<typename F::U>(p, op, shared, merger);
    } else {
      prepare_rows<F::kWeights>(p, op, parts);
    }
    ptx::barrier_wait(&shared.begun, o & 1);  // blocks without a share of it keep step, too
    next.put(shared.ops[(o + 1) & 1]);
    sync_consumers();
    if (threadIdx.x == 0) {
      ptx::barrier_arrive(&shared.ended);
      if (o + 1 < p.num_ops) add_release(p.arrivals);
    }
  }
  const unsigned end = shared.base + static_cast<unsigned>(p.num_ops) * gridDim.x;
  if (threadIdx.x == 0 && add_acquire_release(p.arrivals) + 1 == end) *p.arrivals_before = end;
}

// The warps that do not compute: one thread of each.
template <class F>
__device__ void bring(const Params& p, const typename F::R& ring, Shared<F>& shared) {
  const int warp = threadIdx.x / 32;
  if (threadIdx.x % 32 != 0) return;
  if (warp == kWeightWarp)  // weights do not depend on the kernels before
    return stream_weights(p, ring, &shared.queries_in);
  ptx::wait_for_dependencies();
  if (warp == kRowWarp) stream_rows(p, ring, &shared.begun, &shared.ended);
  if (warp == kWatchWarp) watch(p, __ldcg(p.arrivals_before), &shared.begun, &shared.ended);
}

template <class F>
__global__ void __launch_bounds__(kThreads, 1) decode_chain(const Params p) {
  using R = typename F::R;
  constexpr int kDim = F::kDim;
  extern __shared__ unsigned char raw[];
  __shared__ Shared<F> shared;
  static_assert(sizeof(shared) <= R::kStaticBytes);
  const R ring{ptx::align_shared(raw, 1024), shared.w_full, shared.x_full, shared.empty};
  float* parts = reinterpret_cast<float*>(ring.data + R::kStages * R::kStageBytes);
  if (threadIdx.x == 0) {
    for (int s = 0; s < R::kStages; ++s) {
      ptx::barrier_init(&shared.w_full[s], 1);
      ptx::barrier_init(&shared.x_full[s], 1);
      ptx::barrier_init(&shared.empty[s], kConsumerWarps);
    }
    ptx::barrier_init(&shared.begun, 1);
    ptx::barrier_init(&shared.ended, 2);
    ptx::barrier_init(&shared.queries_in, 1);
    shared.table.item = -1;
    shared.meeting.init();
    ptx::fence_barrier_init();
  }
  ptx::cluster_arrive();  // the other block's barriers are there, too
  ptx::cluster_wait();
  if (threadIdx.x >= kConsumerWarps * 32) {
    ptx::give_registers<56>();
    return bring<F>(p, ring, shared);
  }
  ptx::take_registers<224>();
  ptx::wait_for_dependencies();
  const unsigned base = __ldcg(p.arrivals_before);
  if (threadIdx.x == 0) shared.base = base, shared.ops[0] = p.ops[0];
  for (int at = threadIdx.x; at < p.rows * (kDim / 2); at += kConsumerWarps * 32) {
    float sine, cosine;
    const auto position = static_cast<float>(p.positions[at / (kDim / 2)]);
    sincosf(__fmul_rn(position, p.inv_freq[at % (kDim / 2)]), &sine, &cosine);
    shared.turns[at] = make_float2(cosine * p.rope_magnitude, sine * p.rope_magnitude);
  }
  sync_consumers();
  compute<F>(p, ring, parts, shared);
  ptx::launch_dependents();
}

template <class F>
void launch_form(const Params& params, Stream& stream) {
  gpu::launch({.kernel = "decode_chain",
                  .grid = {stream.device().num_sms / 2 * 2},
                  .block = {kThreads},
                  .shared_bytes = F::R::kBytes,
                  .cluster = {2},
                  .overlaps_previous = true,
                  .numbers = {params.rows, params.num_ops, params.hidden, params.heads, params.kv_heads}},
      stream, decode_chain<F>, params);
}

template <Weights kWeights, class U>
void launch_rows(const Params& params, Stream& stream) {
  static_assert(kRowBoxes.size() == 2);
  if (params.rows <= kRowBoxes[0]) return launch_form<Form<kRowBoxes[0], kWeights, U>>(params, stream);
  launch_form<Form<kRowBoxes[1], kWeights, U>>(params, stream);
}

// Weights in BF16 or FP8.
template <class U>
void launch_with(const Params& params, DType weights, Stream& stream) {
  if (weights == DType::kF8E4M3)
    launch_rows<Weights::kFp8, U>(params, stream);
  else
    launch_rows<Weights::kBf16, U>(params, stream);
}

}  // namespace cheetah::gpu::chain
