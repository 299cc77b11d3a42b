// SPDX-License-Identifier: MIT
// Sums over 5 x 5 neighbourhoods with clamped edges: neighbours in both directions, the case textures are
// made for.
#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

constexpr int kWidth = 32, kHeight = 8;  // a block's outputs
constexpr int kReach = 2;

__host__ __device__ inline int clamped(int v, int n) { return v < 0 ? 0 : v >= n ? n - 1 : v; }

__global__ __launch_bounds__(kWidth* kHeight) void direct(
    const uint32_t* __restrict__ in, uint32_t* out, int n) {
  const int x = static_cast<int>(blockIdx.x) * kWidth + static_cast<int>(threadIdx.x);
  const int y = static_cast<int>(blockIdx.y) * kHeight + static_cast<int>(threadIdx.y);
  uint32_t sum = 0;
#pragma unroll
  for (int dy = -kReach; dy <= kReach; ++dy)
#pragma unroll
    for (int dx = -kReach; dx <= kReach; ++dx)
      sum += in[static_cast<int64_t>(clamped(y + dy, n)) * n + clamped(x + dx, n)];
  out[static_cast<int64_t>(y) * n + x] = sum;
}

__global__ __launch_bounds__(kWidth* kHeight) void through_shared(
    const uint32_t* __restrict__ in, uint32_t* out, int n) {
  constexpr int kRows = kHeight + 2 * kReach, kColumns = kWidth + 2 * kReach;
  __shared__ uint32_t tile[kRows][kColumns];
  const int tx = static_cast<int>(threadIdx.x), ty = static_cast<int>(threadIdx.y);
  const int x0 = static_cast<int>(blockIdx.x) * kWidth, y0 = static_cast<int>(blockIdx.y) * kHeight;
  for (int i = ty * kWidth + tx; i < kRows * kColumns; i += kWidth * kHeight)
    tile[i / kColumns][i % kColumns] = in[static_cast<int64_t>(clamped(y0 + i / kColumns - kReach, n)) * n +
                                          clamped(x0 + i % kColumns - kReach, n)];
  __syncthreads();
  uint32_t sum = 0;
#pragma unroll
  for (int dy = 0; dy <= 2 * kReach; ++dy)
#pragma unroll
    for (int dx = 0; dx <= 2 * kReach; ++dx) sum += tile[ty + dy][tx + dx];
  out[static_cast<int64_t>(y0 + ty) * n + x0 + tx] = sum;
}

// The texture unit clamps coordinates itself.
__global__ __launch_bounds__(kWidth* kHeight) void through_texture(
    cudaTextureObject_t in, uint32_t* out, int n) {
  const int x = static_cast<int>(blockIdx.x) * kWidth + static_cast<int>(threadIdx.x);
  const int y = static_cast<int>(blockIdx.y) * kHeight + static_cast<int>(threadIdx.y);
  uint32_t sum = 0;
#pragma unroll
  for (int dy = -kReach; dy <= kReach; ++dy)
#pragma unroll
    for (int dx = -kReach; dx <= kReach; ++dx)
      sum += tex2D<uint32_t>(in, static_cast<float>(x + dx) + 0.5f, static_cast<float>(y + dy) + 0.5f);
  out[static_cast<int64_t>(y) * n + x] = sum;
}

struct BoxSum {
  const uint32_t* in;
  int n;
  __device__ double operator()(int64_t i) const {
    const int x = static_cast<int>(i % n), y = static_cast<int>(i / n);
    uint32_t sum = 0;
    for (int v = y - kReach; v <= y + kReach; ++v)
      for (int u = x - kReach; u <= x + kReach; ++u)
        sum += in[static_cast<int64_t>(clamped(v, n)) * n + clamped(u, n)];
    return sum;
  }
};

// A texture over the matrix as it lies, and one over a copy in the hardware's own order.
class Textures {
 public:
  Textures() = default;
  Textures(const Textures&) = delete;
  Textures& operator=(const Textures&) = delete;
  ~Textures() {
    if (linear) cudaDestroyTextureObject(linear);
    if (blocked) cudaDestroyTextureObject(blocked);
    if (array_) cudaFreeArray(array_);
  }

