// SPDX-License-Identifier: MIT
// The sum of an array of whole numbers, modulo 2^32: any order gives the same bits.
#include "lab/experiments/piece_sum.cuh"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;
constexpr unsigned kAll = 0xFFFFFFFFu;

__device__ int64_t global_thread() { return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; }

__global__ __launch_bounds__(kThreads) void add_each(const uint32_t* x, uint32_t* sum, int64_t n) {
  const int64_t i = global_thread();
  if (i < n) atomicAdd(sum, x[i]);
}

// A tree in shared memory whose active threads lie ever further apart: warps stay busy with few lanes.
__global__ __launch_bounds__(kThreads) void tree_spread(const uint32_t* x, uint32_t* sum, int64_t n) {
  __shared__ uint32_t part[kThreads];
  const int t = static_cast<int>(threadIdx.x);
  part[t] = global_thread() < n ? x[global_thread()] : 0;
  __syncthreads();
  for (int step = 1; step < kThreads; step *= 2) {
    if (t % (2 * step) == 0) part[t] += part[t + step];
    __syncthreads();
  }
  if (t == 0) atomicAdd(sum, part[0]);
}

// The same with the active threads side by side: whole warps retire.
__global__ __launch_bounds__(kThreads) void tree_dense(const uint32_t* x, uint32_t* sum, int64_t n) {
  __shared__ uint32_t part[kThreads];
  const int t = static_cast<int>(threadIdx.x);
  part[t] = global_thread() < n ? x[global_thread()] : 0;
  __syncthreads();
  for (int step = kThreads / 2; step > 0; step /= 2) {
    if (t < step) part[t] += part[t + step];
    __syncthreads();
  }
  if (t == 0) atomicAdd(sum, part[0]);
}

// Shuffles inside the warps, then one warp for the warps' sums: one barrier. All threads call it.
__device__ void add_block(uint32_t v, uint32_t* sum) {
  __shared__ uint32_t part[kThreads / 32];
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(kAll, v, step);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  v = threadIdx.x < kThreads / 32 ? part[threadIdx.x] : 0;
  for (int step = 4; step > 0; step /= 2) v += __shfl_xor_sync(kAll, v, step);
  if (threadIdx.x == 0) atomicAdd(sum, v);
}

__global__ __launch_bounds__(kThreads) void shuffled(const uint32_t* x, uint32_t* sum, int64_t n) {
  add_block(global_thread() < n ? x[global_thread()] : 0, sum);
}

// A few blocks an SM walk the array with 16-byte loads, four in flight: one block reduction for many numbers.
__global__ __launch_bounds__(kThreads) void walked(const uint32_t* x, uint32_t* sum, int64_t n) {
  const uint4* wide = reinterpret_cast<const uint4*>(x);
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads, count = n / 4;
  uint32_t v = 0;
  int64_t i = global_thread();
  for (; i + 3 * step < count; i += 4 * step) {
    uint4 q[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) q[k] = wide[i + k * step];
#pragma unroll
    for (int k = 0; k < 4; ++k) v += q[k].x + q[k].y + q[k].z + q[k].w;
  }
  for (; i < count; i += step) v += wide[i].x + wide[i].y + wide[i].z + wide[i].w;
  add_block(v, sum);
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0);  // a multiple of 4
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<uint32_t>(n);
  const auto sum = trial->output<uint32_t>(1);
  expect_total(*trial, x, sum);
  trial->set_cost({.flops = 1.0 * n, .bytes = 4.0 * n, .roof = Roof::kDramRead});
  const auto add = [&](const char* name, void (*kernel)(const uint32_t*, uint32_t*, int64_t),
                       int64_t blocks) {
    trial->variant(name, [=](const At& at) {
      gpu::fill_bytes(at[sum], 0, sizeof(uint32_t), at.stream());
      gpu::launch({.kernel = name, .grid = {blocks}, .block = {kThreads}, .numbers = {n}}, at.stream(),
          kernel, at[x], at[sum], n);
    });
  };
  const int64_t all = blocks_of(n, kThreads);
  add("atomic", add_each, all);
  add("tree-spread", tree_spread, all);
  add("tree-dense", tree_dense, all);
  add("shuffles", shuffled, all);
  add("walk", walked, std::min<int64_t>(all, setup.stream->device().num_sms * 8));
  return trial;
}

const Registered kBlockReduce({
    .id = "ch07/block-reduce",
    .title = "Adding up an array",
    .question = "Which step of the reduction ladder still matters for a sum that memory should limit?",
    .mechanism = "One atomic a number is merged per warp by the compiler but still meets at one address; "
                 "trees cost eight "
                 "barriers a block, dense ones idle whole warps instead of lanes; shuffles need one barrier; "
                 "walking blocks "
                 "with wide loads make the reduction itself vanish.",
    .claim = {.text = "Shuffles replace shared memory and barriers inside a warp; across warps shared memory "
                      "is still needed; no figure is given.",
        .variant = "shuffles"},
    .variants = {{"atomic", "an atomic addition per number"},
        {"tree-spread", "shared tree, active threads spread out"},
        {"tree-dense", "shared tree, active threads side by side"}, {"shuffles", "shuffles, one barrier"},
        {"walk", "eight blocks per SM walk with wide loads"}},
    .sizes = sizes_of({1 << 20, 1 << 24, 1 << 28}),
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
