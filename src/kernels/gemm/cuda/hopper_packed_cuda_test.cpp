// SPDX-License-Identifier: MIT
// Products of weights unpacked on their way to the tensor cores against the reference: within what rounding
// W, its scales and offsets to BF16 costs.
#include "kernels/gemm/cuda/hopper_packed.h"

#include <gtest/gtest.h>

#include "kernels/cuda/device_case.h"
#include "kernels/gemm/gemm_case.h"

namespace cheetah::gpu {
namespace {

constexpr DType kTypes[] = {
    DType::kQ4_0, DType::kQ8_0, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kMXFP4};

struct Case {
  DType dtype;
  int64_t m, rows, cols;
  bool gated = false, adds = false;
};

// Half a unit of BF16 for each number that is rounded. Where scale and offset are too, their sum may be
// small: the largest number of the 32 around bounds both.
double rounding(DType dtype, double number, double largest) {
  constexpr double kHalfUnit = 1.01 * 0x1p-8;
  const bool has_offset = dtype == DType::kQ4_K || dtype == DType::kQ5_K;
  if (has_offset) return kHalfUnit * 2.6 * largest;
  return kHalfUnit * (dtype == DType::kQ8_0 || dtype == DType::kMXFP4 ? 1.0 : 2.01) * number;
}

// What a row of W makes of a row of x, and how far it may be off.
struct Sum {
  double value, bound;
};
Sum sum_of(DType dtype, const std::vector<float>& w, const float* x, double bias) {
  Sum sum{bias, 1e-5};
  for (size_t begin = 0; begin < w.size(); begin += 32) {
    double largest = 0;
    for (size_t i = begin; i < begin + 32; ++i)
      largest = std::max(largest, std::abs(static_cast<double>(w[i])));
    for (size_t i = begin; i < begin + 32; ++i) {
      const double number = w[i], term = number * x[i];
      sum.value += term;
      sum.bound += std::abs(term) * static_cast<double>(w.size() + 16) * 0x1p-24 +
                   std::abs(x[i]) * rounding(dtype, std::abs(number), largest);
    }
  }
  return sum;
}

Sum gated(const Sum& gate, const Sum& up) {
  return {gate.value / (1 + std::exp(-gate.value)) * up.value,
      1.2 * gate.bound * std::abs(up.value) + up.bound * (std::abs(gate.value) + 1.2 * gate.bound)};
}

class HopperPacked : public testing::Test {
 protected:
  void SetUp() override {
    if (!device_.stream().device().is_hopper()) GTEST_SKIP() << "needs a Hopper GPU";
  }
  DeviceCase device_;

