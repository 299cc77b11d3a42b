// SPDX-License-Identifier: MIT
// A kernel reads numbers the host has just written, through unified memory and around it.
#include <chrono>
#include <cstring>

#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

using Clock = std::chrono::steady_clock;

__global__ void double_all(const float* x, float* y, int64_t n) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = 2 * x[i];
}

struct Doubled {
  const float* x;
  __device__ double operator()(int64_t i) const { return 2.0 * x[i]; }
};

// CUDA 13 names places by a structure, earlier ones by a number.
#if CUDART_VERSION >= 13000
cudaMemLocation device_place() {
  cudaMemLocation place{};
  place.type = cudaMemLocationTypeDevice;
  gpu::check(cudaGetDevice(&place.id));
  return place;
}
cudaMemLocation host_place() {
  cudaMemLocation place{};
  place.type = cudaMemLocationTypeHost;
  return place;
}
void prefetch(const void* data, size_t bytes, cudaMemLocation place, gpu::Stream& stream) {
  gpu::check(cudaMemPrefetchAsync(data, bytes, place, 0, stream.handle()));
}
#else
int device_place() {
  int device = 0;
  gpu::check(cudaGetDevice(&device));
  return device;
}
int host_place() { return cudaCpuDeviceId; }
void prefetch(const void* data, size_t bytes, int place, gpu::Stream& stream) {
  gpu::check(cudaMemPrefetchAsync(data, bytes, place, stream.handle()));
}
#endif

class Managed {
 public:
  explicit Managed(int64_t bytes) { gpu::check(cudaMallocManaged(&data_, static_cast<size_t>(bytes))); }
  Managed(const Managed&) = delete;
  Managed& operator=(const Managed&) = delete;
  ~Managed() { cudaFree(data_); }
  float* data() const { return static_cast<float*>(data_); }

 private:
  void* data_ = nullptr;
};

void launch_double(const float* x, float* y, int64_t n, gpu::Stream& stream) {
  gpu::launch({.kernel = "double_all", .grid = {stream.device().num_sms * 8}, .block = {256}, .numbers = {n}},
      stream, double_all, x, y, n);
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0), bytes = 4 * n;
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<float>(n);
  const auto y = trial->output<float>(n);
  const auto there = trial->scratch<float>(n);
  trial->expect<Doubled>(y, [=](const At& at) { return Doubled{at[x]}; });
  trial->set_cost({.flops = 1.0 * n, .bytes = 4.0 * n, .roof = Roof::kHostLink});
  const auto source = std::make_shared<gpu::PinnedBuffer>(bytes);
  trial->own(source);
  trial->after_fill([=](const At& at) { gpu::copy_to_host(source->data(), at[x], bytes, at.stream()); });
  const auto size = static_cast<size_t>(bytes);
  // Before each run, outside its time, the host writes all of the memory, so that every page is the host's.
  const auto add_managed = [&](const char* name, const std::shared_ptr<Managed>& memory, bool prefetches) {
    trial->timed_variant(name, [=](const At& at) {
      prefetch(memory->data(), size, host_place(), at.stream());
      at.stream().wait();
      std::memcpy(memory->data(), source->data(), size);
      const Clock::time_point start = Clock::now();
      if (prefetches) prefetch(memory->data(), size, device_place(), at.stream());
      launch_double(memory->data(), at[y], n, at.stream());
      at.stream().wait();
      return std::chrono::duration<double>(Clock::now() - start).count();
    });
  };
  add_managed("faults", std::make_shared<Managed>(bytes), false);
  add_managed("prefetch", std::make_shared<Managed>(bytes), true);
  const auto advised = std::make_shared<Managed>(bytes);
  gpu::check(cudaMemAdvise(advised->data(), size, cudaMemAdviseSetReadMostly, device_place()));
  add_managed("read-mostly", advised, true);
  const auto mapped = std::make_shared<Managed>(bytes);
  gpu::check(cudaMemAdvise(mapped->data(), size, cudaMemAdviseSetPreferredLocation, host_place()));
  gpu::check(cudaMemAdvise(mapped->data(), size, cudaMemAdviseSetAccessedBy, device_place()));
  add_managed("stays-on-host", mapped, false);
  trial->variant("copy", [=](const At& at) {
    gpu::copy_to_device(at[there], source->data(), bytes, at.stream());
    launch_double(at[there], at[y], n, at.stream());
  });
  return trial;
}

const Registered kUnifiedMemory({
    .id = "ch06/unified-memory",
    .title = "Unified memory: faults, prefetch, advice, explicit copies",
    .question = "How close does unified memory come to an explicit copy, and what do page faults cost?",
    .mechanism = "A kernel that touches pages of the host stops for each group of them while the driver "
                 "moves it. A prefetch moves "
                 "them in bulk like a copy; read-mostly keeps a second copy; advice to stay lets the kernel "
                 "read across the "
                 "link without moving anything.",
    .claim = {.text = "With prefetch and advice unified memory is about as fast as an explicit copy; faults "
                      "stall the kernel; no figure is given.",
        .variant = "prefetch"},
    .timing = Timing::kWallClock,
    .rotation = Rotation::kHot,
    .variants = {{"faults", "the kernel touches the host's pages"},
        {"prefetch", "pages are moved before the launch"}, {"read-mostly", "prefetched as a second copy"},
        {"stays-on-host", "read across the link, page by page mapped"},
        {"copy", "pinned memory and an explicit copy"}},
    .sizes = sizes_of({1 << 18, 1 << 22, 1 << 24}),
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
