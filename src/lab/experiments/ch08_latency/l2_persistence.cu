// SPDX-License-Identifier: MIT
// A hot table beside a long stream: who keeps the table in L2?
#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;
constexpr int kEach = 16;  // quads of the stream a thread reads, and lookups it makes

enum class Reading { kPlain, kStreaming };

// Each quad of the stream names a word of the table.
template <Reading kReading>
__global__ __launch_bounds__(kThreads) void look_up(
    const uint4* stream, const uint32_t* table, uint32_t* y, uint32_t mask) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * kThreads;
  const int64_t t = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  uint32_t sum = 0;
#pragma unroll 4
  for (int k = 0; k < kEach; ++k) {
    const uint4* at = stream + k * threads + t;
    const uint4 quad = kReading == Reading::kStreaming ? __ldcs(at) : *at;
    sum = sum * 3 + quad.y + quad.z + quad.w + table[quad.x & mask];
  }
  y[t] = sum;
}

struct LookedUp {
  const uint32_t* stream;
  const uint32_t* table;
  int64_t threads;
  uint32_t mask;
  __device__ double operator()(int64_t t) const {
    uint32_t sum = 0;
    for (int64_t k = 0; k < kEach; ++k) {
      const uint32_t* quad = stream + 4 * (k * threads + t);
      sum = sum * 3 + quad[1] + quad[2] + quad[3] + table[quad[0] & mask];
    }
    return sum;
  }
};

// Bytes of L2 that can be set aside.
size_t most_persisting() {
  int device = 0, bytes = 0;
  gpu::check(cudaGetDevice(&device));
  gpu::check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxPersistingL2CacheSize, device));
  return static_cast<size_t>(bytes);
}

// Sets a part of L2 aside while it lives.
class SetAside {
 public:
  explicit SetAside(size_t bytes) { gpu::check(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, bytes)); }
  SetAside(const SetAside&) = delete;
  SetAside& operator=(const SetAside&) = delete;
  ~SetAside() {
    cudaCtxResetPersistingL2Cache();
    cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 0);
  }
};

// A launch whose accesses to the table persist. Written out: the launch helper knows no such attribute.
void launch_persisting(const At& at, const cudaLaunchConfig_t& base, const cudaAccessPolicyWindow& window,
    const uint4* stream, const uint32_t* table, uint32_t* y, uint32_t mask) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeAccessPolicyWindow;
  attribute.val.accessPolicyWindow = window;
  cudaLaunchConfig_t config = base;
  config.stream = at.stream().handle();
  config.attrs = &attribute;
  config.numAttrs = 1;
  gpu::check(cudaLaunchKernelEx(&config, look_up<Reading::kPlain>, stream, table, y, mask), at.stream());
}

// Seconds of one of several launches after a first that warms the cache.
template <class Once>
double timed(const At& at, const Once& once) {
  constexpr int kTimes = 4;
  gpu::Event begin(gpu::Event::Timing::kTimed), end(gpu::Event::Timing::kTimed);
  once();
  begin.record(at.stream());
  for (int i = 0; i < kTimes; ++i) once();
  end.record(at.stream());
  at.stream().wait();
  return gpu::milliseconds_between(begin, end) / 1e3 / kTimes;
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t threads = setup.dim(0), words = setup.dim(1);  // powers of two
  const auto mask = static_cast<uint32_t>(words - 1);
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto stream = trial->input<uint32_t>(threads * kEach * 4);
  const auto table = trial->input<uint32_t>(words);
  const auto y = trial->output<uint32_t>(threads);
  trial->expect<LookedUp>(y, [=](const At& at) { return LookedUp{at[stream], at[table], threads, mask}; });
  trial->set_cost({.bytes = 16.0 * kEach * threads + 4.0 * threads,
      .roof = Roof::kDramRead,
      .items = 1.0 * kEach * threads,
      .item = "lookup"});
  const int64_t blocks = threads / kThreads;
  const auto add = [&](const char* name, void (*kernel)(const uint4*, const uint32_t*, uint32_t*, uint32_t)) {
    trial->timed_variant(name, [=](const At& at) {
      return timed(at, [&] {
        gpu::launch({.kernel = name, .grid = {blocks}, .block = {kThreads}}, at.stream(), kernel,
            reinterpret_cast<const uint4*>(at[stream]), at[table], at[y], mask);
      });
    });
  };
  add("plain", look_up<Reading::kPlain>);
  add("streaming-loads", look_up<Reading::kStreaming>);
  trial->timed_variant("persisting-table", [=](const At& at) {
    const size_t bytes = static_cast<size_t>(words) * 4, most = most_persisting();
    const SetAside aside(std::min(bytes, most));
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(blocks));
    config.blockDim = dim3(kThreads);
    cudaAccessPolicyWindow window{};
    window.base_ptr = at[table];
    window.num_bytes = bytes;
    window.hitRatio = std::min(1.f, static_cast<float>(most) / static_cast<float>(bytes));
    window.hitProp = cudaAccessPropertyPersisting;
    window.missProp = cudaAccessPropertyStreaming;
    return timed(at, [&] {
      launch_persisting(
          at, config, window, reinterpret_cast<const uint4*>(at[stream]), at[table], at[y], mask);
    });
  });
  return trial;
}

const Registered kPersistence({
    .id = "ch08/l2-persistence",
    .title = "Keeping a hot table in L2",
    .question =
        "Does reserving a part of L2 for a hot table beat the cache's own choice beside a long stream?",
    .mechanism =
        "The stream passes through L2 once and pushes the table out; marking the stream's loads as streaming "
        "evicts them "
        "first, and a persisting window keeps the table's lines until reset. A small table stays by itself.",
    .claim = {.text = "A persisting window keeps the hot set resident; no figure is given.",
        .variant = "persisting-table"},
    .timing = Timing::kEvents,
    .rotation = Rotation::kHot,
    .variants = {{"plain", "the cache decides"}, {"streaming-loads", "the stream is marked evict-first"},
        {"persisting-table", "a persisting window over the table"}},
    .sizes = {{"4 MB table", {1 << 21, 1 << 20}}, {"16 MB table", {1 << 21, 1 << 22}},
        {"32 MB table", {1 << 21, 1 << 23}}},
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
