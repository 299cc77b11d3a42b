// SPDX-License-Identifier: MIT
// Memory in the middle of a stream: scratch for each batch, and a cache that grows.
#include "gpu/launch.cuh"
#include "lab/array_trial.h"
#include "lab/experiments/device_scratch.h"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256, kBatches = 8;

__global__ __launch_bounds__(kThreads) void to_scratch(const float* x, float* scratch, int64_t n) {
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n; i += int64_t{gridDim.x} * kThreads)
    scratch[i] = 2.f * x[i % kThreads];
}
__global__ __launch_bounds__(kThreads) void from_scratch(const float* scratch, float* y) {
  y[threadIdx.x] = scratch[threadIdx.x] + 1.f;
}

// A pool that keeps up to `threshold` bytes when everything is freed and synchronised.
class Pool {
 public:
  explicit Pool(uint64_t threshold) {
    cudaMemPoolProps props{};
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    gpu::check(cudaMemPoolCreate(&handle_, &props));
    gpu::check(cudaMemPoolSetAttribute(handle_, cudaMemPoolAttrReleaseThreshold, &threshold));
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() { cudaMemPoolDestroy(handle_); }
  float* take(int64_t floats, gpu::Stream& stream) const {
    void* data = nullptr;
    gpu::check(cudaMallocFromPoolAsync(&data, static_cast<size_t>(floats) * 4, handle_, stream.handle()));
    return static_cast<float*>(data);
  }

 private:
  cudaMemPool_t handle_ = nullptr;
};
void give_back(float* data, gpu::Stream& stream) { gpu::check(cudaFreeAsync(data, stream.handle())); }
float* malloc_now(int64_t floats) {
  void* data = nullptr;
  gpu::check(cudaMalloc(&data, static_cast<size_t>(floats) * 4));
  return static_cast<float*>(data);
}

std::unique_ptr<Trial> make_scratch(const Setup& setup) {
  const int64_t n = setup.dim(0) / 4;
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", kThreads);
  const auto y = trial->output<float>("y", kThreads * kBatches);
  trial->set_cost({.bytes = 4.0 * n * kBatches, .roof = Roof::kNone, .items = kBatches, .item = "batch"});
  trial->reference([=](const HostArrays& host) {
    for (size_t i = 0; i < host[y].size(); ++i) host[y][i] = 2 * host[x][i % kThreads] + 1;
  });
  const auto work = [=](const Launch& at, float* scratch, int batch) {
    gpu::launch({.kernel = "to_scratch", .grid = {at.stream().device().num_sms}, .block = {kThreads}},
        at.stream(), to_scratch, at[x], scratch, n);
    gpu::launch({.kernel = "from_scratch", .grid = {1}, .block = {kThreads}}, at.stream(), from_scratch,
        scratch, at[y] + batch * kThreads);
  };
  trial->variant("malloc", [=](const Launch& at) {
    for (int b = 0; b < kBatches; ++b) {
      float* scratch = malloc_now(n);
      work(at, scratch, b);
      gpu::check(cudaFree(scratch));
    }
  });
  const auto add_pool = [&](const char* name, uint64_t threshold) {
    const auto pool = std::make_shared<Pool>(threshold);
    trial->variant(name, [=](const Launch& at) {
      for (int b = 0; b < kBatches; ++b) {
        float* scratch = pool->take(n, at.stream());
        work(at, scratch, b);
        give_back(scratch, at.stream());
      }
    });
  };
  add_pool("async-releasing", 0);
  add_pool("async-keeping", UINT64_MAX);
  const DeviceScratch<float> once(setup, n);
  trial->variant("allocated-before", [=](const Launch& at) {
    for (int b = 0; b < kBatches; ++b) work(at, once.data(), b);
  });
  return trial;
}

const Registered kScratch({
    .id = "ch11/stream-ordered-allocation",
    .title = "Scratch memory for each batch",
    .question = "What do cudaMalloc and the stream-ordered allocator cost in a loop over batches?",
    .mechanism =
        "cudaFree waits for the device and both calls go to the driver; stream-ordered calls come from a "
        "pool in stream "
        "order. With the default threshold of 0 the pool gives everything back at each synchronisation, and "
        "the next "
        "batch pays the driver again; one that keeps its memory costs about as little as none at all.",
    .claim = {.text = "cudaMallocAsync removes a device-wide stall an allocation; raise the release "
                      "threshold; no number is given.",
        .variant = "async-keeping"},
    .timing = Timing::kWallClock,
    .rotation = Rotation::kHot,
    .variants = {{.name = "malloc", .idea = "cudaMalloc and cudaFree a batch"},
        {.name = "async-releasing", .idea = "a pool with release threshold 0, the default"},
        {.name = "async-keeping", .idea = "a pool that keeps its memory"},
        {.name = "allocated-before", .idea = "one buffer for all batches"}},
    .sizes = {{.label = "64 KiB", .dims = {64 << 10}}, {.label = "16 MiB", .dims = {16 << 20}},
        {.label = "256 MiB", .dims = {256 << 20}}},
    .quick = {{.label = "64 KiB", .dims = {64 << 10}}},
    .make = make_scratch,
});

// A sequence's cache: kTokens entries are appended one after the other; room grows by kRoom entries.
constexpr int kTokens = 64, kRoom = 16;

__global__ __launch_bounds__(kThreads) void append(const float* x, float* to, int64_t floats, float token) {
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < floats;
       i += int64_t{gridDim.x} * kThreads)
    to[i] = x[i % kThreads] + token;
}
__global__ __launch_bounds__(kThreads) void read_entry(const float* entry, float* y) {
  y[threadIdx.x] = entry[threadIdx.x];
}

