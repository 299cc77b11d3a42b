// SPDX-License-Identifier: MIT
// c = a + b with every shape of launch: one thread, one warp, one block, one block per SM, one thread an
// element; and which block and grid sizes are enough.
#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

// Any launch covers any n: threads step by their number.
__global__ void add(
    const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int64_t n) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step)
    c[i] = a[i] + b[i];
}

// One element per thread, with a guard for the last block.
__global__ void add_once(
    const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

struct Sum {
  const float *a, *b;
  __device__ double operator()(int64_t i) const { return a[i] + b[i]; }
};

using Kernel = void (*)(const float*, const float*, float*, int64_t);

class Addition {
 public:
  explicit Addition(const Setup& setup) : n(setup.dim(0)), trial(std::make_unique<DeviceTrial>(setup)) {
    a = trial->input<float>(n);
    b = trial->input<float>(n);
    c = trial->output<float>(n);
    trial->expect<Sum>(c, [a = a, b = b](const At& at) { return Sum{at[a], at[b]}; });
    trial->set_cost({.flops = 1.0 * n, .bytes = 12.0 * n});
  }
  void shape(const char* name, Kernel kernel, int64_t blocks, int64_t threads) {
    trial->variant(name, [=, n = n, a = a, b = b, c = c](const At& at) {
      gpu::launch({.kernel = name, .grid = {blocks}, .block = {threads}, .numbers = {n}}, at.stream(), kernel,
          at[a], at[b], at[c], n);
    });
  }

  int64_t n;
  std::unique_ptr<DeviceTrial> trial;
  Slot<float> a, b, c;
};

std::unique_ptr<Trial> make_shapes(const Setup& setup) {
  Addition addition(setup);
  addition.shape("one-thread", add, 1, 1);
  addition.shape("one-warp", add, 1, 32);
  addition.shape("one-block", add, 1, 1024);
  addition.shape("block-per-sm", add, setup.stream->device().num_sms, 256);
  addition.shape("thread-per-element", add_once, blocks_of(addition.n, 256), 256);
  return std::move(addition.trial);
}

std::unique_ptr<Trial> make_block_sizes(const Setup& setup) {
  Addition addition(setup);
  const std::pair<const char*, int64_t> sizes[] = {
      {"32", 32}, {"64", 64}, {"128", 128}, {"256", 256}, {"512", 512}, {"1024", 1024}};
  for (const auto& [name, threads] : sizes)
    addition.shape(name, add_once, blocks_of(addition.n, threads), threads);
  return std::move(addition.trial);
}

std::unique_ptr<Trial> make_grid_sizes(const Setup& setup) {
  Addition addition(setup);
  const int64_t sms = setup.stream->device().num_sms;
  addition.shape("half-the-sms", add, sms / 2, 256);
  addition.shape("1-per-sm", add, sms, 256);
  addition.shape("2-per-sm", add, sms * 2, 256);
  addition.shape("8-per-sm", add, sms * 8, 256);
  addition.shape("32-per-sm", add, sms * 32, 256);
  addition.shape("thread-per-element", add_once, blocks_of(addition.n, 256), 256);
  return std::move(addition.trial);
}

const Registered kShapes({
    .id = "ch06/launch-shape",
    .title = "Vector addition, from one thread to the whole device",
    .question = "How much of the device does each launch shape reach?",
    .mechanism = "One thread waits out every memory latency; a warp hides 32 of them in one request, a block "
                 "up to 32 warps, "
                 "and only a grid that covers the SMs can keep all memory channels busy.",
    .claim = {.text = "One thread per element takes 2.17 ms where one thread for all takes 48.21 ms, a "
                      "million numbers.",
        .variant = "thread-per-element",
        .speedup = 22},
    .variants = {{"one-thread", "a loop over everything"}, {"one-warp", "32 lanes step together"},
        {"one-block", "1024 threads on one SM"}, {"block-per-sm", "256 threads on every SM"},
        {"thread-per-element", "as many threads as numbers"}},
    .sizes = sizes_of({1 << 14, 1 << 18}),
    .make = make_shapes,
});

const Registered kBlockSizes({
    .id = "ch06/block-size",
    .title = "Threads per block",
    .question = "Which block sizes are good enough for a memory-bound kernel with one element per thread?",
    .mechanism = "An SM holds 32 blocks and 64 warps: blocks of 32 threads reach half of its warps, from 64 "
                 "on all; past "
                 "that only the cost of starting blocks and of draining the last wave differ.",
    .claim = {.text = "Start with 256 and try 128 and 512; 128 to 256 in one chapter, 256 to 512 in another; "
                      "no figure is given."},
    .variants = {{"32", "half of the SM's warps at most"}, {"64", "32 blocks fill the SM"},
        {"128", "16 blocks"}, {"256", "8 blocks"}, {"512", "4 blocks"}, {"1024", "2 blocks"}},
    .sizes = sizes_of({1 << 20, 1 << 24, 1 << 27}),
    .make = make_block_sizes,
});

const Registered kGridSizes({
    .id = "ch06/grid-size",
    .title = "Blocks per grid",
    .question = "How many blocks per SM does a stepping kernel need before more change nothing?",
    .mechanism =
        "Bytes in flight must cover bandwidth times latency, some 22 KB per SM: a few warps with two "
        "loads each are "
        "not enough, eight blocks of eight warps are; more blocks than fit only queue.",
    .claim = {.text = "At least as many blocks as SMs, usually many more; occupancy from 10 to 50 % gains "
                      "much, from 50 to 100 % little."},
    .variants = {{"half-the-sms", "every second SM idle"}, {"1-per-sm", "eight warps per SM"},
        {"2-per-sm", "sixteen warps per SM"}, {"8-per-sm", "all 64 warps"}, {"32-per-sm", "four waves"},
        {"thread-per-element", "no stepping"}},
    .sizes = sizes_of({1 << 20, 1 << 24, 1 << 27}),
    .make = make_grid_sizes,
});

}  // namespace
}  // namespace cheetah::lab
