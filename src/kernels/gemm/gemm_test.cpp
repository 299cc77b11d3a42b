// SPDX-License-Identifier: MIT
#include "kernels/gemm/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "hwy/targets.h"
#include "kernels/gemm/gemm_case.h"

namespace cheetah {
namespace {

constexpr DType kDTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kF8E4M3,
    DType::kF8E5M2, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0, DType::kQ4_K,
    DType::kQ5_K, DType::kQ6_K, DType::kMXFP4};
constexpr Precision kPrecisions[] = {Precision::kExact, Precision::kNative};

std::string describe(const GemmArgs& args, Precision precision) {
  return format("{} m {} rows {} cols {} {}", name_of(args.w.dtype), args.m, args.w.rows, args.w.cols,
      precision == Precision::kExact ? "exact" : "native");
}

void expect_reference(GemmCase& c, const CpuContext& context) {
  std::vector<float> fast = c.y, right = c.y;
  GemmArgs args = c.args;
  args.y = fast.data();
  gemm(args, context);
  args.y = right.data();
  gemm_reference(args);
  const std::vector<double> bounds = gemm_error_bounds(args, context.precision);
  for (int64_t i = 0; i < args.m; ++i)
    for (int64_t j = 0; j < args.w.rows; ++j) {
      const auto at = static_cast<size_t>(i * args.y_stride + j);
      ASSERT_NEAR(fast[at], right[at], bounds[static_cast<size_t>(i * args.w.rows + j)])
          << describe(args, context.precision) << " at " << i << ", " << j;
    }
  for (int64_t i = 0; i < args.m; ++i)  // the gap between rows of y is nobody's
    for (int64_t j = args.w.rows; j < args.y_stride; ++j)
      ASSERT_TRUE(std::isnan(fast[static_cast<size_t>(i * args.y_stride + j)]));
}

std::vector<int64_t> ragged_cols(DType dtype) {
  const int64_t block = traits_of(dtype).block_elements;
  if (block == 1) return {1, 16, 100, 801, 832};
  return {block, 3 * block, (768 / block + 1) * block};
}

TEST(Gemm, EveryTypeStaysWithinItsBoundOfTheReferenceOnRaggedShapes) {
  ThreadPool pool({.num_threads = 1});
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (const DType dtype : kDTypes)
      for (const int64_t cols : ragged_cols(dtype))
        for (const int64_t m : {1, 2, 3, 5, 9})
          for (const int64_t rows : {1, 33})
            for (const Precision precision : kPrecisions) {
              GemmCase c = make_gemm_case(dtype, m, rows, cols, 11);
              ASSERT_NO_FATAL_FAILURE(expect_reference(c, {pool, precision})) << hwy::TargetName(target);
            }
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST(Gemm, ScalesOfRowsAndOfBlocksAreApplied) {
  ThreadPool pool({.num_threads = 1});
  for (const auto& [high, wide] : std::vector<std::pair<int64_t, int64_t>>{{1, 832}, {128, 128}, {2, 7}})
    for (const int64_t m : {1, 5, 70})
      for (const Precision precision : kPrecisions) {
        GemmCase c = make_gemm_case(DType::kF8E4M3, m, 133, 832, 12);
        const std::vector<float> scales = add_scales(c.args.w, high, wide, 13);
        ASSERT_NO_FATAL_FAILURE(expect_reference(c, {pool, precision})) << high << " x " << wide;
      }
}

TEST(Gemm, APartOfAMatrixTakesItsScalesAlong) {
  GemmCase c = make_gemm_case(DType::kF8E4M3, 1, 8, 16, 14);
  const std::vector<float> scales = add_scales(c.args.w, 2, 8, 15);
  const WeightMatrix part = rows_of(c.args.w, 4, 3);
  std::vector<float> whole_row(16), part_row(16);
  widen_weights(c.args.w, 6, whole_row.data());
  widen_weights(part, 2, part_row.data());
  EXPECT_EQ(whole_row, part_row);
  EXPECT_EQ(part.num_scales(), 4);
  EXPECT_THROW(rows_of(c.args.w, 3, 2), Error);
}

TEST(Gemm, LargeProductsWithoutBiasStayWithinTheBound) {
  ThreadPool pool({.num_threads = 2});
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_K})
    for (const Precision precision : kPrecisions) {
      GemmCase c = make_gemm_case(dtype, 131, 101, 1792, 5);
      c.args.bias = nullptr;
      ASSERT_NO_FATAL_FAILURE(expect_reference(c, {pool, precision}));
    }
}

// y of each row of x by itself, [m, rows].
std::vector<float> rows_alone(const GemmCase& c, const CpuContext& context) {
  const int64_t rows = c.args.w.rows;
  std::vector<float> alone(static_cast<size_t>(rows * c.args.m));
  for (int64_t i = 0; i < c.args.m; ++i) {
    GemmArgs one = c.args;
    one.m = 1;
    one.x += i * one.x_stride;
    one.y = alone.data() + i * rows;
    one.y_stride = rows;
    gemm(one, context);
  }
  return alone;
}

