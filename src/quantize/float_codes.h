// SPDX-License-Identifier: MIT
#pragma once
// Matrices in FP8 and FP4 as safetensors hold them.
#include <string>
#include <vector>

#include "quantize/integer_grid.h"

namespace cheetah {

// "NAME.weight" and "NAME.weight_scale" [rows, 1], or [1] for one scale.
std::vector<OwnedTensor> pack_fp8(
    const MatrixRows& w, const std::string& name, bool per_tensor, ThreadPool& pool);
// "NAME.weight" and "NAME.weight_scale_inv" [rows / 128, cols / 128] rounded up.
std::vector<OwnedTensor> pack_fp8_blocks(const MatrixRows& w, const std::string& name, ThreadPool& pool);
// "NAME.weight_packed" and "NAME.weight_scale"; cols is a multiple of 32.
std::vector<OwnedTensor> pack_mxfp4(const MatrixRows& w, const std::string& name, ThreadPool& pool);
// … and "NAME.weight_global_scale"; cols is a multiple of 16.
std::vector<OwnedTensor> pack_nvfp4(const MatrixRows& w, const std::string& name, ThreadPool& pool);

inline constexpr int64_t kFp8Block = 128;

}  // namespace cheetah
