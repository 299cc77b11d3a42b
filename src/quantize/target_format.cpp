// SPDX-License-Identifier: MIT
#include "quantize/target_format.h"

#include <array>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

constexpr TargetFormat gguf(std::string_view name, DType dtype, std::string_view what) {
  return {.name = name, .layout = Layout::kGguf, .dtype = dtype, .what = what};
}

constexpr TargetFormat integer(
    std::string_view name, Layout layout, Rounding rounding, int bits, std::string_view what) {
  return {.name = name,
      .layout = layout,
      .rounding = rounding,
      .bits = bits,
      .symmetric = rounding != Rounding::kAwq,
      .what = what};
}

constexpr std::array kFormats = {
    gguf("q8_0", DType::kQ8_0, "GGUF, 8.5 bits"),
    gguf("q6_k", DType::kQ6_K, "GGUF, 6.6 bits"),
    gguf("q5_k", DType::kQ5_K, "GGUF, 5.5 bits"),
    gguf("q5_1", DType::kQ5_1, "GGUF, 6 bits"),
    gguf("q5_0", DType::kQ5_0, "GGUF, 5.5 bits"),
    gguf("q4_k", DType::kQ4_K, "GGUF, 4.5 bits"),
    gguf("q4_1", DType::kQ4_1, "GGUF, 5 bits"),
    gguf("q4_0", DType::kQ4_0, "GGUF, 4.5 bits"),
    gguf("gguf-mxfp4", DType::kMXFP4, "GGUF, 4.25 bits"),
    gguf("gguf-bf16", DType::kBF16, "GGUF, not quantized"),
    gguf("gguf-f16", DType::kF16, "GGUF, not quantized"),
    gguf("gguf-f32", DType::kF32, "GGUF, not quantized"),
    TargetFormat{.name = "bf16", .layout = Layout::kPlain, .dtype = DType::kBF16, .what = "not quantized"},
    TargetFormat{.name = "f16", .layout = Layout::kPlain, .dtype = DType::kF16, .what = "not quantized"},
    TargetFormat{.name = "fp8", .layout = Layout::kFp8, .bits = 8, .what = "E4M3, a scale per row"},
    TargetFormat{.name = "fp8-tensor",
        .layout = Layout::kFp8,
        .bits = 8,
        .per_tensor = true,
        .what = "E4M3, a scale per tensor"},
    TargetFormat{
        .name = "fp8-block", .layout = Layout::kFp8Block, .bits = 8, .what = "E4M3, a scale per 128 x 128"},
    TargetFormat{.name = "mxfp4", .layout = Layout::kMxfp4, .bits = 4, .what = "FP4, a power of two per 32"},
    TargetFormat{.name = "nvfp4", .layout = Layout::kNvfp4, .bits = 4, .what = "FP4, an E4M3 scale per 16"},
    integer("w8a8", Layout::kInt8, Rounding::kNearest, 8, "INT8, a scale per row"),
    integer("int8", Layout::kPacked, Rounding::kNearest, 8, "INT8 in groups, compressed-tensors"),
    integer("int4", Layout::kPacked, Rounding::kNearest, 4, "INT4 in groups, compressed-tensors"),
    integer("rtn-int4", Layout::kGptq, Rounding::kNearest, 4, "INT4 in groups, GPTQ's layout"),
    integer("rtn-int3", Layout::kGptq, Rounding::kNearest, 3, "INT3 in groups, GPTQ's layout"),
    integer("gptq-int8", Layout::kGptq, Rounding::kGptq, 8, "calibrated"),
    integer("gptq-int4", Layout::kGptq, Rounding::kGptq, 4, "calibrated"),
    integer("gptq-int3", Layout::kGptq, Rounding::kGptq, 3, "calibrated"),
    integer("gptq-int2", Layout::kGptq, Rounding::kGptq, 2, "calibrated"),
    integer("awq-int4", Layout::kAwq, Rounding::kAwq, 4, "calibrated, AWQ's layout"),
    integer("awq-int3", Layout::kGptq, Rounding::kAwq, 3, "calibrated, GPTQ's layout"),
};

}  // namespace

std::span<const TargetFormat> target_formats() { return kFormats; }

const TargetFormat& target_format(std::string_view name) {
  std::string known;
  for (const TargetFormat& format : kFormats) {
    if (format.name == name) return format;
    known += (known.empty() ? "" : ", ") + std::string(format.name);
  }
  throw UsageError(format("--to {}: no such format; known: {}", printable(name), known));
}

std::string target_format_help() {
  std::string text;
  for (const TargetFormat& one : kFormats) text += format("  {:<12}{}\n", one.name, one.what);
  return text;
}

}  // namespace cheetah
