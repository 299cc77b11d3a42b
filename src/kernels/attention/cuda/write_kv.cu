// Stores a step's keys and values in the cache, one warp a (row, head). The same codes as the CPU's, bit for
// bit. bytes  keys and values read once, written once    bound  memory
#include "base/error.h"
#include "gpu/launch.cuh"
#include "kernels/attention/cuda/cache_row.cuh"
#include "kernels/cuda/reduce.cuh"

namespace cheetah::gpu {
namespace {

constexpr int kWarps = 4;

// Nearest E4M3 of a magnitude up to 448, ties to even.
__device__ uint8_t e4m3_code(float magnitude) {
  if (magnitude < 0x1p-6f) return static_cast<uint8_t>(rintf(magnitude * 512.f));
  const uint32_t bits = __float_as_uint(magnitude);
  const uint32_t rounded = (bits + 0x7FFFFu + ((bits >> 20) & 1u)) >> 20;
  return static_cast<uint8_t>(min(rounded - (120u << 3), 0x7Eu));
}

template <DType kCache>
__device__ uint8_t code_of(float value) {
  if constexpr (kCache == DType::kI8) {
    if (!(fabsf(value) <= 128.f)) return 0;  // NaN too
    return static_cast<uint8_t>(static_cast<int8_t>(fminf(fmaxf(rintf(value), -127.f), 127.f)));
  }
  if (!(fabsf(value) <= 512.f)) return 0;
  return static_cast<uint8_t>(e4m3_code(fminf(fabsf(value), 448.f)) | (signbit(value) ? 0x80 : 0));
}

template <class T, DType kCache>
__device__ void store_scaled(const T* from, int64_t dim, std::byte* to) {
  const auto lane = static_cast<int>(threadIdx.x);
  float largest = 0.f;
  for (int64_t i = lane; i < dim; i += kWarpSize) largest = fmaxf(largest, fabsf(widen(from[i])));
  largest = warp_max(largest);
  constexpr float kTop = kCache == DType::kI8 ? 127.f : 448.f;
  const float scale = largest / kTop, inverse = largest > 0.f ? kTop / largest : 0.f;
  for (int64_t i = lane; i < dim; i += kWarpSize)
    to[i] = std::byte{code_of<kCache>(widen(from[i]) * inverse)};
  if (lane < 4) to[dim + lane] = static_cast<std::byte>(__float_as_uint(scale) >> (8 * lane));
}

template <class T, DType kCache>
__device__ void store_row(const T* from, int64_t dim, std::byte* to) {
  if constexpr (kHasRowScale<kCache>) {
    store_scaled<T, kCache>(from, dim, to);
  } else {
    for (int64_t i = threadIdx.x; i < dim; i += kWarpSize) {
      const float value = widen(from[i]);
      if constexpr (kCache == DType::kF32) reinterpret_cast<float*>(to)[i] = value;
      if constexpr (kCache == DType::kF16) reinterpret_cast<__half*>(to)[i] = __float2half_rn(value);
      if constexpr (kCache == DType::kBF16) reinterpret_cast<Bf16*>(to)[i] = narrow<Bf16>(value);
    }
  }
}

template <class T, DType kCache>
__global__ __launch_bounds__(kWarps* kWarpSize) void store_rows(const KvWriteArgs<T> args) {
  const PagedKv& kv = args.kv;
  const int64_t row = blockIdx.x, head = static_cast<int64_t>(blockIdx.y) * kWarps + threadIdx.y;
  if (head >= kv.kv_heads) return;
  const int32_t* pages = args.batch.pages + args.batch.sequences[args.batch.row_sequence[row]].first_page;
  const int64_t at = cache_row(kv, pages, head, args.batch.positions[row]);
  store_row<T, kCache>(args.keys + row * args.key_stride + head * kv.key_dim, kv.key_dim,
                       kv.keys + at * device_row_bytes<kCache>(kv.key_dim));
  if (!kv.values) return;
  store_row<T, kCache>(args.values + row * args.value_stride + head * kv.value_dim, kv.value_dim,
                       kv.values + at * device_row_bytes<kCache>(kv.value_dim));
}

}  // namespace

template <class T>
void write_kv(const KvWriteArgs<T>& args, Stream& stream) {
  const LaunchConfig config{.kernel = "write_kv",
                            .grid = {args.batch.rows, (args.kv.kv_heads + kWarps - 1) / kWarps},
                            .block = {kWarpSize, kWarps},
                            .numbers = {args.batch.rows, args.kv.kv_heads, args.kv.key_dim, args.kv.value_dim,
                                        static_cast<int64_t>(args.kv.dtype)}};
  switch (args.kv.dtype) {
    case DType::kF16:
      return launch(config, stream, store_rows<T, DType::kF16>, args);
    case DType::kBF16:
      return launch(config, stream, store_rows<T, DType::kBF16>, args);
    case DType::kI8:
      return launch(config, stream, store_rows<T, DType::kI8>, args);
    case DType::kF8E4M3:
      return launch(config, stream, store_rows<T, DType::kF8E4M3>, args);
    default:
      return launch(config, stream, store_rows<T, DType::kF32>, args);
  }
}

template void write_kv<float>(const KvWriteArgs<float>&, Stream&);
template void write_kv<Bf16>(const KvWriteArgs<Bf16>&, Stream&);

}  // namespace cheetah::gpu