void expect_bits_of(const std::vector<float>& alone, GemmCase& c, int64_t m, const CpuContext& context) {
  std::fill(c.y.begin(), c.y.end(), std::nanf(""));
  GemmArgs batch = c.args;
  batch.m = m;
  gemm(batch, context);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < batch.w.rows; ++j)
      ASSERT_EQ(std::bit_cast<uint32_t>(c.y[static_cast<size_t>(i * batch.y_stride + j)]),
          std::bit_cast<uint32_t>(alone[static_cast<size_t>(i * batch.w.rows + j)]))
          << describe(batch, context.precision) << " at " << i << ", " << j << ", "
          << context.pool.num_threads() << " threads";
}

// The promise the engine builds on: a token's result does not depend on who shares its batch. 101 rows are
// more than one task; whole vectors of columns take other paths than 801 do.
TEST(Gemm, ARowHasTheSameBitsAloneAndInAnyBatchOnAnyNumberOfThreads) {
  const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();  // best first
  ThreadPool pools[] = {
      ThreadPool({.num_threads = 1}), ThreadPool({.num_threads = 2}), ThreadPool({.num_threads = 3})};
  for (const int64_t target : targets) {
    hwy::SetSupportedTargetsForTest(target);
    const int64_t most = target == targets.front() ? 130 : 13;  // the split into tasks is the same for all
    for (const DType dtype : kDTypes)
      for (const int64_t cols :
          is_quantized(dtype) ? std::vector<int64_t>{1024} : std::vector<int64_t>{801, 832})
        for (const Precision precision : kPrecisions) {
          GemmCase c = make_gemm_case(dtype, most, 101, cols, 3);
          const std::vector<float> alone = rows_alone(c, {pools[0], precision});
          for (ThreadPool& pool : pools)
            for (const int64_t m : {int64_t{2}, int64_t{3}, int64_t{5}, int64_t{8}, int64_t{13}, most})
              ASSERT_NO_FATAL_FAILURE(expect_bits_of(alone, c, m, {pool, precision}))
                  << hwy::TargetName(target);
        }
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST(Gemm, EmptyProductsTouchNothingAndNoColumnsLeaveTheBias) {
  ThreadPool pool({.num_threads = 2});
  for (const Precision precision : kPrecisions) {
    GemmCase none = make_gemm_case(DType::kF32, 0, 4, 8, 1);
    gemm(none.args, {pool, precision});
    GemmCase no_rows = make_gemm_case(DType::kQ8_0, 2, 0, 32, 1);
    gemm(no_rows.args, {pool, precision});
    for (const DType dtype : {DType::kF16, DType::kQ8_0}) {
      GemmCase no_cols = make_gemm_case(dtype, 2, 3, 0, 1);
      gemm(no_cols.args, {pool, precision});
      EXPECT_EQ(no_cols.y[static_cast<size_t>(no_cols.args.y_stride) + 2], no_cols.bias[2]);
    }
  }
}

TEST(GroupedGemm, EachExpertsRowsEqualItsOwnProduct) {
  ThreadPool pool({.num_threads = 2});
  const std::vector<int64_t> offsets = {0, 1, 1, 12, 150, 153};
  const int64_t rows = 70, cols = 512;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kQ8_0, DType::kQ4_K, DType::kMXFP4})
    for (const Precision precision : kPrecisions)
      for (const bool with_bias : {false, true}) {
        std::vector<GemmCase> cases;
        std::vector<WeightMatrix> experts;
        std::vector<const float*> biases;
        for (uint64_t e = 0; e + 1 < offsets.size(); ++e) {
          cases.push_back(make_gemm_case(dtype, offsets.back(), rows, cols, 20 + e));
          experts.push_back(cases.back().args.w);
          if (with_bias) biases.push_back(cases.back().bias.data());
        }
        std::vector<float> y(static_cast<size_t>(offsets.back() * rows), std::nanf(""));
        GemmArgs own = cases[0].args;  // every expert sees the first case's x
        const CpuContext context{pool, precision};
        grouped_gemm({own.x, own.x_stride, experts, offsets, biases, y.data(), rows}, context);
        for (size_t e = 0; e + 1 < offsets.size(); ++e) {
          const int64_t first = offsets[e], m = offsets[e + 1] - first;
          std::vector<float> right(static_cast<size_t>(m * rows));
          gemm({own.x + first * own.x_stride, own.x_stride, m, experts[e], with_bias ? biases[e] : nullptr,
                   right.data(), rows},
              context);
          for (size_t i = 0; i < right.size(); ++i)
            ASSERT_EQ(y[static_cast<size_t>(first * rows) + i], right[i])
                << name_of(dtype) << " expert " << e;
        }
      }
}

TEST(GemmCost, CountsEachMultiplyAddAndEachByteOnce) {
  GemmCase c = make_gemm_case(DType::kQ8_0, 2, 4, 64, 1);
  const Cost cost = gemm_cost(c.args);
  EXPECT_EQ(cost.flops, 2 * 2 * 4 * 64);
  EXPECT_EQ(cost.bytes, 4 * 68 + 4 * 4 + 4 * 2 * (4 + 64));
}

}  // namespace
}  // namespace cheetah
