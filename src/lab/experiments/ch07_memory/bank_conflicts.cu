// SPDX-License-Identifier: MIT
// Column reads of a tile in shared memory, by row length. Everything else is the same, so time is bank
// conflicts.
#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;
constexpr int kWords = 32 * 40 + 32;  // the longest row, and the columns past it
constexpr int kBlocks = 132 * 8;
constexpr int kUnroll = 32;

// Where lane's number of column k lies: rows of kRow words, or 32 with column and row mixed.
template <int kRow>
__device__ int word_of(int lane, int k) {
  return kRow == 0 ? lane * 32 + (k ^ lane) : lane * kRow + k;
}

// Every lane adds up its row: all lanes of a warp read the same column at a time. kRow 0: swizzled.
template <int kRow>
__global__ __launch_bounds__(kThreads) void add_rows(const uint32_t* in, uint32_t* out, int rounds) {
  __shared__ uint32_t tile[kWords];
  for (int i = static_cast<int>(threadIdx.x); i < kWords; i += kThreads) tile[i] = in[i];
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  uint32_t sum = threadIdx.x;
  for (int r = 0; r < rounds; ++r) {
    const volatile uint32_t* read = tile;  // else the rounds would be merged into one
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) sum += read[word_of<kRow>(lane, k)];
  }
  out[blockIdx.x * kThreads + threadIdx.x] = sum;
}

constexpr int kRows[] = {32, 40, 36, 34, 33, 0};
constexpr const char* kNames[] = {"row-32", "row-40", "row-36", "row-34", "row-33", "swizzled"};

struct RowSum {
  const uint32_t* in;
  int row, rounds;
  __device__ double operator()(int64_t i) const {
    const int lane = static_cast<int>(i % 32);
    uint32_t sum = 0;
    for (int k = 0; k < kUnroll; ++k) sum += in[row == 0 ? lane * 32 + (k ^ lane) : lane * row + k];
    return static_cast<uint32_t>(sum * static_cast<uint32_t>(rounds) + static_cast<uint32_t>(i % kThreads));
  }
};

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t rounds = setup.dim(0);
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto in = trial->input<uint32_t>(kWords);
  const auto out = trial->output<uint32_t>(kBlocks * kThreads);
  trial->expect<RowSum>(out, [=](const At& at) {
    return RowSum{at[in], kRows[at.variant()], static_cast<int>(rounds)};
  });
  trial->set_cost({.bytes = 4.0 * kUnroll * rounds * kBlocks * kThreads, .roof = Roof::kL1});
  using Kernel = void (*)(const uint32_t*, uint32_t*, int);
  const Kernel kernels[] = {
      add_rows<32>, add_rows<40>, add_rows<36>, add_rows<34>, add_rows<33>, add_rows<0>};
  for (size_t v = 0; v < std::size(kernels); ++v)
    trial->variant(kNames[v], [=, kernel = kernels[v]](const At& at) {
      gpu::launch({.kernel = "add_rows", .grid = {kBlocks}, .block = {kThreads}, .numbers = {rounds}},
          at.stream(), kernel, at[in], at[out], static_cast<int>(rounds));
    });
  return trial;
}

const Registered kBankConflicts({
    .id = "ch07/bank-conflicts",
    .title = "Bank conflicts of column reads",
    .question =
        "How does the time of a shared-memory read grow with the number of lanes that meet in one bank?",
    .mechanism = "Word w lies in bank w mod 32 and a bank serves one word per cycle: rows of 32, 40, 36, 34 "
                 "and 33 words make "
                 "column reads 32-, 8-, 4-, 2- and 1-way; the swizzle is 1-way without the pad.",
    .claim = {.text = "Padding 32 columns to 33 removes every conflict: shared-memory use goes from 52 % to "
                      "100 % and the kernel runs 3 times as fast.",
        .variant = "row-33",
        .speedup = 3},
    .rotation = Rotation::kHot,
    .variants = {{"row-32", "all lanes in one bank"}, {"row-40", "eight lanes per bank"},
        {"row-36", "four lanes per bank"}, {"row-34", "two lanes per bank"},
        {"row-33", "one pad word: every lane its own bank"},
        {"swizzled", "column xor row: its own bank, no pad"}},
    .sizes = sizes_of({16, 128}),
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
