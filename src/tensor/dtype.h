// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace cheetah {

// Number formats a tensor can be stored in. Plain types have one element per block; the GGUF types pack a block
// of elements with its scales (bit layouts: kernels/quant/blocks.h).
enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kF64,
  kF8E4M3,
  kF8E5M2,
  kBool,
  kU8,
  kI8,
  kI16,
  kU16,
  kI32,
  kU32,
  kI64,
  kU64,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kMXFP4,
};

struct DTypeTraits {
  DType dtype;
  std::string_view name;   // as people write it: "F16", "Q4_K"
  int64_t block_elements;  // 1 for plain types
  int64_t block_bytes;
};

const DTypeTraits& traits_of(DType dtype);
inline std::string_view name_of(DType dtype) { return traits_of(dtype).name; }
inline bool is_quantized(DType dtype) { return traits_of(dtype).block_elements > 1; }

// Case-insensitive; nullopt for an unknown name.
std::optional<DType> dtype_from_name(std::string_view name);

// Bytes of one row of `elements`, which must be a whole number of blocks.
int64_t row_bytes(DType dtype, int64_t elements);

}  // namespace cheetah
