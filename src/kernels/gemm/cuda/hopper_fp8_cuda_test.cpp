// SPDX-License-Identifier: MIT
// FP8 products against plain sums in double, with scales of rows and of blocks, and the rows made for them.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/cuda/device_case.h"
#include "kernels/gemm/cuda/hopper.h"
#include "kernels/quant/quant.h"

namespace cheetah::gpu {
namespace {

struct Case {
  int64_t m, n, k;
  bool blocks = false, gated = false, extras = false, f32_output = false;
};

std::vector<std::byte> random_fp8(int64_t count, uint64_t seed) {
  Philox random(seed);
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next_u32() & 0xBF);  // below 2
  return bytes;
}
std::vector<float> widened(const std::vector<std::byte>& bytes) {
  std::vector<float> numbers(bytes.size());
  dequantize_row(DType::kF8E4M3, bytes.data(), numbers.data(), std::ssize(bytes));
  return numbers;
}
std::vector<float> random_scales(int64_t count, uint64_t seed) {
  Philox random(seed);
  std::vector<float> scales(static_cast<size_t>(count));
  for (float& scale : scales) scale = 0.02f + 0.05f * static_cast<float>(random.next_uniform());
  return scales;
}
int64_t blocks_of(int64_t count) { return (count + 127) / 128; }

struct Operands {
  std::vector<std::byte> x, w;
  std::vector<float> x_scales, w_scales, bias, residual;

  explicit Operands(const Case& c)
      : x(random_fp8(c.m * c.k, 1)),
        w(random_fp8(c.n * c.k, 2)),
        x_scales(random_scales(c.m, 3)),
        w_scales(random_scales(c.blocks ? blocks_of(c.n) * blocks_of(c.k) : c.n, 4)),
        bias(normal_numbers(c.n, 5)),
        residual(rounded_to<Bf16>(normal_numbers(c.m * (c.gated ? c.n / 2 : c.n), 6))) {}
};

// A sum and how far the tensor cores' own adding may leave it: they keep 13 bits or so below the largest
// term.
struct Sum {
  double value = 0, bound = 0;
};
class Exact {
 public:
  Exact(const Case& c, const Operands& o) : c_(c), o_(o), x_(widened(o.x)), w_(widened(o.w)) {}
  Sum at(int64_t row, int64_t output) const {
    Sum sum;
    for (int64_t i = 0; i < c_.k; ++i) {
      const double scale =
          o_.w_scales[static_cast<size_t>(c_.blocks ? output / 128 * blocks_of(c_.k) + i / 128 : output)];
      const double term = scale * o_.x_scales[static_cast<size_t>(row)] *
                          x_[static_cast<size_t>(row * c_.k + i)] *
                          w_[static_cast<size_t>(output * c_.k + i)];
      sum.value += term;
      sum.bound += std::abs(term) * 0x1p-11;
    }
    if (c_.extras) sum.value += o_.bias[static_cast<size_t>(output)];
    return sum;
  }

