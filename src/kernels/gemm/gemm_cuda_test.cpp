// SPDX-License-Identifier: MIT
#include "kernels/gemm/gemm_cuda.h"

#include <gtest/gtest.h>

#include <string_view>

#include "kernels/cuda/device_case.h"
#include "kernels/gemm/gemm_case.h"

namespace cheetah::gpu {
namespace {

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kF8E4M3,
    DType::kF8E5M2, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0, DType::kQ4_K,
    DType::kQ5_K, DType::kQ6_K, DType::kMXFP4};

template <class Types>
class GemmCuda : public testing::Test {};
template <class First, class Second>
struct Pair {
  using X = First;
  using Y = Second;
};
using Pairs = testing::Types<Pair<float, float>, Pair<Bf16, Bf16>, Pair<Bf16, float>>;
TYPED_TEST_SUITE(GemmCuda, Pairs);

// Outputs may differ from the exact sum by gamma(k) on the magnitudes and by the rounding of y.
template <class Y>
void expect_product(const std::vector<float>& actual, const cheetah::GemmArgs& exact) {
  const std::vector<double> bounds = gemm_error_bounds(exact, Precision::kExact);
  for (int64_t i = 0; i < exact.m; ++i)
    for (int64_t row = 0; row < exact.w.rows; ++row) {
      const double expected = exact.y[i * exact.y_stride + row];
      const double got = actual[static_cast<size_t>(i * exact.y_stride + row)];
      const double bound =
          bounds[static_cast<size_t>(i * exact.w.rows + row)] + rounding_of<Y>() * std::abs(expected);
      ASSERT_LE(std::abs(got - expected), bound) << "row " << i << ", output " << row;
    }
}

template <class X, class Y>
void check_product(DType dtype, int64_t m, int64_t rows, int64_t cols, bool with_bias) {
  SCOPED_TRACE(testing::Message() << name_of(dtype) << " " << m << "x" << rows << "x" << cols);
  GemmCase host = make_gemm_case(dtype, m, rows, cols, 5);
  host.x = rounded_to<X>(host.x);
  host.args.x = host.x.data();
  if (!with_bias) host.args.bias = nullptr;
  gemm_reference(host.args);
  DeviceCase device;
  const cheetah::GemmArgs& exact = host.args;
  GemmArgs<X, Y> args{.x = device.upload(numbers_as<X>(host.x)),
      .x_stride = exact.x_stride,
      .m = m,
      .w = exact.w,
      .bias = with_bias ? device.upload(host.bias) : nullptr,
      .y = nullptr,
      .y_stride = exact.y_stride};
  args.w.data = device.upload_bytes(exact.w.data, rows * row_bytes(dtype, cols));
  for (const auto& variant : gemm_variants<X, Y>()) {
    if (!variant.fits(args, device.stream().device())) continue;
    SCOPED_TRACE(variant.name);
    args.y = device.template poisoned<Y>(m * exact.y_stride);
    variant.run(args, device.stream());
    expect_product<Y>(device.take(args.y, m * exact.y_stride), exact);
  }
}

TYPED_TEST(GemmCuda, EveryVariantEqualsTheReferenceForEveryWeightType) {
  for (const DType dtype : kTypes) {
    check_product<typename TypeParam::X, typename TypeParam::Y>(dtype, 3, 70, 512, true);
    check_product<typename TypeParam::X, typename TypeParam::Y>(dtype, 65, 33, 256, false);
  }
}

TYPED_TEST(GemmCuda, EveryVariantEqualsTheReferenceOnRaggedAndLargeShapes) {
  using X = typename TypeParam::X;
  using Y = typename TypeParam::Y;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    check_product<X, Y>(dtype, 1, 1, 1, true);
    check_product<X, Y>(dtype, 1, 257, 33, false);
    check_product<X, Y>(dtype, 130, 100, 7, true);
    check_product<X, Y>(dtype, 300, 520, 1024, true);
  }
}

