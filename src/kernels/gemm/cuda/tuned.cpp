#include "kernels/gemm/cuda/tuned.h"

#include <algorithm>
#include <array>

namespace cheetah::gpu {
namespace {

// Products of up to `most` rows, from the row before it in the table on.
struct Tuned {
  DType dtype;
  int64_t n, k, most;
  const char* variant;
};

// From kernels_cuda_bench tune. Where it names cuBLASLt the next best of our own stands here (NOTES.md).
constexpr std::array kH200 = {
    Tuned{DType::kBF16, 6144, 4096, 64, "hopper_skinny"},
    Tuned{DType::kBF16, 6144, 4096, 512, "hopper_tiles"},
    Tuned{DType::kBF16, 4096, 4096, 64, "hopper_skinny"},
    Tuned{DType::kBF16, 4096, 4096, 512, "hopper_tiles"},
    Tuned{DType::kBF16, 28672, 4096, 64, "hopper_skinny"},
    Tuned{DType::kBF16, 28672, 4096, 512, "hopper_tiles"},
    Tuned{DType::kBF16, 4096, 14336, 64, "hopper_skinny"},
    Tuned{DType::kBF16, 4096, 14336, 512, "hopper_tiles"},
    Tuned{DType::kF8E4M3, 6144, 4096, 64, "hopper_fp8_skinny"},
    Tuned{DType::kF8E4M3, 6144, 4096, 512, "hopper_fp8_tiles"},
    Tuned{DType::kF8E4M3, 4096, 4096, 64, "hopper_fp8_skinny"},
    Tuned{DType::kF8E4M3, 4096, 4096, 512, "hopper_fp8_tiles"},
    Tuned{DType::kF8E4M3, 28672, 4096, 64, "hopper_fp8_skinny"},
    Tuned{DType::kF8E4M3, 28672, 4096, 512, "hopper_fp8_tiles"},
    Tuned{DType::kF8E4M3, 4096, 14336, 64, "hopper_fp8_skinny"},
    Tuned{DType::kF8E4M3, 4096, 14336, 512, "hopper_fp8_tiles"},
    Tuned{DType::kQ8_0, 6144, 4096, 4, "hopper_blocks"},
    Tuned{DType::kQ8_0, 6144, 4096, 192, "hopper_packed"},
    Tuned{DType::kQ8_0, 6144, 4096, 512, "hopper_widened"},
    Tuned{DType::kQ8_0, 4096, 4096, 4, "hopper_blocks"},
    Tuned{DType::kQ8_0, 4096, 4096, 192, "hopper_packed"},
    Tuned{DType::kQ8_0, 4096, 4096, 512, "hopper_widened"},
    Tuned{DType::kQ8_0, 28672, 4096, 4, "hopper_blocks"},
    Tuned{DType::kQ8_0, 28672, 4096, 192, "hopper_packed"},
    Tuned{DType::kQ8_0, 28672, 4096, 512, "hopper_widened"},
    Tuned{DType::kQ8_0, 4096, 14336, 4, "hopper_blocks"},
    Tuned{DType::kQ8_0, 4096, 14336, 192, "hopper_packed"},
    Tuned{DType::kQ8_0, 4096, 14336, 512, "hopper_widened"},
    Tuned{DType::kQ4_0, 6144, 4096, 1, "hopper_blocks"},
    Tuned{DType::kQ4_0, 6144, 4096, 256, "hopper_packed"},
    Tuned{DType::kQ4_0, 6144, 4096, 512, "hopper_widened"},
    Tuned{DType::kQ4_0, 4096, 4096, 1, "hopper_blocks"},
    Tuned{DType::kQ4_0, 4096, 4096, 256, "hopper_packed"},
    Tuned{DType::kQ4_0, 4096, 4096, 512, "hopper_widened"},
    Tuned{DType::kQ4_0, 28672, 4096, 1, "hopper_blocks"},
    Tuned{DType::kQ4_0, 28672, 4096, 256, "hopper_packed"},
    Tuned{DType::kQ4_0, 28672, 4096, 512, "hopper_widened"},
    Tuned{DType::kQ4_0, 4096, 14336, 1, "hopper_blocks"},
    Tuned{DType::kQ4_0, 4096, 14336, 256, "hopper_packed"},
    Tuned{DType::kQ4_0, 4096, 14336, 512, "hopper_widened"},
    Tuned{DType::kQ4_K, 6144, 4096, 1, "hopper_blocks"},
    Tuned{DType::kQ4_K, 6144, 4096, 256, "hopper_packed"},
    Tuned{DType::kQ4_K, 6144, 4096, 512, "hopper_widened"},
    Tuned{DType::kQ4_K, 4096, 4096, 1, "hopper_blocks"},
    Tuned{DType::kQ4_K, 4096, 4096, 256, "hopper_packed"},
    Tuned{DType::kQ4_K, 4096, 4096, 512, "hopper_widened"},
    Tuned{DType::kQ4_K, 28672, 4096, 1, "hopper_blocks"},
    Tuned{DType::kQ4_K, 28672, 4096, 256, "hopper_packed"},
    Tuned{DType::kQ4_K, 28672, 4096, 512, "hopper_widened"},
    Tuned{DType::kQ4_K, 4096, 14336, 1, "hopper_blocks"},
    Tuned{DType::kQ4_K, 4096, 14336, 256, "hopper_packed"},
    Tuned{DType::kQ4_K, 4096, 14336, 512, "hopper_widened"},
    Tuned{DType::kQ6_K, 6144, 4096, 1, "hopper_blocks"},
    Tuned{DType::kQ6_K, 6144, 4096, 192, "hopper_packed"},
    Tuned{DType::kQ6_K, 6144, 4096, 512, "hopper_widened"},
    Tuned{DType::kQ6_K, 4096, 4096, 1, "hopper_blocks"},
    Tuned{DType::kQ6_K, 4096, 4096, 192, "hopper_packed"},
    Tuned{DType::kQ6_K, 4096, 4096, 512, "hopper_widened"},
    Tuned{DType::kQ6_K, 28672, 4096, 1, "hopper_blocks"},
    Tuned{DType::kQ6_K, 28672, 4096, 192, "hopper_packed"},
    Tuned{DType::kQ6_K, 28672, 4096, 512, "hopper_widened"},
    Tuned{DType::kQ6_K, 4096, 14336, 1, "hopper_blocks"},
    Tuned{DType::kQ6_K, 4096, 14336, 192, "hopper_packed"},
    Tuned{DType::kQ6_K, 4096, 14336, 512, "hopper_widened"},
};

}  // namespace

std::string_view tuned_variant(const ProductShape& shape, const DeviceInfo& device) {
  if (device.name.find("H200") == std::string::npos) return {};
  const auto takes = [&](const Tuned& tuned) {
    return tuned.dtype == shape.dtype && tuned.n == shape.n && tuned.k == shape.k && shape.m <= tuned.most;
  };
  const auto at = std::ranges::find_if(kH200, takes);
  return at == kH200.end() ? std::string_view() : at->variant;
}

}  // namespace cheetah::gpu
