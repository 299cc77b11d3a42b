// SPDX-License-Identifier: MIT
// Programmatic dependent launch: a kernel may start while the one before it still runs, and waits itself
// where it needs what that one wrote.
#include <algorithm>

#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256, kKernels = 16, kWeights = 8192;

enum class Start { kPlain, kWaitFirst, kPrologueFirst, kTriggerEarly };

// y = x + (sum of the weights) / 8192: the weights (32 KiB, the same for all kernels) do not depend on the
// kernel before, so bringing them to shared memory may come before the wait.
template <Start kStart>
__global__ __launch_bounds__(kThreads) void add_mean(
    const float* weights, const float* x, float* y, int64_t n) {
  __shared__ float staged[kWeights];
  if constexpr (kStart == Start::kTriggerEarly) ptx::launch_dependents();
  if constexpr (kStart == Start::kWaitFirst) ptx::wait_for_dependencies();
  for (int i = threadIdx.x * 4; i < kWeights; i += kThreads * 4)
    *reinterpret_cast<float4*>(staged + i) = *reinterpret_cast<const float4*>(weights + i);
  __syncthreads();
  float mean = 0.f;
  for (int i = threadIdx.x % 32; i < kWeights; i += 32) mean += staged[i];
  for (int step = 16; step > 0; step /= 2) mean += __shfl_xor_sync(0xFFFFFFFFu, mean, step);
  mean *= 1.f / kWeights;
  if constexpr (kStart == Start::kPrologueFirst || kStart == Start::kTriggerEarly)
    ptx::wait_for_dependencies();
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n; i += int64_t{gridDim.x} * kThreads)
    y[i] = __ldcg(x + i) + mean;
  if constexpr (kStart == Start::kWaitFirst || kStart == Start::kPrologueFirst) ptx::launch_dependents();
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0), sms = setup.stream->device().num_sms;
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto weights = trial->input<float>("weights", kWeights, 0, 1);
  const auto x = trial->input<float>("x", n);
  const auto middle = trial->scratch<float>("middle", n);
  const auto y = trial->output<float>("y", n);
  trial->set_cost({.bytes = 8.0 * n * kKernels, .roof = Roof::kNone, .items = kKernels, .item = "kernel"});
  trial->reference([=](const HostArrays& host) {
    double mean = 0;
    for (const float v : host[weights]) mean += v;
    mean /= kWeights;
    for (size_t i = 0; i < host[y].size(); ++i) host[y][i] = static_cast<float>(host[x][i] + kKernels * mean);
  });
  const auto add = [&](const char* name, auto kernel, bool early) {
    trial->variant(name, [=](const Launch& at) {
      for (int k = 0; k < kKernels; ++k)
        gpu::launch({.kernel = name,
                        .grid = {std::min<int64_t>((n + kThreads - 1) / kThreads, sms * 2)},
                        .block = {kThreads},
                        .overlaps_previous = early && k > 0},
            at.stream(), kernel, at[weights],
            k == 0  ? at[x]
            : k % 2 ? at[middle]
                    : at[y],
            k % 2 ? at[y] : at[middle], n);
    });
  };
  add("plain", add_mean<Start::kPlain>, false);
  add("wait-first", add_mean<Start::kWaitFirst>, true);
  add("prologue-first", add_mean<Start::kPrologueFirst>, true);
  add("trigger-early", add_mean<Start::kTriggerEarly>, true);
  return trial;
}

const Registered kDependentLaunch({
    .id = "ch11/dependent-launch",
    .title = "Starting a kernel before the one before it ends",
    .question = "What does programmatic dependent launch hide, and does a prologue before the wait matter?",
    .mechanism = "The wait still lasts until the kernel before has ended; what overlaps is the launch and "
                 "whatever stands before the "
                 "wait. So gains grow with the prologue and with how early the trigger comes, as long as "
                 "both kernels' blocks fit "
                 "on the SMs.",
    .claim = {.text = "Dependent launch overlaps the prologue of the next kernel with the epilogue of this "
                      "one; no number is given."},
    .rotation = Rotation::kHot,
    .min_compute = 90,
    .variants = {{.name = "plain", .idea = "sixteen kernels in a row"},
        {.name = "wait-first",
            .idea = "dependent launch, the wait at the very beginning, the trigger at the end"},
        {.name = "prologue-first",
            .idea = "weights to shared memory before the wait, the trigger at the end"},
        {.name = "trigger-early", .idea = "and the trigger at the very beginning"}},
    .sizes = sizes_of({1 << 14, 1 << 18, 1 << 22}),
    .quick = sizes_of({1 << 14}),
    .tolerance = {.relative = 1e-4, .absolute = 1e-4},
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
