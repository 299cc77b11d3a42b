// SPDX-License-Identifier: MIT
// Products of experts against plain sums in double, with experts that have no rows, one, and many.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/cuda/device_case.h"
#include "kernels/gemm/cuda/hopper.h"
#include "kernels/quant/quant.h"

namespace cheetah::gpu {
namespace {

struct Case {
  std::vector<int> counts;
  int64_t n, k;
  DType dtype = DType::kBF16;
  bool blocks = false, gated = false, bias = false;
};
int64_t blocks_of(int64_t count) { return (count + 127) / 128; }

// One expert's matrix as stored and as numbers, its scales applied.
struct Expert {
  std::vector<std::byte> stored;
  std::vector<float> w, scales, bias;
};

Expert make_expert(const Case& c, uint64_t seed) {
  Philox random(seed);
  Expert expert;
  const auto count = static_cast<size_t>(c.n * c.k);
  std::vector<float> numbers = normal_numbers(c.n * c.k, seed, 0.1f);
  expert.stored.resize(count * static_cast<size_t>(row_bytes(c.dtype, 1)));
  expert.w.resize(count);
  quantize_row(c.dtype, numbers.data(), expert.stored.data(), c.n * c.k);
  dequantize_row(c.dtype, expert.stored.data(), expert.w.data(), c.n * c.k);
  expert.bias = normal_numbers(c.n, seed + 1);
  if (c.dtype != DType::kF8E4M3) return expert;
  expert.scales.resize(static_cast<size_t>(c.blocks ? blocks_of(c.n) * blocks_of(c.k) : c.n));
  for (float& scale : expert.scales) scale = 0.5f + static_cast<float>(random.next_uniform());
  for (int64_t i = 0; i < c.n * c.k; ++i) {
    const int64_t row = i / c.k, col = i % c.k;
    expert.w[static_cast<size_t>(i)] *=
        expert.scales[static_cast<size_t>(c.blocks ? row / 128 * blocks_of(c.k) + col / 128 : row)];
  }
  return expert;
}

// What an expert makes of a row of x, and how far it may be off.
struct Sum {
  double value, bound;
};
Sum sum_of(const Case& c, const Expert& expert, const float* x, int64_t output) {
  Sum sum{c.bias ? expert.bias[static_cast<size_t>(output)] : 0.0, 1e-5};
  for (int64_t i = 0; i < c.k; ++i) {
    const double term = static_cast<double>(x[i]) * expert.w[static_cast<size_t>(output * c.k + i)];
    sum.value += term;
    sum.bound += std::abs(term) * (c.dtype == DType::kF8E4M3 ? 0x1p-11 : 0x1p-18);
  }
  return sum;
}

class HopperGrouped : public testing::Test {
 protected:
  void SetUp() override {
    if (!device_.stream().device().is_hopper()) GTEST_SKIP() << "needs a Hopper GPU";
  }
  DeviceCase device_;

  HopperGroupedArgs upload(const Case& c, const std::vector<Expert>& experts) {
    std::vector<TensorMap> maps;
    std::vector<const float*> scales, biases;
    for (const Expert& expert : experts) {
      maps.push_back(grouped_weight_map(device_.upload(expert.stored), c.dtype, c.n, c.k));
      scales.push_back(device_.upload(expert.scales));
      biases.push_back(device_.upload(expert.bias));
    }
    std::vector<int32_t> offsets = {0};
    for (const int count : c.counts) offsets.push_back(offsets.back() + count);
    return {.dtype = c.dtype,
        .x_stride = c.k,
        .rows = offsets.back(),
        .w = device_.upload(maps),
        .count = std::ssize(experts),
        .n = c.n,
        .k = c.k,
        .offsets = device_.upload(offsets),
        .w_scales = c.dtype == DType::kF8E4M3 ? device_.upload(scales) : nullptr,
        .block_scales = c.blocks,
        .biases = c.bias ? device_.upload(biases) : nullptr,
        .gated = c.gated};
  }

