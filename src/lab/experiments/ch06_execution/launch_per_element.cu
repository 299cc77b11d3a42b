// SPDX-License-Identifier: MIT
// A launch for every element: the anti-pattern of host loops around device work.
#include "gpu/graph.h"
#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

__global__ void add_some(const float* a, const float* b, float* c, int first, int end) {
  const int i = first + static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < end) c[i] = a[i] + b[i];
}

struct Sum {
  const float *a, *b;
  __device__ double operator()(int64_t i) const { return a[i] + b[i]; }
};

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto a = trial->input<float>(n), b = trial->input<float>(n);
  const auto c = trial->output<float>(n);
  trial->expect<Sum>(c, [=](const At& at) { return Sum{at[a], at[b]}; });
  const auto launches = [](double count) {
    return Cost{.roof = Roof::kLaunch, .items = count, .item = "launch"};
  };
  const auto in_pieces = [=](const At& at, int64_t piece) {
    for (int64_t first = 0; first < n; first += piece)
      gpu::launch(
          {.kernel = "add_some", .grid = {blocks_of(piece, 256)}, .block = {std::min<int64_t>(piece, 256)}},
          at.stream(), add_some, at[a], at[b], at[c], static_cast<int>(first),
          static_cast<int>(std::min(n, first + piece)));
  };
  trial->set_cost("each", launches(1.0 * n));
  trial->variant("each", [=](const At& at) { in_pieces(at, 1); });
  const auto graph = std::make_shared<gpu::Graph>();
  trial->own(graph);
  trial->after_fill([=](const At& at) {
    if (!*graph) *graph = gpu::Graph::record(at.stream(), [&] { in_pieces(at, 1); });
  });
  trial->set_cost("each-in-graph", {.roof = Roof::kNone, .items = 1.0 * n, .item = "kernel"});
  trial->variant("each-in-graph", [=](const At& at) { graph->launch(at.stream()); });
  trial->set_cost("by-32", launches(static_cast<double>(blocks_of(n, 32))));
  trial->variant("by-32", [=](const At& at) { in_pieces(at, 32); });
  trial->set_cost("one-launch", launches(1));
  trial->variant("one-launch", [=](const At& at) { in_pieces(at, n); });
  return trial;
}

const Registered kLaunchPerElement({
    .id = "ch06/launch-per-element",
    .title = "A launch for every element",
    .question = "What does it cost to launch a kernel per element instead of one for all?",
    .mechanism = "A launch takes the host some two microseconds and the device about one between dependent "
                 "kernels, whatever "
                 "the kernel does: time is launches, not elements. A graph removes the host's share only.",
    .claim = {.text = "A host loop over elements behaves like the sequential kernel, tens of times slower "
                      "than one vectorised operation; no figure is given."},
    .timing = Timing::kWallClock,
    .rotation = Rotation::kHot,
    .variants = {{"each", "a kernel of one thread per element"},
        {"each-in-graph", "the same kernels replayed as one graph"}, {"by-32", "a kernel for 32 elements"},
        {"one-launch", "one kernel for all"}},
    .sizes = sizes_of({64, 1024}),
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
