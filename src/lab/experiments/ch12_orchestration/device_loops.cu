// SPDX-License-Identifier: MIT
// Work that the card organises for itself: a decode loop with a queue of requests, and kernels that launch
// kernels. Compiled with relocatable device code.
#include <algorithm>

#include "gpu/launch.cuh"
#include "lab/array_trial.h"
#include "lab/experiments/ch12_orchestration/graph_builder.cuh"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256, kSlots = 16, kTokenRounds = 2048;

// The running batch: which request a slot serves and how many tokens it still wants.
struct Batch {
  int request[kSlots];
  int left[kSlots];
  int head;    // the next request of the queue
  int active;  // slots with work
};

// One warp: free slots take the next requests.
__device__ inline bool refill(const int* lengths, int requests, Batch* batch) {
  const int slot = threadIdx.x;
  bool busy = false;
  if (slot < kSlots) {
    if (batch->left[slot] == 0) {
      const int next = atomicAdd(&batch->head, 1);
      if (next < requests) {
        batch->request[slot] = next;
        batch->left[slot] = lengths[next];
      }
    }
    busy = batch->left[slot] > 0;
  }
  const int active = __popc(__ballot_sync(0xFFFFFFFFu, busy));
  if (slot == 0) batch->active = active;
  return active > 0;
}
__global__ void schedule(const int* lengths, int requests, Batch* batch) { refill(lengths, requests, batch); }
__global__ void schedule_while(
    const int* lengths, int requests, Batch* batch, cudaGraphConditionalHandle more) {
  const bool active = refill(lengths, requests, batch);
  if (threadIdx.x == 0) cudaGraphSetConditional(more, active);
}
__global__ void relaunch_while_active(const Batch* batch) {
  if (batch->active > 0) cudaGraphLaunch(cudaGetCurrentGraphExec(), cudaStreamGraphTailLaunch);
}
// A token for every busy slot: some arithmetic, and one more in the request's count.
__global__ __launch_bounds__(kThreads) void decode(Batch* batch, float* y) {
  const int slot = blockIdx.x;
  if (batch->left[slot] == 0) return;
  float v = static_cast<float>(threadIdx.x);
  for (int round = 0; round < kTokenRounds; ++round) v = fmaf(v, 0.5f, 0.5f);  // tends to 1
  if (threadIdx.x != 0) return;
  y[batch->request[slot]] += v;
  --batch->left[slot];
}

// The same decisions on the host.
struct HostQueue {
  gpu::PinnedBuffer memory{sizeof(Batch)};
  Batch& batch() const { return *memory.as<Batch>(); }
  bool refill(const std::vector<int>& lengths) const {
    Batch& b = batch();
    bool active = false;
    for (int slot = 0; slot < kSlots; ++slot) {
      if (b.left[slot] == 0 && b.head < static_cast<int>(lengths.size())) {
        b.request[slot] = b.head;
        b.left[slot] = lengths[static_cast<size_t>(b.head++)];
      }
      active = active || b.left[slot] > 0;
    }
    return active;
  }
};

struct Decoding {
  Array<int> lengths;
  Array<float> y;
  Array<Batch> batch;
  int requests;
  std::shared_ptr<std::vector<int>> known;  // the lengths, as the host knows them
};

void begin(const Launch& at, const Decoding& d) {
  gpu::fill_bytes(at[d.y], 0, d.requests * 4, at.stream());
  gpu::fill_bytes(at[d.batch], 0, sizeof(Batch), at.stream());
}
void step(const Launch& at, const Decoding& d) {
  schedule<<<1, 32, 0, at.stream().handle()>>>(at[d.lengths], d.requests, at[d.batch]);
  decode<<<kSlots, kThreads, 0, at.stream().handle()>>>(at[d.batch], at[d.y]);
}

void add_host_loops(ArrayTrial& trial, const Decoding& d) {
  const auto queue = std::make_shared<HostQueue>();
  trial.variant("host-schedules", [=](const Launch& at) {
    begin(at, d);
    at.stream().wait();
    Batch& b = queue->batch();
    b = {};
    while (queue->refill(*d.known)) {
      gpu::copy_to_device(at[d.batch], &b, sizeof(Batch), at.stream());
      decode<<<kSlots, kThreads, 0, at.stream().handle()>>>(at[d.batch], at[d.y]);
      gpu::copy_to_host(&b, at[d.batch], sizeof(Batch), at.stream());
      at.stream().wait();
    }
  });
  const auto add = [&](const char* name, int steps) {
    trial.variant(name, [=](const Launch& at) {
      begin(at, d);
      do {
        for (int i = 0; i < steps; ++i) step(at, d);
        gpu::copy_to_host(&queue->batch(), at[d.batch], sizeof(Batch), at.stream());
        at.stream().wait();
      } while (queue->batch().active > 0);
    });
  };
  add("host-closes-loop", 1);
  add("host-runs-ahead", 8);
}

