// SPDX-License-Identifier: MIT
#include "kernels/norm/norm.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/random.h"
#include "kernels/every_target.h"
#include "kernels/guarded.h"

namespace cheetah {
namespace {

std::vector<float> normals(int64_t count, uint64_t seed, float mean = 0.f) {
  Philox random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = mean + random.next_normal();
  return values;
}

struct Shape2 {
  int64_t rows, cols, stride;
};
const std::vector<Shape2> kShapes = {{0, 8, 8}, {1, 1, 1}, {1, 3, 3}, {2, 15, 15}, {3, 16, 20}, {5, 17, 17},
    {7, 100, 131}, {33, 576, 576}, {300, 64, 64}, {2, 12289, 12289}};

struct NormCase {
  std::vector<float> x, weight, bias;
  NormArgs args;
};

NormCase make_case(const Shape2& shape, float mean) {
  NormCase c{normals(shape.rows * shape.stride + 1, 1, mean), normals(shape.cols, 2, 1.f),
      normals(shape.cols, 3), {}};
  c.args = {.x = c.x.data(),
      .x_stride = shape.stride,
      .y_stride = shape.stride + 3,
      .rows = shape.rows,
      .cols = shape.cols,
      .eps = 1e-5f};
  return c;
}

using Norm = void (*)(const NormArgs&, const CpuContext&);
using Reference = void (*)(const NormArgs&);

void expect_match(NormArgs args, Norm norm, Reference reference, const CpuContext& context) {
  Guarded actual(args.rows * args.y_stride), expected(args.rows * args.y_stride);
  args.y = expected.data();
  reference(args);
  args.y = actual.data();
  norm(args, context);
  actual.expect_guards_whole();
  for (int64_t row = 0; row < args.rows; ++row) {
    const int64_t at = row * args.y_stride;
    // Sums of up to 200 terms a lane lose at most 200 * 2^-24 of the variance, half of that of its root; the
    // mean loses as much of the largest |x|, and a LayerNorm output is at most some 5 around a bias.
    expect_close(actual.data() + at, expected.data() + at, args.cols, 2e-5, 6e-6);
    for (int64_t col = args.cols; col < args.y_stride; ++col)
      EXPECT_TRUE(std::isnan(actual.data()[at + col]));
  }
}

TEST(Norm, EveryTargetEqualsTheReference) {
  ThreadPool pool({.num_threads = 2, .pin = false});
  const CpuContext context{pool};
  for_every_target([&] {
    for (const Shape2& shape : kShapes) {
      SCOPED_TRACE(testing::Message() << shape.rows << " x " << shape.cols);
      NormCase c = make_case(shape, 0.5f);
      expect_match(c.args, rms_norm, rms_norm_reference, context);
      expect_match(c.args, layer_norm, layer_norm_reference, context);
      c.args.weight = c.weight.data();
      c.args.weight_offset = 1.f;
      expect_match(c.args, rms_norm, rms_norm_reference, context);
      c.args.weight_offset = 0.f;
      c.args.bias = c.bias.data();
      expect_match(c.args, layer_norm, layer_norm_reference, context);
    }
  });
}

TEST(Norm, WorksInPlaceAndARowDoesNotDependOnTheOthers) {
  ThreadPool one({.num_threads = 1}), three({.num_threads = 3, .pin = false});
  NormCase c = make_case({.rows = 700, .cols = 65, .stride = 65}, 0.f);
  std::vector<float> x = c.x, alone(65);
  NormArgs args = c.args;
  args.x = args.y = x.data();
  args.y_stride = 65;
  rms_norm(args, CpuContext{three});
  for (int64_t row = 0; row < 700; row += 99) {
    NormArgs single = c.args;
    single.x = c.x.data() + row * 65;
    single.rows = 1;
    single.y = alone.data();
    rms_norm(single, CpuContext{one});
    EXPECT_EQ(std::memcmp(alone.data(), x.data() + row * 65, 65 * sizeof(float)), 0) << row;
  }
}

TEST(Norm, PartsOfARowAreNormalizedEachByItself) {
  ThreadPool pool({.num_threads = 2, .pin = false});
  constexpr int64_t kRows = 5, kParts = 3, kCols = 17, kStride = 70, kStep = 20;
  for (const auto& [norm, reference] : {std::pair<Norm, Reference>{rms_norm, rms_norm_reference},
           std::pair<Norm, Reference>{layer_norm, layer_norm_reference}}) {
    const std::vector<float> x = normals(kRows * kStride, 1), weight = normals(kCols, 2, 1.f);
    NormArgs part{
        .x_stride = kStride, .y_stride = kStride, .rows = kRows, .cols = kCols, .weight = weight.data()};
    std::vector<float> expected = x, actual = x, plain = x;
    for (int64_t p = 0; p < kParts; ++p) {
      part.x = part.y = expected.data() + p * kStep;
      norm(part, CpuContext{pool});
    }
    NormArgs all = part;
    all.parts = kParts;
    all.part_stride = kStep;
    all.x = all.y = actual.data();
    norm(all, CpuContext{pool});
    EXPECT_EQ(actual, expected);
    all.x = all.y = plain.data();
    reference(all);
    expect_close(actual.data(), plain.data(), std::ssize(plain), 2e-5, 6e-6);
  }
}

TEST(Norm, AConstantRowIsOnesAndZeros) {
  const std::vector<float> x(50, 3.f);
  std::vector<float> y(50);
  ThreadPool pool({.num_threads = 1});
  const NormArgs args{
      .x = x.data(), .x_stride = 50, .y = y.data(), .y_stride = 50, .rows = 1, .cols = 50, .eps = 0.f};
  rms_norm(args, CpuContext{pool});
  for (const float value : y) EXPECT_NEAR(value, 1.f, 1e-6f);
  NormArgs layer = args;
  layer.eps = 1e-5f;
  layer_norm(layer, CpuContext{pool});
  for (const float value : y) EXPECT_NEAR(value, 0.f, 1e-3f);
}

TEST(Norm, CostCountsEachNumberOnce) {
  const float weight = 1.f;
  const Cost cost = norm_cost({.rows = 3, .cols = 10, .weight = &weight});
  EXPECT_EQ(cost.bytes, 4 * (30 + 30 + 10));
  EXPECT_EQ(cost.flops, 120);
}

}  // namespace
}  // namespace cheetah
