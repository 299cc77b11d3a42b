// SPDX-License-Identifier: MIT
#include "gpu/tensor_map.h"

#include <cuda.h>

#include <cstring>

#include "base/format.h"
#include "gpu/check.cuh"

namespace cheetah::gpu {
namespace {

static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) && alignof(TensorMap) >= alignof(CUtensorMap));

// The driver's function, found at run time: the program must start on machines without the driver.
using Encode = decltype(&cuTensorMapEncodeTiled);

Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  constexpr unsigned kSinceCuda = 12000;
  check(cudaGetDriverEntryPointByVersion(
      "cuTensorMapEncodeTiled", &function, kSinceCuda, cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess || !function)
    throw Error("the NVIDIA driver has no cuTensorMapEncodeTiled: one for CUDA 12 or later is needed");
  return reinterpret_cast<Encode>(function);
}

CUtensorMapDataType type_of(TensorElement element) {
  switch (element) {
    case TensorElement::kF32:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case TensorElement::kBF16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case TensorElement::kF16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case TensorElement::kU8:
      break;
  }
  return CU_TENSOR_MAP_DATA_TYPE_UINT8;
}

CUtensorMapSwizzle swizzle_of(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::k32:
      return CU_TENSOR_MAP_SWIZZLE_32B;
    case Swizzle::k64:
      return CU_TENSOR_MAP_SWIZZLE_64B;
    case Swizzle::k128:
      return CU_TENSOR_MAP_SWIZZLE_128B;
    case Swizzle::kNone:
      break;
  }
  return CU_TENSOR_MAP_SWIZZLE_NONE;
}

std::string text_of(const TensorMapShape& shape) {
  std::string dims, strides, box;
  for (size_t i = 0; i < static_cast<size_t>(shape.rank); ++i) {
    dims += format("{}{}", i ? "x" : "", shape.dims[i]);
    box += format("{}{}", i ? "x" : "", shape.box[i]);
    if (i > 0) strides += format("{}{}", i > 1 ? "," : "", shape.strides[i - 1]);
  }
  return format("dimensions {}, strides {}, box {}", dims, strides, box);
}

}  // namespace

TensorMap make_tensor_map(const void* device_data, const TensorMapShape& shape) {
  CHEETAH_ASSERT(
      shape.rank >= 1 && shape.rank <= TensorMapShape::kMaxRank, "a tensor map has up to four dimensions");
  static const Encode encode = find_encode();
  cuuint64_t dims[TensorMapShape::kMaxRank], strides[TensorMapShape::kMaxRank] = {};
  cuuint32_t box[TensorMapShape::kMaxRank], steps[TensorMapShape::kMaxRank];
  for (size_t i = 0; i < static_cast<size_t>(shape.rank); ++i) {
    dims[i] = static_cast<cuuint64_t>(shape.dims[i]);
    box[i] = static_cast<cuuint32_t>(shape.box[i]);
    steps[i] = 1;
    if (i > 0) strides[i - 1] = static_cast<cuuint64_t>(shape.strides[i - 1]);
  }
  CUtensorMap map;
  const CUresult status = encode(&map, type_of(shape.element), static_cast<cuuint32_t>(shape.rank),
      const_cast<void*>(device_data), dims, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      swizzle_of(shape.swizzle), CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS)
    throw Error(
        format("the driver takes no tensor map of {} (error {})", text_of(shape), static_cast<int>(status)));
  TensorMap result;
  std::memcpy(&result, &map, sizeof result);
  return result;
}

}  // namespace cheetah::gpu