// silu(gate) * up, a bias and a residual in place: as computed step by step from the reference's product.
template <class X, class Y>
void check_finish(DType dtype, int64_t m, int64_t rows, int64_t cols, bool gated, bool adds) {
  SCOPED_TRACE(testing::Message() << name_of(dtype) << " " << m << "x" << rows << "x" << cols
                                  << (gated ? " gated" : "") << (adds ? " added" : ""));
  GemmCase host = make_gemm_case(dtype, m, rows, cols, 6);
  host.x = rounded_to<X>(normal_numbers(m * cols, 8, 0.125f));
  host.args.x = host.x.data();
  host.args.x_stride = cols;  // dense rows, which the copy engine can read
  gemm_reference(host.args);
  const cheetah::GemmArgs& exact = host.args;
  const int64_t outputs = gated ? rows / 2 : rows, stride = outputs + 8;
  const std::vector<float> residual = rounded_to<Y>(normal_numbers(m * stride, 7));
  DeviceCase device;
  GemmArgs<X, Y> args{.x = device.upload(numbers_as<X>(host.x)),
      .x_stride = exact.x_stride,
      .m = m,
      .w = exact.w,
      .bias = device.upload(host.bias),
      .gated = gated,
      .residual_stride = stride,
      .y_stride = stride};
  args.w.data = device.upload_bytes(exact.w.data, rows * row_bytes(dtype, cols));
  for (const auto& variant : gemm_variants<X, Y>()) {
    args.y = device.upload(numbers_as<Y>(residual));
    args.residual = adds ? args.y : nullptr;
    // One rounds x to eight bits, one W to BF16: held to their own bounds in tests of their own.
    const std::string_view name = variant.name;
    if (name == "hopper_blocks" || name == "hopper_packed") continue;
    if (!variant.fits(args, device.stream().device())) continue;
    SCOPED_TRACE(variant.name);
    variant.run(args, device.stream());
    const std::vector<Y> actual = device.download(args.y, m * stride);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t col = 0; col < stride; ++col) {
        const auto at = static_cast<size_t>(i * stride + col);
        const float* sums = exact.y + i * exact.y_stride;
        double want = residual[at];
        if (col < outputs) {
          const double gate = sums[col];
          want = (gated ? gate / (1 + std::exp(-gate)) * sums[outputs + col] : gate) + (adds ? want : 0.0);
        }
        ASSERT_NEAR(
            to_float(actual[at]), want, (std::is_same_v<X, float> ? 1e-4 : 1e-2) * (1 + std::abs(want)))
            << "row " << i << ", output " << col;
      }
  }
}

// F16 rows of x keep every digit of BF16, whatever their size: variants with room for them meet the exact bound.
template <class Y>
void check_f16(int64_t m, int64_t rows, int64_t cols) {
  SCOPED_TRACE(testing::Message() << m << "x" << rows << "x" << cols);
  GemmCase host = make_gemm_case(DType::kF16, m, rows, cols, 35);
  host.x = rounded_to<Bf16>(normal_numbers(m * cols, 36));
  constexpr float kSizes[] = {1.f, 3e7f, 2e-9f, 0.f};  // beyond F16's own range
  for (int64_t i = 0; i < m * cols; ++i) host.x[static_cast<size_t>(i)] *= kSizes[i / cols % 4];
  host.x = rounded_to<Bf16>(host.x);
  host.args.x = host.x.data();
  host.args.x_stride = cols;
  gemm_reference(host.args);
  DeviceCase device;
  const int64_t room = narrowed_x_bytes(m, cols), stride = rows + 8;
  const std::vector<double> bounds = gemm_error_bounds(host.args, Precision::kExact);
  GemmArgs<Bf16, Y> args{.x = device.upload(numbers_as<Bf16>(host.x)),
      .x_stride = cols,
      .m = m,
      .w = host.args.w,
      .bias = device.upload(host.bias),
      .y_stride = stride,
      .narrowed = device.upload(std::vector<std::byte>(static_cast<size_t>(room))),
      .narrowed_bytes = room};
  args.w.data = device.upload_bytes(host.args.w.data, rows * cols * 2);
  for (const auto& variant : gemm_variants<Bf16, Y>()) {
    if (!variant.fits(args, device.stream().device())) continue;
    SCOPED_TRACE(variant.name);
    args.y = device.template poisoned<Y>(m * stride);
    variant.run(args, device.stream());
    const std::vector<float> actual = device.take(args.y, m * stride);
    for (int64_t i = 0; i < m * rows; ++i) {
      const double want = host.args.y[i / rows * host.args.y_stride + i % rows];
      // The tensor cores add up with some bits less than float; the portable kernels do not.
      const double bound = 32 * bounds[static_cast<size_t>(i)] + rounding_of<Y>() * std::abs(want);
      ASSERT_NEAR(actual[static_cast<size_t>(i / rows * stride + i % rows)], want, bound)
          << "row " << i / rows << ", output " << i % rows;
    }
  }
}

