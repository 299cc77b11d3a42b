// SPDX-License-Identifier: MIT
// Which experts a token goes to (one warp per token, its scores in shared memory), the order that puts each
// expert's tokens side by side (a block per expert looks through all choices, so that the order never varies),
// and the weighted sum.
// bytes  logits once, ids twice an expert from the caches    bound  latency: these are small
#include "base/error.h"
#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/moe/moe_cuda.h"

namespace cheetah::gpu {
namespace {

constexpr int kThreads = 256;

__device__ float never() { return __int_as_float(static_cast<int>(0xFF800000u)); }  // minus infinity

__device__ int lane() { return static_cast<int>(threadIdx.x); }

// values = softmax(values) over the warp.
__device__ void warp_softmax(float* values, int count) {
  float peak = never(), sum = 0.f;
  for (int i = lane(); i < count; i += kWarpSize) peak = fmaxf(peak, values[i]);
  peak = warp_max(peak);
  for (int i = lane(); i < count; i += kWarpSize) sum += values[i] = expf(values[i] - peak);
  sum = warp_sum(sum);
  for (int i = lane(); i < count; i += kWarpSize) values[i] /= sum;
  __syncwarp();
}

// The best of `values` not yet taken, ties to the lower index; marks it taken.
__device__ int take_best(const float* values, bool* taken, int count) {
  float best = never();
  int at = count;
  for (int i = lane(); i < count; i += kWarpSize) {
    const float value = isnan(values[i]) ? never() : values[i];
    if (!taken[i] && (at == count || value > best)) {
      best = value;
      at = i;
    }
  }
  for (int step = kWarpSize / 2; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(kWholeWarp, best, step);
    const int other_at = __shfl_xor_sync(kWholeWarp, at, step);
    if (other_at < count && (at == count || other > best || (other == best && other_at < at))) {
      best = other;
      at = other_at;
    }
  }
  if (lane() == 0) taken[at] = true;
  __syncwarp();
  return at;
}

__device__ float group_score(const RouterArgs& args, const float* choice, int size) {
  float best = never(), second = never();
  for (int i = 0; i < size; ++i) {
    second = fmaxf(second, fminf(best, choice[i]));
    best = fmaxf(best, choice[i]);
  }
  return args.group_score_top2 && size > 1 ? best + second : best;
}

// Experts of groups outside the best top_groups are out.
__device__ void mask_groups(const RouterArgs& args, float* choice, float* group_scores, bool* kept) {
  const int groups = static_cast<int>(args.groups), size = static_cast<int>(args.experts) / groups;
  for (int g = lane(); g < groups; g += kWarpSize) {
    group_scores[g] = group_score(args, choice + g * size, size);
    kept[g] = false;
  }
  __syncwarp();
  for (int i = 0; i < args.top_groups; ++i) take_best(group_scores, kept, groups);
  for (int i = lane(); i < args.experts; i += kWarpSize)
    if (!kept[i / size]) choice[i] = never();
  __syncwarp();
}

// weights [top_k] of one token from the scores of its experts.
__device__ void weigh(const RouterArgs& args, float* weights) {
  const int top_k = static_cast<int>(args.top_k);
  if (args.score == RouterScore::kSoftmaxOfTopK) warp_softmax(weights, top_k);
  float sum = 0.f;
  for (int i = lane(); i < top_k; i += kWarpSize) sum += weights[i];
  sum = warp_sum(sum) + args.normalize_floor;
  for (int i = lane(); i < top_k; i += kWarpSize)
    weights[i] *= args.normalize ? args.scale / sum : args.scale;
}

// Shared memory: scores, choice, group scores as floats, then a flag an expert.
__global__ __launch_bounds__(kWarpSize) void route_token(
    const RouterArgs args, int32_t* ids, float* weights) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  extern __shared__ float shared[];
  const int experts = static_cast<int>(args.experts), top_k = static_cast<int>(args.top_k);
  float *scores = shared, *choice = scores + experts, *group_scores = choice + experts;
  bool* taken = reinterpret_cast<bool*>(group_scores + args.groups);
  const float* logits = args.logits + blockIdx.x * args.experts;
  for (int i = lane(); i < experts; i += kWarpSize)
    scores[i] = args.score == RouterScore::kSigmoid ? 1.f / (1.f + expf(-logits[i])) : logits[i];
  __syncwarp();
  if (args.score == RouterScore::kSoftmax) warp_softmax(scores, experts);
  for (int i = lane(); i < experts; i += kWarpSize)
    choice[i] = scores[i] + (args.selection_bias ? args.selection_bias[i] : 0.f);
  __syncwarp();
  if (args.groups > 1) mask_groups(args, choice, group_scores, taken);
  for (int i = lane(); i < experts; i += kWarpSize) taken[i] = false;
  __syncwarp();
  ids += blockIdx.x * args.top_k;
  weights += blockIdx.x * args.top_k;
  for (int i = 0; i < top_k; ++i) {
    const int best = take_best(choice, taken, experts);
    if (lane() == 0) {
      ids[i] = best;
      weights[i] = scores[best];
    }
  }
  __syncwarp();
  weigh(args, weights);
}

// A block per expert: how many choices fall on those before it, then its own in order, a block's width at a
// time.
__global__ __launch_bounds__(kThreads) void sort_choices(
    const int32_t* ids, int64_t count, ExpertOrder order) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  constexpr int kWarps = kThreads / kWarpSize;
  __shared__ int32_t counts[kWarps];
  const auto e = static_cast<int32_t>(blockIdx.x);
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize,
            in_warp = static_cast<int>(threadIdx.x) % kWarpSize;
  const auto block_total = [&](int32_t mine, int32_t& before) {  // before: of the warps before this one
    if (in_warp == 0) counts[warp] = mine;
    __syncthreads();
    int32_t total = 0;
    for (int w = 0; w < kWarps; ++w) {
      if (w == warp) before = total;
      total += counts[w];
    }
    __syncthreads();
    return total;
  };
  int32_t lower = 0, before = 0;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) lower += ids[i] < e;
  for (int step = kWarpSize / 2; step > 0; step /= 2) lower += __shfl_xor_sync(kWholeWarp, lower, step);
  int32_t row = block_total(lower, before);
  if (threadIdx.x == 0) order.offsets[e] = row;
  for (int64_t base = 0; base < count; base += kThreads) {
    const int64_t i = base + threadIdx.x;
    const bool is_mine = i < count && ids[i] == e;
    const unsigned mine = __ballot_sync(kWholeWarp, is_mine);
    const int32_t total = block_total(__popc(mine), before);
    if (is_mine) {
      const int32_t at = row + before + __popc(mine & ((1u << in_warp) - 1));
      order.source[at] = static_cast<int32_t>(i);
      order.row_of[i] = at;
    }
    row += total;
  }
  if (e == static_cast<int32_t>(gridDim.x) - 1 && threadIdx.x == 0) order.offsets[e + 1] = row;
}

