// SPDX-License-Identifier: MIT
// Numbers from the host to the device: which host memory, and how to overlap copies with work.
#include <chrono>
#include <cstdlib>

#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

enum class HostKind { kPageable, kPinned, kWriteCombined, kRegistered };

// Host memory the trial copies from or to.
class HostMemory {
 public:
  HostMemory(HostKind kind, int64_t bytes) : kind_(kind), bytes_(static_cast<size_t>(bytes)) {
    if (kind == HostKind::kPinned || kind == HostKind::kWriteCombined) {
      gpu::check(cudaHostAlloc(
          &data_, bytes_, kind == HostKind::kPinned ? cudaHostAllocMapped : cudaHostAllocWriteCombined));
      return;
    }
    constexpr size_t kPage = 4096;
    data_ = std::aligned_alloc(kPage, (bytes_ + kPage - 1) / kPage * kPage);
    if (!data_) throw Error("the host has no memory left for a buffer of the lab");
    if (kind == HostKind::kRegistered) gpu::check(cudaHostRegister(data_, bytes_, cudaHostRegisterDefault));
  }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory() {
    if (kind_ == HostKind::kRegistered) cudaHostUnregister(data_);
    if (kind_ == HostKind::kPinned || kind_ == HostKind::kWriteCombined)
      cudaFreeHost(data_);
    else
      std::free(data_);
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  HostKind kind_;
  size_t bytes_;
  void* data_ = nullptr;
};

struct Same {
  const uint32_t* x;
  __device__ double operator()(int64_t i) const { return x[i]; }
};

__global__ void read_host(const uint4* x, uint4* y, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    y[i] = x[i];
}

std::unique_ptr<Trial> make_copy(const Setup& setup) {
  const int64_t n = setup.dim(0), bytes = 4 * n;
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<uint32_t>(n);
  const auto y = trial->output<uint32_t>(n);
  trial->expect<Same>(y, [=](const At& at) { return Same{at[x]}; });
  trial->set_cost({.bytes = 4.0 * n, .roof = Roof::kHostLink});
  std::vector<std::shared_ptr<HostMemory>> sources;
  for (const HostKind kind :
      {HostKind::kPageable, HostKind::kPinned, HostKind::kWriteCombined, HostKind::kRegistered})
    sources.push_back(std::make_shared<HostMemory>(kind, bytes));
  trial->after_fill([=](const At& at) {
    for (const auto& source : sources) gpu::copy_to_host(source->as<void>(), at[x], bytes, at.stream());
  });
  const char* names[] = {"pageable", "pinned", "write-combined", "registered"};
  for (size_t k = 0; k < sources.size(); ++k)
    trial->variant(names[k], [=, source = sources[k]](const At& at) {
      gpu::copy_to_device(at[y], source->as<void>(), bytes, at.stream());
    });
  trial->variant("kernel-reads", [=, source = sources[1]](const At& at) {
    gpu::launch({.kernel = "read_host", .grid = {at.stream().device().num_sms * 4}, .block = {512}},
        at.stream(), read_host, source->as<uint4>(), reinterpret_cast<uint4*>(at[y]), n / 4);
  });
  return trial;
}

constexpr int kWork = 1024;  // multiply-adds an element: about as long as its copies

__global__ void work_on(const float* x, float* y, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
#pragma unroll 16
  for (int k = 0; k < kWork; ++k) v = v * 0.999f + 0.001f;
  y[i] = v;
}

struct Worked {
  const float* x;
  __device__ double operator()(int64_t i) const {
    double v = x[i];
    for (int k = 0; k < kWork; ++k) v = v * static_cast<double>(0.999f) + static_cast<double>(0.001f);
    return v;
  }
};

// Where the numbers are on their way through the device.
struct Journey {
  const float* from;  // host
  float* on_device[2];
  float* to;  // host
};

void move_piece(const Journey& journey, int64_t first, int64_t count, gpu::Stream& stream) {
  const int64_t bytes = 4 * count;
  gpu::copy_to_device(journey.on_device[0] + first, journey.from + first, bytes, stream);
  gpu::launch({.kernel = "work_on", .grid = {blocks_of(count, 256)}, .block = {256}}, stream, work_on,
      journey.on_device[0] + first, journey.on_device[1] + first, count);
  gpu::copy_to_host(journey.to + first, journey.on_device[1] + first, bytes, stream);
}

using Streams = std::vector<std::unique_ptr<gpu::Stream>>;

std::unique_ptr<Trial> make_overlap(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<float>(n);
  const auto y = trial->output<float>(n);
  const auto there = trial->scratch<float>(n), back = trial->scratch<float>(n);
  trial->expect<Worked>(y, [=](const At& at) { return Worked{at[x]}; });
  // Copies in both directions can run at once, so the link's time is one direction's.
  trial->set_cost({.flops = 2.0 * kWork * n, .bytes = 4.0 * n, .roof = Roof::kHostLink});
  const auto memory = [=](HostKind kind) { return std::make_shared<HostMemory>(kind, 4 * n); };
  const auto pageable = memory(HostKind::kPageable), pageable_back = memory(HostKind::kPageable);
  const auto pinned = memory(HostKind::kPinned), pinned_back = memory(HostKind::kPinned);
  trial->after_fill([=](const At& at) {
    gpu::copy_to_host(pageable->as<void>(), at[x], 4 * n, at.stream());
    gpu::copy_to_host(pinned->as<void>(), at[x], 4 * n, at.stream());
  });
  const auto streams = std::make_shared<Streams>();
  for (int i = 0; i < 4; ++i) streams->push_back(std::make_unique<gpu::Stream>(setup.stream->device()));
  const auto add = [&](const char* name, bool is_pinned, int64_t num_streams, int64_t pieces) {
    const auto from = is_pinned ? pinned : pageable, to = is_pinned ? pinned_back : pageable_back;
    trial->timed_variant(name, [=](const At& at) {
      at.stream().wait();
      const Journey journey{from->as<float>(), {at[there], at[back]}, to->as<float>()};
      const Clock::time_point start = Clock::now();
      for (int64_t p = 0; p < pieces; ++p)
        move_piece(journey, p * (n / pieces), n / pieces, *(*streams)[static_cast<size_t>(p % num_streams)]);
      for (const auto& stream : *streams) stream->wait();
      const double seconds = seconds_since(start);
      gpu::copy_to_device(at[y], to->as<void>(), 4 * n, at.stream());
      at.stream().wait();
      return seconds;
    });
  };
  add("pageable", false, 1, 1);
  add("pageable-4-streams", false, 4, 8);
  add("pinned", true, 1, 1);
  add("pinned-2-streams", true, 2, 4);
  add("pinned-4-streams", true, 4, 8);
  return trial;
}

const Registered kCopy({
    .id = "ch06/host-copy",
    .title = "Copies from host memory",
    .question = "How much faster do copies from pinned memory run, and may a kernel read it directly?",
    .mechanism = "The engine can only read memory that stays in place: pageable memory goes through the "
                 "driver's staging buffer "
                 "by a host thread. Registering pins what is there already; a kernel that reads pinned "
                 "memory needs enough "
                 "loads in flight to cover the link's latency.",
    .claim = {.text = "Asynchronous copies need pinned memory; if copies stay serial, memory is pageable or "
                      "the default stream is used; no figure is given."},
    .timing = Timing::kWallClock,
    .rotation = Rotation::kHot,
    .variants = {{"pageable", "ordinary host memory"}, {"pinned", "memory allocated pinned"},
        {"write-combined", "pinned, not cached by the host"},
        {"registered", "ordinary memory pinned afterwards"},
        {"kernel-reads", "no copy engine: a kernel loads from pinned memory"}},
    .sizes = sizes_of({1 << 14, 1 << 20, 1 << 25}),
    .make = make_copy,
});

const Registered kOverlap({
    .id = "ch06/copy-overlap",
    .title = "Copy in, work, copy back",
    .question =
        "How much of the copies hides behind the work when the job is cut into pieces on several streams?",
    .mechanism = "Two copy engines and the SMs can run at once: pieces on different streams overlap, down to "
                 "the longest of the "
                 "three. From pageable memory each copy holds the host up, so streams gain little.",
    .claim = {.text = "Pinned memory with asynchronous copies on streams overlaps copy and compute; no "
                      "figure is given."},
    .timing = Timing::kWallClock,
    .rotation = Rotation::kHot,
    .variants = {{"pageable", "one stream, ordinary memory"},
        {"pageable-4-streams", "eight pieces on four streams, ordinary memory"},
        {"pinned", "one stream, pinned memory"}, {"pinned-2-streams", "four pieces on two streams"},
        {"pinned-4-streams", "eight pieces on four streams"}},
    .sizes = sizes_of({1 << 20, 1 << 24}),
    .tolerance = {.absolute = 3e-4},
    .make = make_overlap,
});

}  // namespace
}  // namespace cheetah::lab