TEST(GemmCudaTypes, F16WeightsLoseNoDigits) {
  for (const int64_t m : {1, 5, 20, 40, 150, 260}) {
    check_f16<Bf16>(m, 264, 512);
    check_f16<float>(m, 264, 512);
  }
  check_f16<Bf16>(700, 512, 1024);
}

TYPED_TEST(GemmCuda, EveryVariantFinishesAsTheStepsOneByOne) {
  using X = typename TypeParam::X;
  using Y = typename TypeParam::Y;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0})
    for (const bool gated : {false, true})
      for (const bool adds : {false, true}) {
        check_finish<X, Y>(dtype, 3, 96, 64, gated, adds);
        check_finish<X, Y>(dtype, 70, 208, 128, gated, adds);
        check_finish<X, Y>(dtype, 130, 70, 96, gated, adds);
      }
}

// With room to widen W into, its numbers are rounded to BF16 first: so are the reference's.
template <class Y>
void check_widened(DType dtype, int64_t m, int64_t rows, int64_t cols, int64_t room) {
  SCOPED_TRACE(
      testing::Message() << name_of(dtype) << " " << m << "x" << rows << "x" << cols << " in " << room);
  GemmCase host = make_gemm_case(dtype, m, rows, cols, 9);
  host.x = rounded_to<Bf16>(normal_numbers(m * cols, 10, 0.25f));
  std::vector<float> widened(static_cast<size_t>(rows * cols));
  for (int64_t row = 0; row < rows; ++row)
    dequantize_row(dtype, host.args.w.data + row * row_bytes(dtype, cols), widened.data() + row * cols, cols);
  widened = rounded_to<Bf16>(widened);
  cheetah::GemmArgs exact = host.args;
  exact.x = host.x.data();
  exact.x_stride = cols;
  exact.w = {.dtype = DType::kF32,
      .rows = rows,
      .cols = cols,
      .data = reinterpret_cast<const std::byte*>(widened.data())};
  exact.y_stride = rows;
  std::vector<float> y(static_cast<size_t>(m * rows), std::nanf(""));
  exact.y = y.data();
  gemm_reference(exact);
  DeviceCase device;
  GemmArgs<Bf16, Y> args{.x = device.upload(numbers_as<Bf16>(host.x)),
      .x_stride = cols,
      .m = m,
      .w = host.args.w,
      .bias = device.upload(host.bias),
      .y = device.poisoned<Y>(m * rows),
      .y_stride = rows,
      .widened = device.poisoned<Bf16>(room),
      .widened_numbers = room};
  args.w.data = device.upload_bytes(host.args.w.data, rows * row_bytes(dtype, cols));
  for (const auto& variant : gemm_variants<Bf16, Y>()) {
    if (std::string_view(variant.name) != "hopper_widened") continue;
    if (!variant.fits(args, device.stream().device())) GTEST_SKIP() << "needs a Hopper GPU";
    variant.run(args, device.stream());
    expect_product<Y>(device.take(args.y, m * rows), exact);
  }
}

TEST(GemmCudaWidened, EqualsTheReferenceOnRoundedWeights) {
  for (const DType dtype :
      {DType::kF8E4M3, DType::kF8E5M2, DType::kQ4_0, DType::kQ8_0, DType::kQ4_K, DType::kQ6_K, DType::kMXFP4})
    for (const int64_t m : {1, 40, 150}) {
      check_widened<Bf16>(dtype, m, 264, 512, 264 * 512);
      check_widened<float>(dtype, m, 264, 512, 130 * 512);  // in three parts
    }
}

