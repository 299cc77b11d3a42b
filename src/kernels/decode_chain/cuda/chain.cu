// The kernel of decode_chain.h. Eight warps compute, one thread streams weights, one streams the rows they
// are multiplied with, and a warp watches for the operation before to end on all blocks.
//
// Bytes: every weight once, every cached token once. Bound: memory.
#include "gpu/launch.cuh"
#include "kernels/decode_chain/cuda/chain.h"
#include "kernels/decode_chain/cuda/chain_attention.cuh"

namespace cheetah::gpu::chain {
namespace {

constexpr int kWeightWarp = kConsumerWarps, kRowWarp = kConsumerWarps + 1, kWatchWarp = kConsumerWarps + 2;

template <int kStages, int kTokens, int kDim>
struct Shared {
  uint64_t w_full[kStages], x_full[kStages], empty[kStages], begun, watched;
  float inverse_rms[kTokens];
  float2 turns[kTokens * kDim / 2];
  unsigned base;
};

// One warp: tells the arithmetic that an operation may begin, and how large its rows are.
template <int kTokens>
__device__ void watch(const Params& p, unsigned base, float* inverse_rms, uint64_t* begun,
                      uint64_t* watched) {
  for (int o = 0; o < p.num_ops; ++o) {
    const Op& op = p.ops[o];
    wait_for_op(p, base, o);
    if (threadIdx.x % 32 == 0) ptx::barrier_arrive(begun);
    if (op.square_sums) sum_squares<kTokens>(p, op, inverse_rms);
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::barrier_arrive(watched);
  }
}

template <int kTokens, bool kFp8, int kDim, class R, class S>
__device__ void compute(const Params& p, const R& ring, float* parts, S& shared) {
  int i = 0;
  for (int o = 0; o < p.num_ops; ++o) {
    const Op op = p.ops[o];
    bool waited = false;
    const auto wait = [&] {
      if (!waited) ptx::barrier_wait(&shared.watched, o & 1);
      waited = true;
    };
    if (op.kind == Kind::kProduct) {
      for (int tile = blockIdx.x; tile < op.tiles; tile += gridDim.x) {
        const Early<kTokens> early = load_early<kTokens>(p, op, tile);
        if (op.up_row)
          multiply_gated<kTokens, kFp8>(op, ring, i, parts);
        else
          multiply_plain<kTokens, kFp8>(op, ring, i, parts);
        sync_consumers();
        wait();
        finish_tile<kTokens, kFp8>(p, op, tile, parts, shared.inverse_rms, early);
        sync_consumers();
      }
      wait();
    } else if (op.kind == Kind::kAttend) {
      attend<kDim, kFp8>(p, op, shared.turns, parts, wait);
    } else {
      wait();
      prepare_rows<kFp8>(p, op, parts);
    }
    sync_consumers();
    if (threadIdx.x == 0 && o + 1 < p.num_ops) add_release(p.arrivals);
  }
  const unsigned end = shared.base + static_cast<unsigned>(p.num_ops) * gridDim.x;
  if (threadIdx.x == 0 && add_acquire_release(p.arrivals) + 1 == end) *p.arrivals_before = end;
}

// The warps that do not compute.
template <int kTokens, class R, class S>
__device__ void bring(const Params& p, const R& ring, S& shared) {
  const int warp = threadIdx.x / 32;
  const bool leads = threadIdx.x % 32 == 0;
  if (warp == kWeightWarp) {  // weights do not depend on the kernels before
    if (leads) stream_weights(p, ring);
    return;
  }
  ptx::wait_for_dependencies();
  if (warp == kRowWarp && leads) stream_rows(p, ring, &shared.begun);
  if (warp == kWatchWarp)
    watch<kTokens>(p, __ldcg(p.arrivals_before), shared.inverse_rms, &shared.begun, &shared.watched);
}

template <int kRows, bool kFp8, int kDim>
__global__ void __launch_bounds__(kThreads, 1) decode_chain(const Params p) {
  using R = Ring<kRows, kFp8>;
  constexpr int kTokens = R::kTokens;
  extern __shared__ unsigned char raw[];
  __shared__ Shared<R::kStages, kTokens, kDim> shared;
  const R ring{ptx::align_shared(raw, 1024), shared.w_full, shared.x_full, shared.empty};
  float* parts = reinterpret_cast<float*>(ring.data + R::kStages * R::kStageBytes);
  if (threadIdx.x == 0) {
    for (int s = 0; s < R::kStages; ++s) {
      ptx::barrier_init(&shared.w_full[s], 1);
      ptx::barrier_init(&shared.x_full[s], 1);
      ptx::barrier_init(&shared.empty[s], kConsumerWarps);
    }
    ptx::barrier_init(&shared.begun, 1);
    ptx::barrier_init(&shared.watched, 1);
    ptx::fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x >= kConsumerWarps * 32) {
    ptx::give_registers<56>();
    return bring<kTokens>(p, ring, shared);
  }
  ptx::take_registers<224>();
  ptx::wait_for_dependencies();
  const unsigned base = __ldcg(p.arrivals_before);
  if (threadIdx.x == 0) shared.base = base;
  for (int at = threadIdx.x; at < p.rows * (kDim / 2); at += kConsumerWarps * 32) {
    float sine, cosine;
    const auto position = static_cast<float>(p.positions[at / (kDim / 2)]);
    sincosf(__fmul_rn(position, p.inv_freq[at % (kDim / 2)]), &sine, &cosine);
    shared.turns[at] = make_float2(cosine * p.rope_magnitude, sine * p.rope_magnitude);
  }
  sync_consumers();
  compute<kTokens, kFp8, kDim>(p, ring, parts, shared);
  ptx::launch_dependents();
}

template <int kRows, bool kFp8, int kDim>
void launch_kernel(const Params& params, Stream& stream) {
  gpu::launch({.kernel = "decode_chain",
               .grid = {stream.device().num_sms},
               .block = {kThreads},
               .shared_bytes = Ring<kRows, kFp8>::kBytes,
               .overlaps_previous = true,
               .numbers = {params.rows, params.num_ops, params.hidden, params.heads, params.kv_heads}},
              stream, decode_chain<kRows, kFp8, kDim>, params);
}

template <bool kFp8, int kDim>
void launch_rows(const Params& params, Stream& stream) {
  static_assert(kRowBoxes.size() == 2);
  if (params.rows <= kRowBoxes[0]) return launch_kernel<kRowBoxes[0], kFp8, kDim>(params, stream);
  launch_kernel<kRowBoxes[1], kFp8, kDim>(params, stream);
}

}  // namespace

void launch_chain(const Params& params, DType weights, int head_dim, Stream& stream) {
  const bool fp8 = weights == DType::kF8E4M3;
  if (head_dim == 64)
    fp8 ? launch_rows<true, 64>(params, stream) : launch_rows<false, 64>(params, stream);
  else
    fp8 ? launch_rows<true, 128>(params, stream) : launch_rows<false, 128>(params, stream);
}

}  // namespace cheetah::gpu::chain
