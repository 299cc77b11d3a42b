// SPDX-License-Identifier: MIT
// Graphs: what one launch of many kernels saves, how to change one, branches within one, and one for each
// batch size.
#include <algorithm>

#include "gpu/graph.h"
#include "gpu/launch.cuh"
#include "lab/array_trial.h"
#include "lab/experiments/side_streams.h"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;

__global__ __launch_bounds__(kThreads) void add_to(float* y, float value) {
  y[blockIdx.x * kThreads + threadIdx.x] += value;
}
__global__ __launch_bounds__(kThreads) void set_to(float* y, const float* x) {
  y[blockIdx.x * kThreads + threadIdx.x] = x[blockIdx.x * kThreads + threadIdx.x];
}

// x plus one for each of `kernels` small kernels.
constexpr int kBlocks = 16;

std::unique_ptr<Trial> make_launch(const Setup& setup) {
  const int kernels = static_cast<int>(setup.dim(0));
  constexpr int64_t kCount = kBlocks * kThreads;
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", kCount);
  const auto y = trial->output<float>("y", kCount);
  trial->set_cost({.roof = Roof::kNone, .items = 1.0 + kernels, .item = "kernel"});
  trial->reference([=](const HostArrays& host) {
    for (size_t i = 0; i < host[y].size(); ++i) host[y][i] = host[x][i] + static_cast<float>(kernels);
  });
  const auto launches = [=](const Launch& at, bool wait_each) {
    const cudaStream_t stream = at.stream().handle();
    set_to<<<kBlocks, kThreads, 0, stream>>>(at[y], at[x]);
    for (int k = 0; k < kernels; ++k) {
      add_to<<<kBlocks, kThreads, 0, stream>>>(at[y], 1.f);
      if (wait_each) at.stream().wait();
    }
  };
  trial->variant("launch-and-wait", [=](const Launch& at) { launches(at, true); });
  trial->variant("launches", [=](const Launch& at) { launches(at, false); });
  const auto graph = std::make_shared<gpu::Graph>();
  trial->variant("graph", [=](const Launch& at) {
    if (!*graph) *graph = gpu::Graph::record(at.stream(), [&] { launches(at, false); });
    graph->launch(at.stream());
  });
  return trial;
}

const Registered kLaunch({
    .id = "ch12/graph-launch",
    .title = "Many small kernels in one launch",
    .question = "What does a graph save over launching its kernels one by one?",
    .mechanism = "Each launch costs the host about 2 us and each wait a round trip; a graph is handed over "
                 "once and the card starts "
                 "its kernels itself. Kernels longer than a launch hide the difference.",
    .claim = {.text =
                  "Three kernels, 100 times: 300 calls become 100 and an iteration 0.75 instead of 1.00 ms.",
        .variant = "graph",
        .speedup = 1.33},
    .timing = Timing::kWallClock,
    .rotation = Rotation::kHot,
    .variants = {{.name = "launch-and-wait", .idea = "a launch and a wait a kernel"},
        {.name = "launches", .idea = "launches without waits"},
        {.name = "graph", .idea = "one launch of the recorded kernels"}},
    .sizes = {{.label = "3 kernels", .dims = {3}}, {.label = "30 kernels", .dims = {30}},
        {.label = "300 kernels", .dims = {300}}},
    .quick = {{.label = "30 kernels", .dims = {30}}},
    .tolerance = {.relative = 1e-5, .absolute = 1e-5},
    .make = make_launch,
});

