// SPDX-License-Identifier: MIT
// Products of weights in small blocks against the reference, within the bound that rounding x allows.
#include "kernels/gemm/cuda/hopper_blocks.h"

#include <gtest/gtest.h>

#include "kernels/cuda/device_case.h"
#include "kernels/gemm/gemm_case.h"

namespace cheetah::gpu {
namespace {

constexpr DType kTypes[] = {DType::kQ8_0, DType::kQ4_0, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};

struct Case {
  DType dtype;
  int64_t m, rows, cols;
  bool gated = false, adds = false;
};

class HopperBlocks : public testing::Test {
 protected:
  void SetUp() override {
    if (!device_.stream().device().is_hopper()) GTEST_SKIP() << "needs a Hopper GPU";
  }
  DeviceCase device_;

  template <class Y>
  void check(const Case& c) {
    SCOPED_TRACE(testing::Message() << name_of(c.dtype) << " " << c.m << "x" << c.rows << "x" << c.cols
                                    << (c.gated ? " gated" : "") << (c.adds ? " added" : ""));
    GemmCase host = make_gemm_case(c.dtype, c.m, c.rows, c.cols, 21);
    host.x = rounded_to<Bf16>(normal_numbers(c.m * c.cols, 22));
    host.args.x = host.x.data();
    host.args.x_stride = c.cols;
    gemm_reference(host.args);
    const int64_t outputs = c.gated ? c.rows / 2 : c.rows;
    const std::vector<float> residual = rounded_to<Bf16>(normal_numbers(c.m * outputs, 23));
    Y* y = device_.poisoned<Y>(c.m * outputs);
    HopperBlocksArgs args{.x = device_.upload(numbers_as<Bf16>(host.x)),
        .x_stride = c.cols,
        .m = c.m,
        .w = host.args.w,
        .bias = device_.upload(host.bias),
        .gated = c.gated,
        .residual = c.adds ? device_.upload(numbers_as<Bf16>(residual)) : nullptr,
        .residual_stride = outputs,
        .f32_output = std::is_same_v<Y, float>,
        .y = y,
        .y_stride = outputs};
    args.w.data = device_.upload_bytes(host.args.w.data, c.rows * row_bytes(c.dtype, c.cols));
    ASSERT_TRUE(hopper_blocks_fits(args, device_.stream().device()));
    hopper_blocks_gemm(args, device_.stream());
    const std::vector<float> actual = device_.take(y, c.m * outputs);
    const std::vector<double> bounds = gemm_error_bounds(host.args, Precision::kNative);
    for (int64_t i = 0; i < c.m; ++i)
      for (int64_t output = 0; output < outputs; ++output) {
        const auto at = [&](int64_t row) {
          return static_cast<double>(host.args.y[i * host.args.y_stride + row]);
        };
        const auto off = [&](int64_t row) { return 1e-4 + bounds[static_cast<size_t>(i * c.rows + row)]; };
        double want = at(output), bound = off(output);
        if (c.gated) {
          const double up = at(outputs + output);
          bound = 1.2 * bound * std::abs(up) + off(outputs + output) * (std::abs(want) + 1.2 * bound);
          want = want / (1 + std::exp(-want)) * up;
        }
        if (c.adds) want += residual[static_cast<size_t>(i * outputs + output)];
        ASSERT_NEAR(actual[static_cast<size_t>(i * outputs + output)], want,
            bound + 1.01 * rounding_of<Y>() * (std::abs(want) + bound))
            << "row " << i << ", output " << output;
      }
  }
};

TEST_F(HopperBlocks, EveryTypeEqualsTheReferenceAtEveryBatch) {
  for (const DType dtype : kTypes) {
    for (const int64_t m : {1, 2, 3, 4, 5, 8}) check<Bf16>({dtype, m, 264, 512});
    check<float>({dtype, 1, 40, 4096});
    check<float>({dtype, 7, 136, 1280});
    check<Bf16>({dtype, 8, 8, 14336});
  }
}

TEST_F(HopperBlocks, RowsThatBeginAnywhereAreRead) {
  for (const int64_t cols : {32, 96, 1056}) {
    check<Bf16>({DType::kQ8_0, 3, 24, cols});
    check<Bf16>({DType::kQ4_0, 3, 24, cols});
  }
  check<Bf16>({DType::kQ6_K, 3, 24, 256});
  check<Bf16>({DType::kQ6_K, 1, 1000, 2304});
}

TEST_F(HopperBlocks, ProductsFinishAsAsked) {
  for (const DType dtype : kTypes)
    for (const int64_t m : {1, 4, 8})
      for (const bool adds : {false, true}) {
        check<Bf16>({dtype, m, 2000, 512, true, adds});
        check<Bf16>({dtype, m, 1000, 512, false, adds});
      }
}

}  // namespace
}  // namespace cheetah::gpu
