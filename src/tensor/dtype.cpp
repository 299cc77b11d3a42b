// SPDX-License-Identifier: MIT
#include "tensor/dtype.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/error.h"

namespace cheetah {
namespace {

constexpr std::array kTraits = {
    DTypeTraits{DType::kF32, "F32", 1, 4},
    DTypeTraits{DType::kF16, "F16", 1, 2},
    DTypeTraits{DType::kBF16, "BF16", 1, 2},
    DTypeTraits{DType::kF64, "F64", 1, 8},
    DTypeTraits{DType::kF8E4M3, "F8_E4M3", 1, 1},
    DTypeTraits{DType::kF8E5M2, "F8_E5M2", 1, 1},
    DTypeTraits{DType::kBool, "BOOL", 1, 1},
    DTypeTraits{DType::kU8, "U8", 1, 1},
    DTypeTraits{DType::kI8, "I8", 1, 1},
    DTypeTraits{DType::kI16, "I16", 1, 2},
    DTypeTraits{DType::kU16, "U16", 1, 2},
    DTypeTraits{DType::kI32, "I32", 1, 4},
    DTypeTraits{DType::kU32, "U32", 1, 4},
    DTypeTraits{DType::kI64, "I64", 1, 8},
    DTypeTraits{DType::kU64, "U64", 1, 8},
    DTypeTraits{DType::kQ4_0, "Q4_0", 32, 18},
    DTypeTraits{DType::kQ4_1, "Q4_1", 32, 20},
    DTypeTraits{DType::kQ5_0, "Q5_0", 32, 22},
    DTypeTraits{DType::kQ5_1, "Q5_1", 32, 24},
    DTypeTraits{DType::kQ8_0, "Q8_0", 32, 34},
    DTypeTraits{DType::kQ4_K, "Q4_K", 256, 144},
    DTypeTraits{DType::kQ5_K, "Q5_K", 256, 176},
    DTypeTraits{DType::kQ6_K, "Q6_K", 256, 210},
    DTypeTraits{DType::kMXFP4, "MXFP4", 32, 17},
};

constexpr bool in_enum_order() {
  for (size_t i = 0; i < kTraits.size(); ++i)
    if (static_cast<size_t>(kTraits[i].dtype) != i) return false;
  return true;
}
static_assert(in_enum_order());

}  // namespace

const DTypeTraits& traits_of(DType dtype) { return kTraits[static_cast<size_t>(dtype)]; }

std::optional<DType> dtype_from_name(std::string_view name) {
  const auto same = [&](std::string_view other) {
    return std::equal(name.begin(), name.end(), other.begin(), other.end(), [](char a, char b) {
      return std::toupper(static_cast<unsigned char>(a)) == std::toupper(static_cast<unsigned char>(b));
    });
  };
  for (const DTypeTraits& traits : kTraits)
    if (same(traits.name)) return traits.dtype;
  return std::nullopt;
}

int64_t row_bytes(DType dtype, int64_t elements) {
  const DTypeTraits& traits = traits_of(dtype);
  CHEETAH_ASSERT(elements % traits.block_elements == 0, "a row must be a whole number of blocks");
  return elements / traits.block_elements * traits.block_bytes;
}

}  // namespace cheetah
