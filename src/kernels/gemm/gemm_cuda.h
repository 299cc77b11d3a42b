// SPDX-License-Identifier: MIT
#pragma once
// The products of gemm.h on the device. X is the type of x, Y that of y: float or Bf16; sums are float.
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/stream.h"
#include "gpu/tensor_map.h"
#include "kernels/gemm/gemm.h"
#include "tensor/bf16.h"

namespace cheetah::gpu {

// y = x W^T (+ bias), finished in the same kernel. Every pointer is the device's.
template <class X, class Y>
struct GemmArgs {
  const X* x = nullptr;  // [m, w.cols], rows x_stride apart
  int64_t x_stride = 0;
  int64_t m = 0;
  WeightMatrix w;               // data on the device, at least 4-byte aligned
  const float* bias = nullptr;  // [w.rows] or none
  // The first half of W's rows are gates, the second half what they let through: y = silu(gate) * up.
  bool gated = false;
  const Y* residual = nullptr;  // [m, outputs()], added to the result; may be y
  int64_t residual_stride = 0;
  Y* y = nullptr;  // [m, outputs()], rows y_stride apart
  int64_t y_stride = 0;
  // Room where a variant may put rows of W as BF16, or none: what the tensor cores do not read as stored goes
  // through the portable kernel then.
  Bf16* widened = nullptr;
  int64_t widened_numbers = 0;
  // Room where a variant may put x in W's own type, or none; narrowed_x_bytes of it.
  std::byte* narrowed = nullptr;
  int64_t narrowed_bytes = 0;

  int64_t outputs() const { return gated ? w.rows / 2 : w.rows; }
};

// Matrices of one shape and type: a layer's experts, or its heads.
struct WeightMatrices {
  DType dtype = DType::kF32;
  int64_t count = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  const std::byte* const* data = nullptr;  // [count] on the device
  // [count] on the device: WeightScales of each, all of one shape; or none.
  const float* const* scales = nullptr;
  int64_t scale_rows = 1;
  int64_t scale_cols = 0;
  const TensorMap* maps = nullptr;       // [count] on the device, of grouped_weight_map; or none
  const float* const* biases = nullptr;  // [count] on the device, or none
};

// Bytes that any variant takes for rows of x in another type, and a scale per row.
inline int64_t narrowed_x_bytes(int64_t m, int64_t cols) { return m * (2 * cols + 16) + 16; }

// What the copy engine needs to know about such matrices (WeightMatrices::maps); none where no kernel for
// this device takes them.
std::vector<TensorMap> grouped_weight_maps(std::span<const WeightMatrix> matrices, const DeviceInfo& device);

// With offsets (int32, on the device, [count + 1], ascending from 0): rows [offsets[e], offsets[e + 1]) of x
// go through matrix e, `rows` in all. Without: all `rows` rows go through every matrix, whose inputs and
// outputs lie x_step and y_step elements after the one's before.
template <class X, class Y>
struct GroupedGemmArgs {
  const X* x = nullptr;
  int64_t x_stride = 0;
  int64_t x_step = 0;
  int64_t rows = 0;
  WeightMatrices w;
  const int32_t* offsets = nullptr;
  bool gated = false;  // as GemmArgs; with offsets
  Y* y = nullptr;
  int64_t y_stride = 0;
  int64_t y_step = 0;
  std::byte* narrowed = nullptr;  // as GemmArgs
  int64_t narrowed_bytes = 0;
};

// One way to compute a product. The table lists the plainest first, which takes every shape.
template <class Args>
struct ProductVariant {
  const char* name;
  bool (*fits)(const Args& args, const DeviceInfo& device);
  void (*run)(const Args& args, Stream& stream);
  // Whether it should take less time than those before it, by the cost model; none: wherever it fits.
  bool (*pays)(const Args& args, const DeviceInfo& device) = nullptr;
};
template <class X, class Y>
using GemmVariant = ProductVariant<GemmArgs<X, Y>>;
template <class X, class Y>
using GroupedGemmVariant = ProductVariant<GroupedGemmArgs<X, Y>>;

template <class X, class Y>
std::span<const GemmVariant<X, Y>> gemm_variants();
template <class X, class Y>
std::span<const GroupedGemmVariant<X, Y>> grouped_gemm_variants();

// The variant that the measured table of this card names (cuda/tuned.h); of other shapes the last of
// gemm_variants() that fits and pays.
template <class X, class Y>
const GemmVariant<X, Y>& choose_gemm(const GemmArgs<X, Y>& args, const DeviceInfo& device);

// By the chosen variant. Instantiated for (float, float), (Bf16, Bf16) and (Bf16, float).
template <class X, class Y>
void gemm(const GemmArgs<X, Y>& args, Stream& stream);
template <class X, class Y>
void grouped_gemm(const GroupedGemmArgs<X, Y>& args, Stream& stream);

}  // namespace cheetah::gpu