  void check(const Case& c, void (*run)(const HopperGroupedArgs&, Stream&)) {
    SCOPED_TRACE(testing::Message() << c.counts.size() << " experts " << c.n << " x " << c.k << " "
                                    << name_of(c.dtype) << (c.blocks ? " blocks" : "")
                                    << (c.gated ? " gated" : "") << (c.bias ? " bias" : ""));
    std::vector<Expert> experts;
    for (size_t e = 0; e < c.counts.size(); ++e) experts.push_back(make_expert(c, 10 + 2 * e));
    HopperGroupedArgs args = upload(c, experts);
    std::vector<float> x = normal_numbers(args.rows * c.k, 5);
    std::vector<std::byte> stored(x.size() * static_cast<size_t>(row_bytes(c.dtype, 1)));
    quantize_row(c.dtype, x.data(), stored.data(), std::ssize(x));
    dequantize_row(c.dtype, stored.data(), x.data(), std::ssize(x));
    args.x = device_.upload(stored);
    args.x_scales = device_.upload(std::vector<float>(static_cast<size_t>(args.rows), 1.f));
    auto* y = device_.poisoned<Bf16>(args.rows * args.outputs());
    args.y = y;
    args.y_stride = args.outputs();
    ASSERT_TRUE(hopper_grouped_fits(args, device_.stream().device()));
    run(args, device_.stream());
    const std::vector<float> actual = device_.take(y, args.rows * args.outputs());
    expect_rows(c, experts, x, actual);
  }

  static void expect_rows(const Case& c, const std::vector<Expert>& experts, const std::vector<float>& x,
      const std::vector<float>& actual) {
    const int64_t outputs = c.gated ? c.n / 2 : c.n, step = std::ssize(actual) > 4000 ? 97 : 1;
    int64_t row = 0;
    for (size_t e = 0; e < experts.size(); ++e)
      for (int i = 0; i < c.counts[e]; ++i, ++row)
        for (int64_t output = row % step; output < outputs; output += step) {
          const Sum sum = sum_of(c, experts[e], x.data() + row * c.k, output);
          double want = sum.value, bound = sum.bound;
          if (c.gated) {
            const Sum up = sum_of(c, experts[e], x.data() + row * c.k, outputs + output);
            bound = 1.2 * sum.bound * std::abs(up.value) + up.bound * (std::abs(sum.value) + 1);
            want = want / (1 + std::exp(-want)) * up.value;
          }
          ASSERT_NEAR(actual[static_cast<size_t>(row * outputs + output)], want,
              bound + 1.01 * rounding_of<Bf16>() * std::abs(want))
              << "expert " << e << ", row " << row << ", output " << output;
        }
  }

  void check_all(void (*run)(const HopperGroupedArgs&, Stream&)) {
    const std::vector<int> few = {0, 1, 17, 0, 3, 0}, many = {300, 0, 1, 129, 64, 0, 5};
    for (const bool gated : {false, true}) {
      check({.counts = few, .n = 512, .k = 256, .gated = gated, .bias = true}, run);
      check({.counts = many, .n = 272, .k = 200, .gated = gated}, run);
      check({.counts = std::vector<int>(100, 1), .n = 256, .k = 512, .gated = gated}, run);
      check({.counts = few, .n = 512, .k = 256, .dtype = DType::kF16, .gated = gated, .bias = true}, run);
      check({.counts = many, .n = 272, .k = 200, .dtype = DType::kF16, .gated = gated}, run);
      for (const bool blocks : {false, true}) {
        check({.counts = few, .n = 512, .k = 400, .dtype = DType::kF8E4M3, .blocks = blocks, .gated = gated},
            run);
        check({.counts = many,
                  .n = 768,
                  .k = 256,
                  .dtype = DType::kF8E4M3,
                  .blocks = blocks,
                  .gated = gated,
                  .bias = true},
            run);
      }
    }
  }
};

TEST_F(HopperGrouped, TilesTakeEachExpertsRowsThroughItsMatrix) { check_all(hopper_grouped_tiles); }
TEST_F(HopperGrouped, SkinnyProductsTakeEachExpertsRowsThroughItsMatrix) { check_all(hopper_grouped_skinny); }

}  // namespace
}  // namespace cheetah::gpu
