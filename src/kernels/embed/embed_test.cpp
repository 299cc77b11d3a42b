// SPDX-License-Identifier: MIT
#include "kernels/embed/embed.h"

#include <gtest/gtest.h>

#include "kernels/guarded.h"
#include "kernels/quant/quant.h"

namespace cheetah {
namespace {

TEST(Embed, CopiesAndScalesTheRowsAskedFor) {
  ThreadPool pool({.num_threads = 2, .pin = false});
  for (const int64_t hidden : {1, 7, 64, 333})
    for (const size_t tokens : {0, 1, 9, 100}) {
      std::vector<float> table(static_cast<size_t>(11 * hidden));
      for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i);
      std::vector<int32_t> ids;
      for (size_t i = 0; i < tokens; ++i) ids.push_back(static_cast<int32_t>(i * 7 % 11));
      for (const float scale : {1.f, 0.5f}) {
        Guarded y(static_cast<int64_t>(tokens) * (hidden + 2));
        embed({.table = {.dtype = DType::kF32,
                   .rows = 11,
                   .cols = hidden,
                   .data = reinterpret_cast<const std::byte*>(table.data())},
                  .ids = ids,
                  .scale = scale,
                  .y = y.data(),
                  .y_stride = hidden + 2},
            CpuContext{pool});
        y.expect_guards_whole();
        for (size_t token = 0; token < tokens; ++token)
          for (int64_t i = 0; i < hidden + 2; ++i) {
            const float value = y.data()[static_cast<int64_t>(token) * (hidden + 2) + i];
            if (i >= hidden) {
              EXPECT_TRUE(std::isnan(value));
            } else {
              EXPECT_EQ(value, scale * table[static_cast<size_t>(ids[token] * hidden + i)]);
            }
          }
      }
    }
}

TEST(Embed, WidensEveryStoredFormatAsItsDefinitionDoes) {
  ThreadPool pool({.num_threads = 1});
  constexpr int64_t kRows = 5, kHidden = 512;
  std::vector<float> values(kHidden);
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_K}) {
    const int64_t bytes = row_bytes(dtype, kHidden);
    std::vector<std::byte> table(static_cast<size_t>(kRows * bytes));
    for (int64_t row = 0; row < kRows; ++row) {
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = std::sin(static_cast<float>(i) + 100.f * static_cast<float>(row));
      quantize_row(dtype, values.data(), table.data() + row * bytes, kHidden);
    }
    const std::vector<int32_t> ids = {3, 0, 3, 4};
    Guarded y(static_cast<int64_t>(ids.size()) * kHidden);
    embed({.table = {dtype, kRows, kHidden, table.data()},
              .ids = ids,
              .scale = 2.f,
              .y = y.data(),
              .y_stride = kHidden},
        CpuContext{pool});
    y.expect_guards_whole();
    for (size_t token = 0; token < ids.size(); ++token) {
      dequantize_row(dtype, table.data() + ids[token] * bytes, values.data(), kHidden);
      for (size_t i = 0; i < values.size(); ++i)
        ASSERT_EQ(y.data()[token * kHidden + i], 2.f * values[i]) << name_of(dtype) << " token " << token;
    }
  }
}

}  // namespace
}  // namespace cheetah
