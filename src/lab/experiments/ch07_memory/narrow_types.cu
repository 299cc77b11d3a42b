// SPDX-License-Identifier: MIT
// Bytes one by one, in fours and in sixteens: y = min(x + 3, 255).
#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;
constexpr uint32_t kThrees = 0x03030303;

__device__ uint8_t brighter(uint8_t x) { return static_cast<uint8_t>(x > 252 ? 255 : x + 3); }
__device__ uint32_t brighter(uint32_t x) { return __vaddus4(x, kThrees); }
__device__ uint4 brighter(uint4 x) { return {brighter(x.x), brighter(x.y), brighter(x.z), brighter(x.w)}; }

template <class Vector>
__global__ __launch_bounds__(kThreads) void brighten(const Vector* x, Vector* y, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) y[i] = brighter(x[i]);
}

struct Brighter {
  const uint8_t* x;
  __device__ double operator()(int64_t i) const { return min(x[i] + 3, 255); }
};

template <class Vector>
void add(DeviceTrial& trial, const char* name, Slot<uint8_t> x, Slot<uint8_t> y) {
  const int64_t count = x.count / static_cast<int64_t>(sizeof(Vector));
  trial.variant(name, [=](const At& at) {
    gpu::launch(
        {.kernel = "brighten", .grid = {blocks_of(count, kThreads)}, .block = {kThreads}, .numbers = {count}},
        at.stream(), brighten<Vector>, reinterpret_cast<const Vector*>(at[x]),
        reinterpret_cast<Vector*>(at[y]), count);
  });
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0);  // a multiple of 16
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<uint8_t>(n);
  const auto y = trial->output<uint8_t>(n);
  trial->expect<Brighter>(y, [=](const At& at) { return Brighter{at[x]}; });
  trial->set_cost({.bytes = 2.0 * n});
  add<uint8_t>(*trial, "1-byte", x, y);
  add<uint32_t>(*trial, "4-bytes", x, y);
  add<uint4>(*trial, "16-bytes", x, y);
  return trial;
}

const Registered kNarrowTypes({
    .id = "ch07/narrow-types",
    .title = "Narrow types in wide accesses",
    .question = "How much faster are bytes when a lane moves four or sixteen of them at a time?",
    .mechanism =
        "A warp of 1-byte lanes asks for one 32-byte sector per instruction: instructions, not bytes, limit "
        "it. "
        "Packed accesses carry 4 and 16 times as much, and byte-wise SIMD arithmetic keeps them packed.",
    .claim = {.text = "One 128-byte transaction carries 32 FP32 or 128 FP8 numbers: narrow types pay only "
                      "when packed."},
    .variants = {{"1-byte", "a byte per lane"}, {"4-bytes", "four packed bytes per lane, one SIMD addition"},
        {"16-bytes", "sixteen packed bytes per lane"}},
    .sizes = sizes_of({1 << 22, 1 << 26, 1 << 29}),
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