void add_device_loops(ArrayTrial& trial, const Decoding& d) {
  const auto loop = std::make_shared<std::unique_ptr<BuiltGraph>>();
  trial.variant("while-node", [=](const Launch& at) {
    if (!*loop) {
      *loop = std::make_unique<BuiltGraph>();
      Chain chain((*loop)->graph());
      const auto more = chain.handle((*loop)->graph(), 1);
      Chain body(chain.condition(more, cudaGraphCondTypeWhile, 1)[0]);
      body.kernel(schedule_while, 1, 32, at[d.lengths], d.requests, at[d.batch], more);
      body.kernel(decode, kSlots, kThreads, at[d.batch], at[d.y]);
      (*loop)->instantiate();
    }
    begin(at, d);
    (*loop)->launch(at.stream());
  });
  const auto again = std::make_shared<std::unique_ptr<BuiltGraph>>();
  trial.variant("relaunch-itself", [=](const Launch& at) {
    if (!*again) {
      *again = std::make_unique<BuiltGraph>();
      Chain chain((*again)->graph());
      chain.kernel(schedule, 1, 32, at[d.lengths], d.requests, at[d.batch]);
      chain.kernel(decode, kSlots, kThreads, at[d.batch], at[d.y]);
      chain.kernel(relaunch_while_active, 1, 1, at[d.batch]);
      (*again)->instantiate_for_device(at.stream());
    }
    begin(at, d);
    (*again)->launch(at.stream());
  });
}

std::unique_ptr<Trial> make_decode(const Setup& setup) {
  const int requests = static_cast<int>(setup.dim(0));
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto known = std::make_shared<std::vector<int>>();
  const auto lengths = trial->input_from<int>("lengths", requests, [known](std::span<int> to, uint64_t seed) {
    for (size_t i = 0; i < to.size(); ++i) {  // most answers are short
      const double u = uniform_at(seed, i);
      to[i] = 1 + static_cast<int>(63 * u * u);
    }
    known->assign(to.begin(), to.end());
  });
  const Decoding d{
      lengths, trial->output<float>("y", requests), trial->scratch<Batch>("batch", 1), requests, known};
  trial->set_cost({.roof = Roof::kNone,
      .items = requests * 22.0,
      .item = "token"});  // 1 + 63 / 3 per request, on average
  trial->reference([=](const HostArrays& host) {
    for (size_t i = 0; i < host[d.y].size(); ++i) host[d.y][i] = static_cast<float>(host[lengths][i]);
  });
  add_host_loops(*trial, d);
  add_device_loops(*trial, d);
  return trial;
}

const Registered kDecode({
    .id = "ch12/resident-decode",
    .title = "A decode loop that lives on the card",
    .question = "What does a token step cost when the host schedules, looks now and then, or not at all?",
    .mechanism = "A host that schedules pays two copies and a wait a step; one that only asks whether work "
                 "is left still waits; one that "
                 "runs ahead by eight steps waits an eighth as often. A WHILE node or a graph that launches "
                 "itself needs no host "
                 "until the queue is empty.",
    .claim = {.text = "A resident scheduler has virtually no host overhead; no number is given.",
        .variant = "relaunch-itself"},
    .timing = Timing::kWallClock,
    .rotation = Rotation::kHot,
    .min_compute = 90,
    .variants = {{.name = "host-schedules", .idea = "the host fills the slots after every step"},
        {.name = "host-closes-loop", .idea = "the card fills them, the host asks after every step"},
        {.name = "host-runs-ahead", .idea = "the host asks after every eighth step"},
        {.name = "while-node", .idea = "a graph with a WHILE node"},
        {.name = "relaunch-itself", .idea = "a graph that tail-launches itself"}},
    .sizes = {{.label = "16 requests", .dims = {16}}, {.label = "256 requests", .dims = {256}}},
    .quick = {{.label = "16 requests", .dims = {16}}},
    .tolerance = {.relative = 1e-5},
    .make = make_decode,
});