// One execution of a recorded graph and the node whose argument changes: the first.
class Editable {
 public:
  Editable() = default;
  Editable(const Editable&) = delete;
  Editable& operator=(const Editable&) = delete;
  ~Editable() { reset(); }
  void reset() {
    if (exec_) cudaGraphExecDestroy(exec_);
    if (graph_) cudaGraphDestroy(graph_);
    exec_ = nullptr;
    graph_ = nullptr;
  }
  bool made() const { return exec_ != nullptr; }
  template <class Work>
  void make(gpu::Stream& stream, Work&& work) {
    reset();
    graph_ = record(stream, work);
    gpu::check(cudaGraphInstantiate(&exec_, graph_, 0));
  }
  template <class Work>
  void update(gpu::Stream& stream, Work&& work) {
    cudaGraph_t changed = record(stream, work);
    cudaGraphExecUpdateResultInfo info{};
    const cudaError_t status = cudaGraphExecUpdate(exec_, changed, &info);
    cudaGraphDestroy(changed);
    gpu::check(status);
  }
  void set_arguments(void* kernel, int blocks, void** arguments) {
    cudaGraphNode_t first = nullptr;
    size_t count = 1;
    gpu::check(cudaGraphGetRootNodes(graph_, &first, &count));
    cudaKernelNodeParams params{};
    params.func = kernel;
    params.gridDim = dim3(static_cast<unsigned>(blocks));
    params.blockDim = dim3(kThreads);
    params.kernelParams = arguments;
    gpu::check(cudaGraphExecKernelNodeSetParams(exec_, first, &params));
  }
  void launch(gpu::Stream& stream) const { gpu::check(cudaGraphLaunch(exec_, stream.handle())); }

