// SPDX-License-Identifier: MIT
#pragma once
// Descriptors of tensors in device memory for the bulk tensor copy engine (Hopper and later).
#include <array>
#include <cstddef>
#include <cstdint>

namespace cheetah::gpu {

// The driver's opaque 128 bytes; kernels take it by value as a __grid_constant__ parameter and use it as a
// CUtensorMap.
struct alignas(128) TensorMap {
  std::byte bytes[128];
};

enum class TensorElement { kF32, kBF16, kF16, kU8 };
enum class Swizzle { kNone, k32, k64, k128 };  // bytes of a row over which 16-byte pieces change places

// Up to four dimensions, innermost first. Strides are in bytes, of dimensions 1 up (dimension 0 is dense),
// and multiples of 16. Elements outside the tensor read as zero.
struct TensorMapShape {
  static constexpr int kMaxRank = 4;
  TensorElement element = TensorElement::kBF16;
  int rank = 2;
  std::array<int64_t, kMaxRank> dims{};
  std::array<int64_t, kMaxRank - 1> strides{};
  std::array<int, kMaxRank> box{};  // what one copy moves, at most 256 a dimension
  Swizzle swizzle = Swizzle::k128;
};
// Throws Error with the shape when the driver does not take it.
TensorMap make_tensor_map(const void* device_data, const TensorMapShape& shape);

}  // namespace cheetah::gpu