  void load(uint32_t* in, int64_t n, gpu::Stream& stream) {
    const size_t edge = static_cast<size_t>(n), pitch = edge * sizeof(uint32_t);
    const cudaChannelFormatDesc format = cudaCreateChannelDesc<uint32_t>();
    if (!linear) {
      cudaResourceDesc resource{};
      resource.resType = cudaResourceTypePitch2D;
      resource.res.pitch2D.devPtr = in;
      resource.res.pitch2D.desc = format;
      resource.res.pitch2D.width = edge;
      resource.res.pitch2D.height = edge;
      resource.res.pitch2D.pitchInBytes = pitch;
      linear = create(resource);
      gpu::check(cudaMallocArray(&array_, &format, edge, edge));
      resource = {};
      resource.resType = cudaResourceTypeArray;
      resource.res.array.array = array_;
      blocked = create(resource);
    }
    gpu::check(cudaMemcpy2DToArrayAsync(
        array_, 0, 0, in, pitch, pitch, edge, cudaMemcpyDeviceToDevice, stream.handle()));
  }

  cudaTextureObject_t linear = 0, blocked = 0;

 private:
  static cudaTextureObject_t create(const cudaResourceDesc& resource) {
    cudaTextureDesc description{};
    description.addressMode[0] = description.addressMode[1] = cudaAddressModeClamp;
    description.filterMode = cudaFilterModePoint;
    description.readMode = cudaReadModeElementType;
    cudaTextureObject_t texture = 0;
    gpu::check(cudaCreateTextureObject(&texture, &resource, &description, nullptr));
    return texture;
  }
  cudaArray_t array_ = nullptr;
};

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0);  // a multiple of 32
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto in = trial->input<uint32_t>(n * n);
  const auto out = trial->output<uint32_t>(n * n);
  trial->expect<BoxSum>(out, [=](const At& at) { return BoxSum{at[in], static_cast<int>(n)}; });
  trial->set_cost({.bytes = 8.0 * n * n, .roof = Roof::kNone, .items = 25.0 * n * n, .item = "fetch"});
  const auto textures = std::make_shared<Textures>();
  trial->own(textures);
  trial->after_fill([=](const At& at) { textures->load(at[in], n, at.stream()); });
  const auto config = [=](const char* name) {
    return gpu::LaunchConfig{.kernel = name, .grid = {n / kWidth, n / kHeight}, .block = {kWidth, kHeight}};
  };
  trial->variant("direct", [=](const At& at) {
    gpu::launch(config("direct"), at.stream(), direct, at[in], at[out], static_cast<int>(n));
  });
  trial->variant("shared", [=](const At& at) {
    gpu::launch(config("through_shared"), at.stream(), through_shared, at[in], at[out], static_cast<int>(n));
  });
  trial->variant("texture-linear", [=](const At& at) {
    gpu::launch(config("through_texture"), at.stream(), through_texture, textures->linear, at[out],
        static_cast<int>(n));
  });
  trial->variant("texture-array", [=](const At& at) {
    gpu::launch(config("through_texture"), at.stream(), through_texture, textures->blocked, at[out],
        static_cast<int>(n));
  });
  return trial;
}

const Registered kTexture2d({
    .id = "ch07/texture-2d",
    .title = "Neighbourhoods through textures",
    .question = "Do textures still beat plain loads for two-dimensional neighbourhoods?",
    .mechanism = "Textures clamp for free and the array layout keeps neighbours of both directions in a "
                 "line, but they share "
                 "the L1 with plain loads and fetch at a quarter of their rate; shared memory replaces 25 "
                 "cached loads by "
                 "one.",
    .claim = {.text = "Textures suit 2D and 3D locality and interpolation; for one-dimensional data the "
                      "read-only path is to be preferred; no figure is given.",
        .variant = "texture-array"},
    .rotation = Rotation::kHot,
    .variants = {{"direct", "25 cached loads"}, {"shared", "a tile with its margin in shared memory"},
        {"texture-linear", "25 texture fetches from the matrix as it lies"},
        {"texture-array", "25 texture fetches from an array in the hardware's order"}},
    .sizes = sizes_of({1024, 4096}),
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
