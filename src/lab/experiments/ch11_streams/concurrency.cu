// SPDX-License-Identifier: MIT
// Several streams at once: small kernels side by side, two halves of a model as a pipeline, and a kernel in a
// hurry.
#include <algorithm>

#include "gpu/launch.cuh"
#include "lab/array_trial.h"
#include "lab/experiments/side_streams.h"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;

// `rounds` dependent multiply-adds a number: work whose length does not depend on how many run beside it.
__global__ __launch_bounds__(kThreads) void damp_all(const float* x, float* y, int rounds) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  float v = x[i];
  for (int round = 0; round < rounds; ++round) v = fmaf(v, 0.5f, 0.25f);
  y[i] = v;
}

constexpr int kKernels = 16, kRounds = 8192;
constexpr float kSettled = 0.5f;  // what v = v / 2 + 1 / 4 tends to

std::unique_ptr<Trial> make_streams(const Setup& setup) {
  const int64_t blocks = setup.dim(0), n = blocks * kThreads;
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", n * kKernels);
  const auto y = trial->output<float>("y", n * kKernels);
  trial->set_cost(
      {.flops = 2.0 * n * kKernels * kRounds, .roof = Roof::kNone, .items = kKernels, .item = "kernel"});
  trial->reference([=](const HostArrays& host) { std::fill(host[y].begin(), host[y].end(), kSettled); });
  const auto streams = std::make_shared<SideStreams>(setup, 8);
  const auto run = [=](const Launch& at, gpu::Stream& stream, int kernel) {
    gpu::launch({.kernel = "damp_all", .grid = {blocks}, .block = {kThreads}}, stream, damp_all,
        at[x] + kernel * n, at[y] + kernel * n, kRounds);
  };
  trial->variant("one-stream", [=](const Launch& at) {
    for (int k = 0; k < kKernels; ++k) run(at, at.stream(), k);
  });
  const auto add = [&](const char* name, int count) {
    trial->variant(name, [=](const Launch& at) {
      streams->fork(at.stream(), count);
      for (int k = 0; k < kKernels; ++k) run(at, (*streams)[k % count], k);
      streams->join(at.stream(), count);
    });
  };
  add("two-streams", 2);
  add("four-streams", 4);
  add("eight-streams", 8);
  return trial;
}

const Registered kStreams({
    .id = "ch11/stream-concurrency",
    .title = "Small kernels in several streams",
    .question = "How much do independent kernels gain from running in different streams?",
    .mechanism = "Kernels of one stream follow each other even where most SMs are idle; kernels of different "
                 "streams share the "
                 "card as long as their blocks find room. Grids that fill the card gain nothing.",
    .claim = {.text = "Independent streams overlap where SM resources permit; concurrency stops helping once "
                      "a resource is "
                      "saturated."},
    .variants = {{.name = "one-stream", .idea = "sixteen kernels one after the other"},
        {.name = "two-streams", .idea = "dealt to two streams"},
        {.name = "four-streams", .idea = "dealt to four streams"},
        {.name = "eight-streams", .idea = "dealt to eight streams"}},
    .sizes = {{.label = "8 blocks each", .dims = {8}}, {.label = "66 blocks each", .dims = {66}},
        {.label = "1056 blocks each", .dims = {1056}}},
    .quick = {{.label = "8 blocks each", .dims = {8}}},
    .tolerance = {.relative = 1e-5},
    .make = make_streams,
});

// Micro-batches through two halves of a model: y = second(first(x)).
constexpr int kBatches = 12;

std::unique_ptr<Trial> make_halves(const Setup& setup) {
  const int64_t blocks = setup.dim(0), n = blocks * kThreads;
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", n * kBatches);
  const auto middle = trial->scratch<float>("middle", n * kBatches);
  const auto y = trial->output<float>("y", n * kBatches);
  trial->set_cost(
      {.flops = 4.0 * n * kBatches * kRounds, .roof = Roof::kNone, .items = kBatches, .item = "batch"});
  trial->reference([=](const HostArrays& host) { std::fill(host[y].begin(), host[y].end(), kSettled); });
  const auto streams = std::make_shared<SideStreams>(setup, 2);
  const auto ready = std::make_shared<std::vector<gpu::Event>>(kBatches);
  const auto half = [=](gpu::Stream& stream, const float* from, float* to) {
    gpu::launch(
        {.kernel = "half", .grid = {blocks}, .block = {kThreads}}, stream, damp_all, from, to, kRounds);
  };
  trial->variant("one-stream", [=](const Launch& at) {
    for (int b = 0; b < kBatches; ++b) {
      half(at.stream(), at[x] + b * n, at[middle] + b * n);
      half(at.stream(), at[middle] + b * n, at[y] + b * n);
    }
  });
  trial->variant("two-halves", [=](const Launch& at) {
    streams->fork(at.stream(), 2);
    for (int b = 0; b < kBatches; ++b) {
      gpu::Event& handed_over = (*ready)[static_cast<size_t>(b)];
      half((*streams)[0], at[x] + b * n, at[middle] + b * n);
      handed_over.record((*streams)[0]);
      (*streams)[1].wait_for(handed_over);
      half((*streams)[1], at[middle] + b * n, at[y] + b * n);
    }
    streams->join(at.stream(), 2);
  });
  return trial;
}