template <class T>
__global__ __launch_bounds__(kThreads) void combine(const CombineArgs<T> args) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t token = i / args.cols, col = i % args.cols;
  if (token >= args.tokens) return;
  float sum = widen(args.y[i]);
  for (int64_t at = token * args.top_k; at < (token + 1) * args.top_k; ++at)
    sum += args.weights[at] * widen(args.out[args.row_of[at] * args.cols + col]);
  args.y[i] = narrow<T>(sum);
}

}  // namespace

void route(const RouterArgs& args, int32_t* ids, float* weights, Stream& stream) {
  CHEETAH_ASSERT(args.top_k <= args.experts, "route: more choices than experts");
  CHEETAH_ASSERT(args.groups >= 1 && args.experts % args.groups == 0 && args.top_groups <= args.groups,
      "route: groups are equal");
  const int64_t shared =
      (2 * args.experts + args.groups) * static_cast<int64_t>(sizeof(float)) + args.experts;
  launch({.kernel = "route",
             .grid = {args.tokens},
             .block = {kWarpSize},
             .shared_bytes = shared,
             .overlaps_previous = true,
             .numbers = {args.tokens, args.experts, args.top_k, args.groups}},
      stream, route_token, args, ids, weights);
}

void order_by_expert(
    const int32_t* ids, int64_t count, int64_t experts, const ExpertOrder& order, Stream& stream) {
  launch({.kernel = "order_by_expert",
             .grid = {experts},
             .block = {kThreads},
             .overlaps_previous = true,
             .numbers = {count, experts}},
      stream, sort_choices, ids, count, order);
}

template <class T>
void combine_experts(const CombineArgs<T>& args, Stream& stream) {
  launch({.kernel = "combine_experts",
             .grid = {(args.tokens * args.cols + kThreads - 1) / kThreads},
             .block = {kThreads},
             .overlaps_previous = true,
             .numbers = {args.tokens, args.top_k, args.cols}},
      stream, combine<T>, args);
}

template void combine_experts<float>(const CombineArgs<float>&, Stream&);
template void combine_experts<Bf16>(const CombineArgs<Bf16>&, Stream&);

}  // namespace cheetah::gpu