std::unique_ptr<Trial> make_growth(const Setup& setup) {
  const int64_t entry = setup.dim(0) / 4;  // floats of a token
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", kThreads);
  const auto y = trial->output<float>("y", kThreads * kTokens);
  trial->set_cost({.bytes = 4.0 * entry * kTokens, .roof = Roof::kNone, .items = kTokens, .item = "token"});
  trial->reference([=](const HostArrays& host) {
    for (size_t i = 0; i < host[y].size(); ++i)
      host[y][i] = host[x][i % kThreads] + static_cast<float>(i / kThreads);
  });
  const auto write = [=](const Launch& at, float* to, int token) {
    gpu::launch({.kernel = "append", .grid = {8}, .block = {kThreads}}, at.stream(), append, at[x], to, entry,
        static_cast<float>(token));
  };
  const auto read = [=](const Launch& at, const float* from, int token) {
    gpu::launch({.kernel = "read_entry", .grid = {1}, .block = {kThreads}}, at.stream(), read_entry, from,
        at[y] + token * kThreads);
  };
  // The whole cache in one piece, moved whenever it outgrows its room.
  const auto add_moving = [&](const char* name, auto take, auto release) {
    trial->variant(name, [=](const Launch& at) {
      float* cache = nullptr;
      for (int token = 0; token < kTokens; ++token) {
        if (token % kRoom == 0) {
          float* larger = take(entry * (token + kRoom), at.stream());
          if (cache) {
            gpu::copy_on_device(larger, cache, entry * token * 4, at.stream());
            release(cache, at.stream());
          }
          cache = larger;
        }
        write(at, cache + entry * token, token);
      }
      for (int token = 0; token < kTokens; ++token) read(at, cache + entry * token, token);
      release(cache, at.stream());
    });
  };
  add_moving(
      "malloc-and-move", [](int64_t floats, gpu::Stream&) { return malloc_now(floats); },
      [](float* data, gpu::Stream&) { gpu::check(cudaFree(data)); });
  const auto pool = std::make_shared<Pool>(UINT64_MAX);
  add_moving(
      "async-and-move", [pool](int64_t floats, gpu::Stream& stream) { return pool->take(floats, stream); },
      give_back);
  trial->variant("async-pages", [=](const Launch& at) {  // a page holds kRoom tokens and never moves
    std::vector<float*> pages;
    for (int token = 0; token < kTokens; ++token) {
      if (token % kRoom == 0) pages.push_back(pool->take(entry * kRoom, at.stream()));
      write(at, pages.back() + entry * (token % kRoom), token);
    }
    for (int token = 0; token < kTokens; ++token)
      read(at, pages[static_cast<size_t>(token / kRoom)] + entry * (token % kRoom), token);
    for (float* page : pages) give_back(page, at.stream());
  });
  const DeviceScratch<float> reserved(setup, entry * kTokens);
  trial->variant("reserved", [=](const Launch& at) {
    for (int token = 0; token < kTokens; ++token) write(at, reserved.data() + entry * token, token);
    for (int token = 0; token < kTokens; ++token) read(at, reserved.data() + entry * token, token);
  });
  return trial;
}

const Registered kGrowth({
    .id = "ch11/kv-growth",
    .title = "A cache that grows while it is used",
    .question = "How should a sequence's KV cache get more room?",
    .mechanism = "Moving into a larger buffer copies everything again and again, and with cudaMalloc also "
                 "stops the device; in "
                 "stream order it only copies; pages never move; reserving the longest length costs memory "
                 "instead of time.",
    .claim = {.text =
                  "Growing the KV buffer in its own stream does not disturb the others; no number is given.",
        .variant = "async-pages"},
    .timing = Timing::kWallClock,
    .rotation = Rotation::kHot,
    .variants = {{.name = "malloc-and-move", .idea = "cudaMalloc a larger buffer, copy, cudaFree"},
        {.name = "async-and-move", .idea = "the same in stream order from a pool"},
        {.name = "async-pages", .idea = "pages of sixteen tokens from the pool, nothing moves"},
        {.name = "reserved", .idea = "room for the longest sequence from the start"}},
    .sizes = {{.label = "4 KiB per token", .dims = {4 << 10}},
        {.label = "1 MiB per token", .dims = {1 << 20}}},
    .quick = {{.label = "4 KiB per token", .dims = {4 << 10}}},
    .tolerance = {.relative = 1e-6},
    .make = make_growth,
});

}  // namespace
}  // namespace cheetah::lab