  template <class Y>
  void check(const Case& c) {
    SCOPED_TRACE(testing::Message() << name_of(c.dtype) << " " << c.m << "x" << c.rows << "x" << c.cols
                                    << (c.gated ? " gated" : "") << (c.adds ? " added" : ""));
    const GemmCase host = make_gemm_case(c.dtype, c.m, c.rows, c.cols, 31);
    const std::vector<float> x = rounded_to<Bf16>(normal_numbers(c.m * c.cols, 32));
    const int64_t outputs = c.gated ? c.rows / 2 : c.rows;
    const std::vector<float> residual = rounded_to<Bf16>(normal_numbers(c.m * outputs, 33));
    Y* y = device_.poisoned<Y>(c.m * outputs);
    HopperBlocksArgs args{.x = device_.upload(numbers_as<Bf16>(x)),
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
    ASSERT_TRUE(hopper_packed_fits(args, device_.stream().device()));
    hopper_packed_gemm(args, device_.stream());
    const std::vector<float> actual = device_.take(y, c.m * outputs);
    std::vector<float> w(static_cast<size_t>(c.cols)), up(w);
    for (int64_t output = 0; output < outputs; ++output) {
      widen_weights(host.args.w, output, w.data());
      if (c.gated) widen_weights(host.args.w, outputs + output, up.data());
      for (int64_t i = 0; i < c.m; ++i) {
        const float* row = x.data() + i * c.cols;
        Sum sum = sum_of(c.dtype, w, row, host.bias[static_cast<size_t>(output)]);
        if (c.gated)
          sum = gated(sum, sum_of(c.dtype, up, row, host.bias[static_cast<size_t>(outputs + output)]));
        const auto at = static_cast<size_t>(i * outputs + output);
        if (c.adds) sum.value += residual[at];
        ASSERT_NEAR(
            actual[at], sum.value, sum.bound + 1.01 * rounding_of<Y>() * (std::abs(sum.value) + sum.bound))
            << "row " << i << ", output " << output;
      }
    }
  }

  void check_experts(const Case& c, const std::vector<int>& counts, bool has_bias) {
    SCOPED_TRACE(testing::Message() << name_of(c.dtype) << " " << counts.size() << " experts " << c.rows
                                    << "x" << c.cols << (c.gated ? " gated" : ""));
    std::vector<GemmCase> experts;
    std::vector<TensorMap> maps;
    std::vector<const float*> biases;
    std::vector<int32_t> offsets = {0};
    for (const int count : counts) {
      experts.push_back(make_gemm_case(c.dtype, 0, c.rows, c.cols, 40 + experts.size()));
      WeightMatrix w = experts.back().args.w;
      w.data = device_.upload_bytes(w.data, c.rows * row_bytes(c.dtype, c.cols));
      maps.push_back(packed_weight_map(w));
      biases.push_back(device_.upload(experts.back().bias));
      offsets.push_back(offsets.back() + count);
    }
    const int64_t rows = offsets.back(), outputs = c.gated ? c.rows / 2 : c.rows;
    const std::vector<float> x = rounded_to<Bf16>(normal_numbers(rows * c.cols, 34));
    auto* y = device_.poisoned<Bf16>(rows * outputs);
    const HopperGroupedArgs args{.dtype = c.dtype,
        .x = device_.upload(numbers_as<Bf16>(x)),
        .x_stride = c.cols,
        .rows = rows,
        .w = device_.upload(maps),
        .count = std::ssize(counts),
        .n = c.rows,
        .k = c.cols,
        .offsets = device_.upload(offsets),
        .biases = has_bias ? device_.upload(biases) : nullptr,
        .gated = c.gated,
        .y = y,
        .y_stride = outputs};
    ASSERT_TRUE(hopper_packed_experts_fit(args, device_.stream().device()));
    hopper_packed_experts(args, device_.stream());
    const std::vector<float> actual = device_.take(y, rows * outputs);
    const int64_t step = rows * outputs > 4000 ? 7 : 1;
    std::vector<float> w(static_cast<size_t>(c.cols)), up(w);
    for (size_t e = 0; e < counts.size(); ++e)
      for (int64_t output = static_cast<int64_t>(e) % step; output < outputs; output += step) {
        widen_weights(experts[e].args.w, output, w.data());
        if (c.gated) widen_weights(experts[e].args.w, outputs + output, up.data());
        const auto bias = [&](int64_t row) {
          return has_bias ? experts[e].bias[static_cast<size_t>(row)] : 0.f;
        };
        for (int64_t i = offsets[e]; i < offsets[e + 1]; ++i) {
          const float* row = x.data() + i * c.cols;
          Sum sum = sum_of(c.dtype, w, row, bias(output));
          if (c.gated) sum = gated(sum, sum_of(c.dtype, up, row, bias(outputs + output)));
          ASSERT_NEAR(actual[static_cast<size_t>(i * outputs + output)], sum.value,
              sum.bound + 1.01 * rounding_of<Bf16>() * (std::abs(sum.value) + sum.bound))
              << "expert " << e << ", row " << i << ", output " << output;
        }
      }
  }
};

TEST_F(HopperPacked, EveryTypeEqualsTheReferenceAtEveryBatch) {
  for (const DType dtype : kTypes) {
    for (const int64_t m : {1, 9, 16, 17, 32, 50, 64}) check<Bf16>({dtype, m, 264, 512});
    check<float>({dtype, 3, 40, 4096});
    check<float>({dtype, 100, 136, 1280});
    check<Bf16>({dtype, 12, 4096, 256});
    check<Bf16>({dtype, 33, 32, 14336});
  }
}

TEST_F(HopperPacked, RowsThatBeginAnywhereAreRead) {
  for (const int64_t cols : {64, 192, 1088, 2112})
    for (const DType dtype : {DType::kQ8_0, DType::kMXFP4}) check<Bf16>({dtype, 19, 208, cols});
  check<Bf16>({DType::kQ8_0, 17, 208, 32});
  check<Bf16>({DType::kMXFP4, 5, 2880, 2880});
  check<Bf16>({DType::kQ6_K, 19, 208, 256});
  check<Bf16>({DType::kQ6_K, 40, 1000, 2304});
}

TEST_F(HopperPacked, ProductsFinishAsAsked) {
  for (const DType dtype : kTypes)
    for (const int64_t m : {8, 24, 64})
      for (const bool adds : {false, true}) {
        check<Bf16>({dtype, m, 2000, 512, true, adds});
        check<Bf16>({dtype, m, 1000, 512, false, adds});
      }
}

TEST_F(HopperPacked, ExpertsTakeTheirRowsThroughTheirMatrices) {
  const std::vector<int> few = {0, 1, 17, 0, 3, 0}, many = {70, 0, 1, 129, 33, 0, 5};
  for (const DType dtype : kTypes)
    for (const bool gated : {false, true}) {
      check_experts({dtype, 0, 272, 256, gated}, few, true);
      check_experts({dtype, 0, 144, 768, gated}, many, false);
    }
  check_experts({DType::kQ4_0, 0, 256, 256, false}, std::vector<int>(100, 1), true);
  check_experts({DType::kMXFP4, 0, 5760, 2880, false}, few, true);
  check_experts({DType::kMXFP4, 0, 720, 192, true}, many, true);
  check_experts({DType::kQ6_K, 0, 720, 1280, true}, few, true);
}

}  // namespace
}  // namespace cheetah::gpu