const Registered kHalves({
    .id = "ch11/layer-pipeline",
    .title = "Two halves of a model in two streams",
    .question = "Does handing batches from stream to stream by events keep both halves busy?",
    .mechanism = "The second half of batch n runs beside the first half of batch n+1 if both fit on the "
                 "card: nearly twice as fast "
                 "for small grids, no gain for grids that fill it.",
    .claim =
        {.text =
                "Layers 0-5 in one stream and 6-11 in another pipeline successive batches; no number is given."},
    .variants = {{.name = "one-stream", .idea = "both halves of a batch, then the next batch"},
        {.name = "two-halves", .idea = "a stream a half, an event a batch"}},
    .sizes = {{.label = "32 blocks per kernel", .dims = {32}},
        {.label = "1056 blocks per kernel", .dims = {1056}}},
    .quick = {{.label = "32 blocks per kernel", .dims = {32}}},
    .tolerance = {.relative = 1e-5},
    .make = make_halves,
});

// A small kernel arrives while a large one holds the card.
struct Hurry {
  explicit Hurry(int priority) {
    gpu::check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority));
  }
  Hurry(const Hurry&) = delete;
  Hurry& operator=(const Hurry&) = delete;
  ~Hurry() { cudaStreamDestroy(stream); }
  cudaStream_t stream = nullptr;
  gpu::Event begun{gpu::Event::Timing::kTimed}, ended{gpu::Event::Timing::kTimed};
};

std::unique_ptr<Trial> make_priority(const Setup& setup) {
  const int64_t background = setup.dim(0) * setup.stream->device().num_sms, small = 8;
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", background * kThreads);
  const auto z = trial->scratch<float>("z", background * kThreads);
  const auto y = trial->output<float>("y", small * kThreads);
  trial->set_cost({.roof = Roof::kNone});
  trial->reference([=](const HostArrays& host) { std::fill(host[y].begin(), host[y].end(), kSettled); });
  int least = 0, greatest = 0;  // the highest priority is the lowest number
  gpu::check(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  const auto add = [&](const char* name, int priority, int64_t beside) {
    const auto hurry = std::make_shared<Hurry>(priority);
    trial->timed_variant(name, [=](const Launch& at) {
      gpu::launch({.kernel = "background", .grid = {beside}, .block = {kThreads}}, at.stream(), damp_all,
          at[x], at[z], kRounds);
      gpu::check(cudaEventRecord(hurry->begun.handle(), hurry->stream));
      damp_all<<<static_cast<unsigned>(small), kThreads, 0, hurry->stream>>>(at[x], at[y], 64);
      gpu::check(cudaEventRecord(hurry->ended.handle(), hurry->stream));
      at.stream().wait_for(hurry->ended);
      at.stream().wait();
      return gpu::milliseconds_between(hurry->begun, hurry->ended) / 1e3;
    });
  };
  add("same-priority", least, background);
  add("high-priority", greatest, background);
  add("alone", greatest, 0);  // an empty grid is not launched
  return trial;
}

const Registered kPriority({
    .id = "ch11/stream-priority",
    .title = "A small kernel behind a large one",
    .question = "How long does a small kernel wait while a large grid runs, with and without a priority?",
    .mechanism = "Blocks are never interrupted, but when one ends, waiting blocks of the higher priority go "
                 "first: the small kernel "
                 "then waits for one block's time instead of the whole grid.",
    .claim = {.text = "Priority issues ready work first but reserves no SMs.", .variant = "high-priority"},
    .timing = Timing::kWallClock,
    .rotation = Rotation::kHot,
    .variants = {{.name = "same-priority", .idea = "both streams of the lowest priority"},
        {.name = "high-priority", .idea = "the small kernel's stream of the highest"},
        {.name = "alone", .idea = "nothing else on the card"}},
    .sizes = {{.label = "64 blocks per SM", .dims = {64}}, {.label = "256 blocks per SM", .dims = {256}}},
    .quick = {{.label = "64 blocks per SM", .dims = {64}}},
    .tolerance = {.relative = 1e-5},
    .make = make_priority,
});

}  // namespace
}  // namespace cheetah::lab