 private:
  const Case& c_;
  const Operands& o_;
  std::vector<float> x_, w_;
};

template <class Y>
void expect_product(const Case& c, const Operands& o, const std::vector<float>& actual) {
  const Exact exact(c, o);
  const int64_t outputs = c.gated ? c.n / 2 : c.n, total = c.m * outputs, step = total > 4000 ? 997 : 1;
  for (int64_t at = 0; at < total; at += step) {
    const int64_t row = at / outputs, output = at % outputs;
    const Sum sum = exact.at(row, output);
    double want = sum.value, bound = sum.bound;
    if (c.gated) {
      const Sum up = exact.at(row, outputs + output);
      bound = 1.2 * sum.bound * std::abs(up.value) + up.bound * (std::abs(sum.value) + 1);
      want = want / (1 + std::exp(-want)) * up.value;
    }
    if (c.extras) want += o.residual[static_cast<size_t>(at)];
    ASSERT_NEAR(
        actual[static_cast<size_t>(at)], want, bound + 1e-5 + rounding_of<Y>() * std::abs(want) * 1.01)
        << "row " << row << ", output " << output;
  }
}

template <class Y, class Run>
void check(const Case& c, const Run& run) {
  SCOPED_TRACE(testing::Message() << c.m << " x " << c.n << " x " << c.k << (c.blocks ? " blocks" : "")
                                  << (c.gated ? " gated" : "")
                                  << (c.extras ? " with bias and residual" : ""));
  DeviceCase device;
  if (!device.stream().device().is_hopper()) GTEST_SKIP() << "needs a Hopper GPU";
  const Operands o(c);
  const int64_t outputs = c.gated ? c.n / 2 : c.n;
  Y* y = device.poisoned<Y>(c.m * outputs);
  const HopperGemmArgs args{.dtype = DType::kF8E4M3,
      .x = device.upload(o.x),
      .x_stride = c.k,
      .m = c.m,
      .w = device.upload(o.w),
      .n = c.n,
      .k = c.k,
      .x_scales = device.upload(o.x_scales),
      .w_scales = device.upload(o.w_scales),
      .block_scales = c.blocks,
      .bias = c.extras ? device.upload(o.bias) : nullptr,
      .residual = c.extras ? device.upload(numbers_as<Bf16>(o.residual)) : nullptr,
      .residual_stride = outputs,
      .gated = c.gated,
      .y_dtype = std::is_same_v<Y, float> ? DType::kF32 : DType::kBF16,
      .y = y,
      .y_stride = outputs};
  ASSERT_TRUE(hopper_gemm_fits(args, device.stream().device()));
  run(args, device.stream());
  expect_product<Y>(c, o, device.take(y, c.m * outputs));
}

TEST(HopperFp8, TilesAreRightWhetherFullOrNot) {
  for (const bool blocks : {false, true}) {
    for (const int64_t m : {1, 65, 129, 300, 1000})
      for (const int64_t n : {64, 264, 1024})
        check<Bf16>({.m = m, .n = n, .k = 384, .blocks = blocks}, hopper_tile_gemm);
    for (const int64_t k : {16, 128, 144, 4096, 14336})
      check<Bf16>({.m = 200, .n = 512, .k = k, .blocks = blocks}, hopper_tile_gemm);
  }
}

TEST(HopperFp8, TilesFinishAsAsked) {
  for (const bool blocks : {false, true})
    for (const bool gated : {false, true})
      for (const int64_t n : {256, 1024, 5120})
        check<Bf16>(
            {.m = 333, .n = n, .k = 512, .blocks = blocks, .gated = gated, .extras = true}, hopper_tile_gemm);
}

TEST(HopperFp8, TilesAreRightHoweverTheyShareTheCard) {
  for (const TilePlan& plan : {TilePlan{}, {.beside = true}, {.splits = 2}, {.splits = 2, .narrow = true}})
    for (const bool gated : {false, true})
      check<Bf16>({.m = 333, .n = 1040, .k = 1040, .gated = gated, .extras = true},
          [&](const HopperGemmArgs& args, Stream& stream) { hopper_planned_tiles(args, plan, stream); });
}

TEST(HopperFp8, WideProductsAreRightAtEveryBatch) {
  for (const int64_t m : {65, 150})
    for (const int64_t n : {136, 6144}) check<Bf16>({.m = m, .n = n, .k = 528}, hopper_wide_gemm);
  check<float>({.m = 150, .n = 1024, .k = 512, .extras = true}, hopper_wide_gemm);
}

TEST(HopperFp8, SkinnyProductsAreRightAtEveryBatchAndSplit) {
  for (const bool blocks : {false, true}) {
    for (const int64_t m : {1, 16, 17, 64})
      for (const int64_t n : {64, 136, 1024, 6144, 28672})
        check<Bf16>({.m = m, .n = n, .k = 256, .blocks = blocks}, hopper_skinny_gemm);
    for (const int64_t k : {16, 128, 144, 1040, 4096, 14336})
      check<float>({.m = 5, .n = 512, .k = k, .blocks = blocks}, hopper_skinny_gemm);
  }
}

TEST(HopperFp8, SkinnyProductsFinishAsAsked) {
  for (const bool blocks : {false, true})
    for (const bool gated : {false, true})
      for (const int64_t n : {512, 20480})
        check<Bf16>(
            {.m = 7, .n = n, .k = 512, .blocks = blocks, .gated = gated, .extras = true}, hopper_skinny_gemm);
}

TEST(HopperFp8, RowsAreNarrowedToWithinHalfAStep) {
  DeviceCase device;
  if (!device.stream().device().is_hopper()) GTEST_SKIP() << "needs a Hopper GPU";
  for (const int64_t k : {16, 4096, 14336}) {
    constexpr int64_t kRows = 5;
    const int64_t stride = k + 8;
    std::vector<float> x = rounded_to<Bf16>(normal_numbers(kRows * stride, 7));
    for (int64_t i = 0; i < k; ++i) x[static_cast<size_t>(3 * stride + i)] = 0.f;
    auto* y = device.upload(std::vector<std::byte>(static_cast<size_t>(kRows * k), std::byte{0x7F}));
    float* scales = device.poisoned<float>(kRows);
    narrow_rows({.x = device.upload(numbers_as<Bf16>(x)),
                    .x_stride = stride,
                    .m = kRows,
                    .k = k,
                    .y = y,
                    .scales = scales},
        device.stream());
    const std::vector<float> narrowed = widened(device.download(y, kRows * k)),
                             scale = device.take(scales, kRows);
    for (int64_t row = 0; row < kRows; ++row) {
      float largest = 0;
      for (int64_t i = 0; i < k; ++i)
        largest = std::max(largest, std::abs(x[static_cast<size_t>(row * stride + i)]));
      for (int64_t i = 0; i < k; ++i) {
        const double want = x[static_cast<size_t>(row * stride + i)];
        // Three bits after the point, and steps of 2^-9 of the scale near zero.
        ASSERT_NEAR(
            static_cast<double>(narrowed[static_cast<size_t>(row * k + i)]) * scale[static_cast<size_t>(row)],
            want, std::abs(want) * 0x1.02p-4 + largest / 448 * 0x1.02p-10)
            << "row " << row << ", number " << i;
      }
    }
  }
}

}  // namespace
}  // namespace cheetah::gpu