 private:
  template <class Work>
  static cudaGraph_t record(gpu::Stream& stream, Work&& work) {
    cudaGraph_t recorded = nullptr;
    gpu::check(cudaStreamBeginCapture(stream.handle(), cudaStreamCaptureModeThreadLocal));
    work();
    gpu::check(cudaStreamEndCapture(stream.handle(), &recorded));
    return recorded;
  }
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

__global__ __launch_bounds__(kThreads) void set_through(float* y, const float* const* x) {
  y[blockIdx.x * kThreads + threadIdx.x] = (*x)[blockIdx.x * kThreads + threadIdx.x];
}

// The source of the first kernel alternates between two arrays. A check runs it with one and then with the
// other, so that a change that did not happen shows.
std::unique_ptr<Trial> make_update(const Setup& setup) {
  const int kernels = static_cast<int>(setup.dim(0));
  constexpr int64_t kCount = kBlocks * kThreads;
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto generation = std::make_shared<int>(0);
  const auto fill = [generation](std::span<float> to, uint64_t seed) {
    ++*generation;
    for (size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(uniform_at(seed, i));
  };
  const auto first = trial->input_from<float>("first", kCount, fill);
  const auto second = trial->input_from<float>("second", kCount, fill);
  const auto pointer = trial->scratch<const float*>("pointer", 1);
  const auto y = trial->output<float>("y", kCount);
  trial->set_cost({.roof = Roof::kNone, .items = 1.0 + kernels, .item = "kernel"});
  trial->reference([=](const HostArrays& host) {
    for (size_t i = 0; i < kCount; ++i) host[y][i] = host[second][i] + static_cast<float>(kernels);
  });
  const auto adds = [=](const Launch& at) {
    for (int k = 0; k < kernels; ++k) add_to<<<kBlocks, kThreads, 0, at.stream().handle()>>>(at[y], 1.f);
  };
  const auto launches = [=](const Launch& at, const float* source) {
    set_to<<<kBlocks, kThreads, 0, at.stream().handle()>>>(at[y], source);
    adds(at);
  };
  const auto add = [&](const char* name, auto run) {
    const auto seen = std::make_shared<int>(-1);
    const auto turn = std::make_shared<int>(0);
    trial->variant(name, [=](const Launch& at) {
      if (*seen != *generation) {
        *seen = *generation;
        *turn = 1;
        run(at, at[first]);
      }
      run(at, (*turn)++ % 2 ? at[second] : at[first]);
    });
  };
  add("instantiate-again",
      [launches, graph = std::make_shared<Editable>()](const Launch& at, const float* source) {
        at.stream().wait();  // the execution that is about to be destroyed
        graph->make(at.stream(), [&] { launches(at, source); });
        graph->launch(at.stream());
      });
  add("record-and-update",
      [launches, graph = std::make_shared<Editable>()](const Launch& at, const float* source) {
        if (!graph->made())
          graph->make(at.stream(), [&] { launches(at, source); });
        else
          graph->update(at.stream(), [&] { launches(at, source); });
        graph->launch(at.stream());
      });
  add("set-arguments", [=, graph = std::make_shared<Editable>()](const Launch& at, const float* source) {
    if (!graph->made()) graph->make(at.stream(), [&] { launches(at, source); });
    float* to = at[y];
    void* arguments[] = {&to, &source};
    graph->set_arguments(reinterpret_cast<void*>(set_to), kBlocks, arguments);
    graph->launch(at.stream());
  });
  const auto slots = std::make_shared<gpu::PinnedBuffer>(64);
  add("through-memory", [=, graph = std::make_shared<Editable>()](const Launch& at, const float* source) {
    if (!graph->made())
      graph->make(at.stream(), [&] {
        set_through<<<kBlocks, kThreads, 0, at.stream().handle()>>>(at[y], at[pointer]);
        adds(at);
      });
    const float** slot = slots->as<const float*>() + (source == at[first] ? 0 : 1);
    *slot = source;  // always the same number in the same slot: a copy still under way reads what it should
    gpu::copy_to_device(at[pointer], slot, sizeof(*slot), at.stream());
    graph->launch(at.stream());
  });
  add("no-graph", launches);
  return trial;
}

const Registered kUpdate({
    .id = "ch12/graph-update",
    .title = "Changing one argument of a graph",
    .question = "What is the cheapest way to give a recorded graph a new pointer?",
    .mechanism = "Instantiating again builds everything anew; recording and updating compares all nodes; "
                 "setting one node's arguments "
                 "touches one; a pointer in memory changes nothing in the graph but costs a small copy.",
    .claim = {.text = "An update takes a few microseconds instead of a capture."},
    .timing = Timing::kWallClock,
    .rotation = Rotation::kHot,
    .variants = {{.name = "instantiate-again", .idea = "record, instantiate, launch"},
        {.name = "record-and-update", .idea = "record, cudaGraphExecUpdate, launch"},
        {.name = "set-arguments", .idea = "cudaGraphExecKernelNodeSetParams, launch"},
        {.name = "through-memory", .idea = "the kernel finds the pointer in device memory"},
        {.name = "no-graph", .idea = "launches with the new argument"}},
    .sizes = {{.label = "10 kernels", .dims = {10}}, {.label = "100 kernels", .dims = {100}}},
    .quick = {{.label = "10 kernels", .dims = {10}}},
    .tolerance = {.relative = 1e-5, .absolute = 1e-5},
    .make = make_update,
});

// Independent kernels in one graph: in a row, or as branches.
__global__ __launch_bounds__(kThreads) void damp_all(const float* x, float* y, int rounds) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  float v = x[i];
  for (int round = 0; round < rounds; ++round) v = fmaf(v, 0.5f, 0.25f);
  y[i] = v;
}

std::unique_ptr<Trial> make_branches(const Setup& setup) {
  constexpr int kBranches = 8, kRounds = 4096;
  const int64_t blocks = setup.dim(0), n = blocks * kThreads;
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", n * kBranches);
  const auto y = trial->output<float>("y", n * kBranches);
  trial->set_cost({.roof = Roof::kNone, .items = kBranches, .item = "kernel"});
  trial->reference([=](const HostArrays& host) { std::fill(host[y].begin(), host[y].end(), 0.5f); });
  const auto streams = std::make_shared<SideStreams>(setup, kBranches);
  const auto run = [=](const Launch& at, gpu::Stream& stream, int branch) {
    gpu::launch({.kernel = "damp_all", .grid = {blocks}, .block = {kThreads}}, stream, damp_all,
        at[x] + branch * n, at[y] + branch * n, kRounds);
  };
  const auto in_branches = [=](const Launch& at) {
    streams->fork(at.stream(), kBranches);
    for (int b = 0; b < kBranches; ++b) run(at, (*streams)[b], b);
    streams->join(at.stream(), kBranches);
  };
  const auto add = [&](const char* name, auto work) {
    const auto graph = std::make_shared<gpu::Graph>();
    trial->variant(name, [=](const Launch& at) {
      if (!*graph) *graph = gpu::Graph::record(at.stream(), [&] { work(at); });
      graph->launch(at.stream());
    });
  };
  add("graph-in-a-row", [=](const Launch& at) {
    for (int b = 0; b < kBranches; ++b) run(at, at.stream(), b);
  });
  add("graph-branches", in_branches);
  trial->variant("streams", in_branches);
  return trial;
}

const Registered kBranching({
    .id = "ch12/graph-branches",
    .title = "Branches of a graph",
    .question = "Does a graph run independent kernels side by side, and cheaper than streams do?",
    .mechanism = "Recording streams that fork and join makes branches; the card starts all of them at once "
                 "without the events and "
                 "launches of the host. Kernels that fill the card run in a row either way.",
    .claim = {.text = "Independent branches of a graph overlap."},
    .timing = Timing::kWallClock,
    .rotation = Rotation::kHot,
    .variants = {{.name = "graph-in-a-row", .idea = "eight kernels of one stream"},
        {.name = "graph-branches", .idea = "eight streams recorded, forked and joined by events"},
        {.name = "streams", .idea = "the eight streams without a graph"}},
    .sizes = {{.label = "8 blocks each", .dims = {8}}, {.label = "1056 blocks each", .dims = {1056}}},
    .quick = {{.label = "8 blocks each", .dims = {8}}},
    .tolerance = {.relative = 1e-5},
    .make = make_branches,
});

// Decode steps of changing batch size, ten kernels a step with a few blocks a sequence.
constexpr int kSteps = 32, kKernels = 10, kMostBatch = 128, kBlocksEach = 4, kStepRounds = 2048;

int64_t padded_batch(int64_t batch) {
  int64_t bucket = 1;
  while (bucket < batch) bucket *= 2;
  return bucket;
}

std::unique_ptr<Trial> make_buckets(const Setup& setup) {
  constexpr int64_t kRow = kBlocksEach * kThreads;  // numbers of a sequence
  const int64_t most = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", kMostBatch * kRow);
  const auto y = trial->output<float>("y", kMostBatch * kRow);
  std::vector<int64_t> batches;  // a fixed schedule: most steps are small; the last one is full
  for (uint64_t step = 0; step + 1 < kSteps; ++step) {
    const double u = uniform_at(7, step);
    batches.push_back(1 + static_cast<int64_t>(u * u * static_cast<double>(most - 1)));
  }
  batches.push_back(kMostBatch);
  trial->set_cost({.roof = Roof::kNone, .items = kSteps, .item = "step"});
  trial->reference([=](const HostArrays& host) { std::fill(host[y].begin(), host[y].end(), 0.5f); });
  const auto step = [=](const Launch& at, int64_t batch) {
    for (int k = 0; k < kKernels; ++k)
      gpu::launch({.kernel = "step", .grid = {batch * kBlocksEach}, .block = {kThreads}}, at.stream(),
          damp_all, at[x], at[y], kStepRounds);
  };
  trial->variant("launches", [=](const Launch& at) {
    for (const int64_t batch : batches) step(at, batch);
  });
  const auto add = [&](const char* name, auto bucket_of) {
    const auto graphs = std::make_shared<std::vector<gpu::Graph>>(kMostBatch + 1);
    trial->variant(name, [=](const Launch& at) {
      for (const int64_t batch : batches) {
        gpu::Graph& graph = (*graphs)[static_cast<size_t>(bucket_of(batch))];
        if (!graph) graph = gpu::Graph::record(at.stream(), [&] { step(at, bucket_of(batch)); });
        graph.launch(at.stream());
      }
    });
  };
  add("one-full-graph", [](int64_t) { return int64_t{kMostBatch}; });
  add("graph-per-bucket", padded_batch);
  add("graph-per-size", [](int64_t batch) { return batch; });
  return trial;
}

const Registered kBuckets({
    .id = "ch12/graph-buckets",
    .title = "A graph for each batch size, or for each bucket",
    .question = "How should decode steps of changing batch size use graphs?",
    .mechanism =
        "One graph at the full size computes padding; one per size computes none but there are many to keep; "
        "powers of two waste "
        "less than half. All save the launches; padding only costs where a fuller grid takes longer.",
    .claim = {.text = "Engines capture one graph per bucket of batch sizes and pad to the nearest."},
    .timing = Timing::kWallClock,
    .rotation = Rotation::kHot,
    .variants = {{.name = "launches", .idea = "ten launches per step, the exact size"},
        {.name = "one-full-graph", .idea = "one graph for 128 sequences, padded"},
        {.name = "graph-per-bucket", .idea = "graphs for powers of two"},
        {.name = "graph-per-size", .idea = "a graph for every size"}},
    .sizes = {{.label = "up to 16", .dims = {16}}, {.label = "up to 128", .dims = {128}}},
    .quick = {{.label = "up to 16", .dims = {16}}},
    .tolerance = {.relative = 1e-5},
    .make = make_buckets,
});

}  // namespace
}  // namespace cheetah::lab
