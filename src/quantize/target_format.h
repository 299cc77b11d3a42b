// SPDX-License-Identifier: MIT
#pragma once
// What --to can name: how the numbers are stored, in which layout, and how they are chosen.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tensor/dtype.h"

namespace cheetah {

enum class Layout {
  kGguf,      // blocks in a .gguf
  kPlain,     // safetensors in a plain type
  kPacked,    // compressed-tensors, integers in 32-bit words
  kInt8,      // compressed-tensors, 8-bit weights, activations rounded by the runtime
  kFp8,       // compressed-tensors, a scale per tensor or per row
  kFp8Block,  // "fp8" of DeepSeek's checkpoints, a scale per 128 x 128
  kMxfp4,     // compressed-tensors, 32 numbers to a power of two
  kNvfp4,     // compressed-tensors, 16 numbers to an E4M3 scale, one F32 scale for all
  kGptq,
  kAwq,
};

enum class Rounding { kNearest, kGptq, kAwq };

struct TargetFormat {
  std::string_view name;
  Layout layout;
  Rounding rounding = Rounding::kNearest;
  int bits = 16;
  DType dtype = DType::kBF16;  // of kGguf and kPlain
  bool symmetric = true;       // integers
  bool per_tensor = false;     // kFp8
  std::string_view what = {};  // for the help

  bool is_integer() const {
    return layout == Layout::kPacked || layout == Layout::kInt8 || layout == Layout::kGptq ||
           layout == Layout::kAwq;
  }
  bool is_calibrated() const { return rounding != Rounding::kNearest; }
};

std::span<const TargetFormat> target_formats();
// Throws UsageError listing them.
const TargetFormat& target_format(std::string_view name);
// "bf16, q8_0, …" with what each is, a line per format.
std::string target_format_help();

}  // namespace cheetah