// FP8 with scales. Portable kernels are exact; "hopper_widened" rounds a scaled number to 8 bits,
// "hopper_fp8" numbers of x to 4 and adds them up in 13 or so.
template <class X, class Y>
void check_scaled(int64_t m, int64_t rows, int64_t cols, int64_t high, int64_t wide) {
  SCOPED_TRACE(testing::Message() << m << "x" << rows << "x" << cols << " scales of " << high << "x" << wide);
  GemmCase host = make_gemm_case(DType::kF8E4M3, m, rows, cols, 31);
  host.x = rounded_to<X>(normal_numbers(m * cols, 32));
  host.args.x = host.x.data();
  host.args.x_stride = cols;
  const std::vector<float> scales = add_scales(host.args.w, high, wide, 33);
  gemm_reference(host.args);
  const std::vector<double> exact = gemm_error_bounds(host.args, Precision::kExact);
  DeviceCase device;
  const int64_t room = narrowed_x_bytes(m, cols), stride = rows + 8;
  GemmArgs<X, Y> args{.x = device.upload(numbers_as<X>(host.x)),
      .x_stride = cols,
      .m = m,
      .w = host.args.w,
      .bias = device.upload(host.bias),
      .y_stride = stride,
      .widened = device.template poisoned<Bf16>(rows * cols),
      .widened_numbers = rows * cols,
      .narrowed = device.upload(std::vector<std::byte>(static_cast<size_t>(room))),
      .narrowed_bytes = room};
  args.w.data = device.upload_bytes(host.args.w.data, rows * cols);
  args.w.scales.data = device.upload(scales);
  for (const auto& variant : gemm_variants<X, Y>()) {
    if (!variant.fits(args, device.stream().device())) continue;
    SCOPED_TRACE(variant.name);
    const std::string_view name = variant.name;
    const bool is_narrow = name.starts_with("hopper_fp8") || name == "cublaslt_fp8";
    const double unit = is_narrow ? 0x1p-4 + 0x1p-11 : name == "portable" ? 0 : 0x1p-8;
    args.y = device.template poisoned<Y>(m * stride);
    variant.run(args, device.stream());
    const std::vector<float> actual = device.take(args.y, m * stride);
    for (int64_t i = 0; i < m * rows; ++i) {
      const int64_t at = i / rows * host.args.y_stride + i % rows;
      const double want = host.args.y[at];
      // exact holds (cols + 16) 2^-24 of the magnitudes; numbers near zero lose a little more.
      const double magnitudes = exact[static_cast<size_t>(i)] / static_cast<double>(cols + 16) * 0x1p24;
      ASSERT_NEAR(actual[static_cast<size_t>(i / rows * stride + i % rows)], want,
          exact[static_cast<size_t>(i)] + 1.1 * unit * magnitudes + rounding_of<Y>() * std::abs(want));
    }
  }
}

TYPED_TEST(GemmCuda, EveryVariantAppliesScales) {
  using X = typename TypeParam::X;
  using Y = typename TypeParam::Y;
  for (const int64_t m : {1, 20, 150}) {
    check_scaled<X, Y>(m, 264, 512, 1, 512);
    check_scaled<X, Y>(m, 264, 512, 128, 128);
    check_scaled<X, Y>(m, 72, 96, 16, 32);
  }
}

TYPED_TEST(GemmCuda, AnEmptyProductWritesNothing) {
  DeviceCase device;
  gemm<typename TypeParam::X, typename TypeParam::Y>({}, device.stream());
  grouped_gemm<typename TypeParam::X, typename TypeParam::Y>({}, device.stream());
  device.stream().wait();
}

// A matrix of no inputs gives the bias alone.
TEST(GemmCudaEdges, NoInputsGiveTheBias) {
  DeviceCase device;
  const std::vector<float> bias = {1, 2, 3};
  float* y = device.poisoned<float>(6);
  gemm<float, float>(
      {.x = device.upload(std::vector<float>{0.f}),
          .x_stride = 0,
          .m = 2,
          .w = {.dtype = DType::kF32, .rows = 3, .cols = 0, .data = device.upload_bytes(nullptr, 0)},
          .bias = device.upload(bias),
          .y = y,
          .y_stride = 3},
      device.stream());
  EXPECT_EQ(device.take(y, 6), (std::vector<float>{1, 2, 3, 1, 2, 3}));
}

struct Experts {
  std::vector<GemmCase> cases;  // each expert's rows of x and y
  std::vector<const std::byte*> data;
  std::vector<const float*> biases;
};