// Kernels that launch kernels: a parent cuts the work in pieces, a child squares one.
__global__ __launch_bounds__(kThreads) void square(const float* x, float* y, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) y[i] = x[i] * x[i];
}
__host__ __device__ inline unsigned blocks_for(int64_t n) {
  return static_cast<unsigned>((n + kThreads - 1) / kThreads);
}
__global__ void plan(int64_t n, int64_t pieces, int64_t* piece) { *piece = n / pieces; }
__global__ void launch_in_order(const float* x, float* y, int64_t n, int pieces) {
  const int64_t piece = n / pieces;
  for (int p = 0; p < pieces; ++p)
    square<<<blocks_for(piece), kThreads>>>(x + p * piece, y + p * piece, piece);
}
__global__ void launch_and_forget(const float* x, float* y, int64_t n, int pieces) {
  const int64_t piece = n / pieces;
  for (int p = 0; p < pieces; ++p)
    square<<<blocks_for(piece), kThreads, 0, cudaStreamFireAndForget>>>(x + p * piece, y + p * piece, piece);
}

std::unique_ptr<Trial> make_children(const Setup& setup) {
  const int64_t n = setup.dim(0);
  const int pieces = static_cast<int>(setup.dim(1));
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", n);
  const auto piece = trial->scratch<int64_t>("piece", 1);
  const auto y = trial->output<float>("y", n);
  trial->set_cost(
      {.flops = 1.0 * n, .bytes = 8.0 * n, .roof = Roof::kNone, .items = 1.0 * pieces, .item = "child"});
  trial->reference([=](const HostArrays& host) {
    for (size_t i = 0; i < host[y].size(); ++i) host[y][i] = host[x][i] * host[x][i];
  });
  const auto seen = std::make_shared<gpu::PinnedBuffer>(64);
  trial->variant("host", [=](const Launch& at) {
    const cudaStream_t stream = at.stream().handle();
    plan<<<1, 1, 0, stream>>>(n, pieces, at[piece]);
    gpu::copy_to_host(seen->data(), at[piece], 8, at.stream());
    at.stream().wait();
    const int64_t each = *seen->as<int64_t>();
    for (int p = 0; p < pieces; ++p)
      square<<<blocks_for(each), kThreads, 0, stream>>>(at[x] + p * each, at[y] + p * each, each);
  });
  trial->variant("in-order",
      [=](const Launch& at) { launch_in_order<<<1, 1, 0, at.stream().handle()>>>(at[x], at[y], n, pieces); });
  trial->variant("fire-and-forget", [=](const Launch& at) {
    launch_and_forget<<<1, 1, 0, at.stream().handle()>>>(at[x], at[y], n, pieces);
  });
  trial->variant("one-kernel", [=](const Launch& at) {
    square<<<blocks_for(n), kThreads, 0, at.stream().handle()>>>(at[x], at[y], n);
  });
  return trial;
}

const Registered kChildren({
    .id = "ch12/dynamic-parallelism",
    .title = "Kernels that launch kernels",
    .question = "Is a launch from the card cheaper than the host's round trip?",
    .mechanism = "The host must wait for the plan before it launches; a kernel launches its children itself, "
                 "one after the other or "
                 "free of each other. A launch from the card is not cheaper than the host's own, so many "
                 "small children may lose "
                 "what the round trip cost; work that needs no plan is best in one kernel.",
    .claim = {.text = "Three host launches become one and 1.00 ms 0.75 ms.",
        .variant = "in-order",
        .speedup = 1.33},
    .timing = Timing::kWallClock,
    .rotation = Rotation::kHot,
    .variants = {{.name = "host", .idea = "plan, copy, wait, launch the children"},
        {.name = "in-order", .idea = "the parent launches them into its own stream"},
        {.name = "fire-and-forget", .idea = "the parent launches them independent of each other"},
        {.name = "one-kernel", .idea = "no children: one kernel for everything"}},
    .sizes = {{.label = "16K, 2 children", .dims = {1 << 14, 2}},
        {.label = "1M, 2 children", .dims = {1 << 20, 2}},
        {.label = "1M, 64 children", .dims = {1 << 20, 64}},
        {.label = "16M, 64 children", .dims = {1 << 24, 64}}},
    .quick = {{.label = "16K, 2 children", .dims = {1 << 14, 2}}},
    .tolerance = {.relative = 1e-6},
    .make = make_children,
});

}  // namespace
}  // namespace cheetah::lab
