// SPDX-License-Identifier: MIT
// Structures of three floats: 12 bytes, a stride that no vector load fits.
#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;
constexpr int kParts = 3;

// Each component takes half of the next one: (x + y/2, y + z/2, z + x/2).
__device__ void mix(float& x, float& y, float& z) {
  const float first = x;
  x += 0.5f * y;
  y += 0.5f * z;
  z += 0.5f * first;
}

__global__ __launch_bounds__(kThreads) void direct(const float* in, float* out, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  float x = in[3 * i], y = in[3 * i + 1], z = in[3 * i + 2];
  mix(x, y, z);
  out[3 * i] = x;
  out[3 * i + 1] = y;
  out[3 * i + 2] = z;
}

// The block moves its 3 KB with contiguous 16-byte accesses; lanes pick their triples from shared memory,
// where the odd stride 3 meets every bank once.
__global__ __launch_bounds__(kThreads) void staged(const float4* in, float4* out) {
  constexpr int kVectors = kThreads * kParts / 4;
  __shared__ float4 tile[kVectors];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kVectors;
  for (int v = static_cast<int>(threadIdx.x); v < kVectors; v += kThreads) tile[v] = in[first + v];
  __syncthreads();
  float* own = reinterpret_cast<float*>(tile) + kParts * threadIdx.x;
  mix(own[0], own[1], own[2]);
  __syncthreads();
  for (int v = static_cast<int>(threadIdx.x); v < kVectors; v += kThreads) out[first + v] = tile[v];
}

// One array a component; the result has the same layout.
__global__ __launch_bounds__(kThreads) void planes(const float* in, float* out, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  float x = in[i], y = in[n + i], z = in[2 * n + i];
  mix(x, y, z);
  out[i] = x;
  out[n + i] = y;
  out[2 * n + i] = z;
}

struct Mixed {
  const float* in;
  int64_t n;
  bool in_planes;
  __device__ double operator()(int64_t at) const {
    const int64_t part = in_planes ? at / n : at % kParts, i = in_planes ? at % n : at / kParts;
    const int64_t next = (part + 1) % kParts;
    return in[at] + 0.5 * in[in_planes ? next * n + i : i * kParts + next];
  }
};

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0);  // a multiple of the block
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto in = trial->input<float>(n * kParts);
  const auto out = trial->output<float>(n * kParts);
  trial->expect<Mixed>(out, [=](const At& at) { return Mixed{at[in], n, at.variant() == 2}; });
  trial->set_cost({.flops = 6.0 * n, .bytes = 24.0 * n});
  const gpu::Extent grid{n / kThreads}, block{kThreads};
  trial->variant("direct", [=](const At& at) {
    gpu::launch({.kernel = "direct", .grid = grid, .block = block, .numbers = {n}}, at.stream(), direct,
        at[in], at[out], n);
  });
  trial->variant("staged", [=](const At& at) {
    gpu::launch({.kernel = "staged", .grid = grid, .block = block, .numbers = {n}}, at.stream(), staged,
        reinterpret_cast<const float4*>(at[in]), reinterpret_cast<float4*>(at[out]));
  });
  trial->variant("planes", [=](const At& at) {
    gpu::launch({.kernel = "planes", .grid = grid, .block = block, .numbers = {n}}, at.stream(), planes,
        at[in], at[out], n);
  });
  return trial;
}

const Registered kStagedStructs({
    .id = "ch07/staged-structs",
    .title = "Twelve-byte structures through shared memory",
    .question = "Is it worth staging structures that cannot be loaded as vectors through shared memory?",
    .mechanism = "Three loads with stride 12 bytes ask for the same twelve sectors three times; L1 answers "
                 "two of them. "
                 "Staging asks once, with wide accesses, and pays two barriers.",
    .claim = {.text = "Uncoalesced access is cured by contiguous indices, arrays of fields or staging in "
                      "shared memory; no figure is given.",
        .variant = "staged"},
    .variants = {{"direct", "three 4-byte loads with stride 12"},
        {"staged", "wide contiguous accesses, triples picked from shared memory"},
        {"planes", "one array a component"}},
    .sizes = sizes_of({1 << 18, 1 << 22, 1 << 25}),
    .tolerance = {.absolute = 1e-6},
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