Experts make_experts(
    DeviceCase& device, DType dtype, const std::vector<int64_t>& counts, int64_t rows, int64_t cols) {
  Experts experts;
  for (size_t e = 0; e < counts.size(); ++e) {
    experts.cases.push_back(make_gemm_case(dtype, counts[e], rows, cols, 100 + e));
    experts.data.push_back(device.upload_bytes(experts.cases[e].args.w.data, rows * row_bytes(dtype, cols)));
    experts.biases.push_back(device.upload(experts.cases[e].bias));
  }
  return experts;
}

TYPED_TEST(GemmCuda, EachExpertTakesItsOwnRows) {
  using X = typename TypeParam::X;
  using Y = typename TypeParam::Y;
  const std::vector<int64_t> counts = {0, 3, 70, 0, 1};
  for (const DType dtype : {DType::kBF16, DType::kQ4_K}) {
    DeviceCase device;
    Experts experts = make_experts(device, dtype, counts, 90, 256);
    std::vector<float> x;
    std::vector<int32_t> offsets = {0};
    for (GemmCase& expert : experts.cases) {
      expert.x = rounded_to<X>(expert.x);
      expert.args.x = expert.x.data();
      x.insert(x.end(), expert.x.begin(), expert.x.end());
      offsets.push_back(offsets.back() + static_cast<int32_t>(expert.args.m));
      gemm_reference(expert.args);
    }
    const cheetah::GemmArgs& any = experts.cases[0].args;
    Y* y = device.template poisoned<Y>(offsets.back() * any.y_stride);
    grouped_gemm<X, Y>({.x = device.upload(numbers_as<X>(x)),
                           .x_stride = any.x_stride,
                           .rows = offsets.back(),
                           .w = {.dtype = dtype,
                               .count = std::ssize(counts),
                               .rows = any.w.rows,
                               .cols = any.w.cols,
                               .data = device.upload(experts.data),
                               .biases = device.upload(experts.biases)},
                           .offsets = device.upload(offsets),
                           .y = y,
                           .y_stride = any.y_stride},
        device.stream());
    const std::vector<float> all = device.take(y, offsets.back() * any.y_stride);
    for (size_t e = 0; e < counts.size(); ++e) {
      const auto begin = all.begin() + offsets[e] * any.y_stride;
      expect_product<Y>({begin, begin + counts[e] * any.y_stride}, experts.cases[e].args);
    }
  }
}

TYPED_TEST(GemmCuda, EveryHeadTakesItsPartOfEveryRow) {
  using X = typename TypeParam::X;
  using Y = typename TypeParam::Y;
  constexpr int64_t kHeads = 3, kRows = 5, kOut = 20, kIn = 32;
  DeviceCase device;
  Experts heads = make_experts(device, DType::kF32, std::vector<int64_t>(kHeads, kRows), kOut, kIn);
  const std::vector<float> x = rounded_to<X>(normal_numbers(kRows * kHeads * kIn, 8));
  Y* y = device.template poisoned<Y>(kRows * kHeads * kOut);
  grouped_gemm<X, Y>({.x = device.upload(numbers_as<X>(x)),
                         .x_stride = kHeads * kIn,
                         .x_step = kIn,
                         .rows = kRows,
                         .w = {.dtype = DType::kF32,
                             .count = kHeads,
                             .rows = kOut,
                             .cols = kIn,
                             .data = device.upload(heads.data)},
                         .y = y,
                         .y_stride = kHeads * kOut,
                         .y_step = kOut},
      device.stream());
  const std::vector<float> all = device.take(y, kRows * kHeads * kOut);
  std::vector<float> expected(all.size(), std::nanf(""));
  for (int64_t h = 0; h < kHeads; ++h)
    gemm_reference({.x = x.data() + h * kIn,
        .x_stride = kHeads * kIn,
        .m = kRows,
        .w = heads.cases[static_cast<size_t>(h)].args.w,
        .y = expected.data() + h * kOut,
        .y_stride = kHeads * kOut});
  expect_close(all.data(), expected.data(), std::ssize(all), 1e-4, rounding_of<Y>());
}

}  // namespace
}  // namespace cheetah::gpu
