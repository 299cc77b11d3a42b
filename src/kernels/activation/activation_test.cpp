// SPDX-License-Identifier: MIT
#include "kernels/activation/activation.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/random.h"
#include "kernels/every_target.h"
#include "kernels/guarded.h"

namespace cheetah {
namespace {

constexpr Activation kKinds[] = {Activation::kSilu, Activation::kGeluTanh, Activation::kGeluErf,
    Activation::kQuickGelu, Activation::kRelu};

// The exponentials are good to 2e-7 and a handful of roundings follow. In the tails the argument's own
// rounding counts too: it reaches -87, where half an ulp is 4e-6 of the result, which by then is below 1e-36.
constexpr double kRelative = 1e-6;
constexpr double kAbsolute = 2e-8;

struct Shape2 {
  int64_t rows, cols;
};
const std::vector<Shape2> kShapes = {
    {0, 5}, {1, 1}, {1, 15}, {3, 17}, {2, 100}, {700, 33}, {3, 9000}, {1, 20000}};

std::vector<float> normals(int64_t count, uint64_t seed, float deviation) {
  Philox random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = deviation * random.next_normal();
  return values;
}

struct GatedCase {
  std::vector<float> gate, up;
  GatedArgs args;
};

GatedCase make_case(const Shape2& shape, Activation kind) {
  GatedCase c{
      normals(shape.rows * (shape.cols + 2), 1, 4.f), normals(shape.rows * (shape.cols + 1), 2, 5.f), {}};
  c.args = {.kind = kind,
      .gate = c.gate.data(),
      .gate_stride = shape.cols + 2,
      .up = c.up.data(),
      .up_stride = shape.cols + 1,
      .y_stride = shape.cols + 3,
      .rows = shape.rows,
      .cols = shape.cols};
  return c;
}

void expect_rows_close(const Guarded& actual, const Guarded& expected, const GatedArgs& args) {
  actual.expect_guards_whole();
  for (int64_t row = 0; row < args.rows; ++row) {
    const int64_t at = row * args.y_stride;
    expect_close(actual.data() + at, expected.data() + at, args.cols, 20 * kAbsolute, kRelative);
    for (int64_t col = args.cols; col < args.y_stride; ++col)
      EXPECT_TRUE(std::isnan(actual.data()[at + col]));
  }
}

TEST(Activation, EveryTargetEqualsTheReferenceOnASweep) {
  ThreadPool pool({.num_threads = 2, .pin = false});
  for_every_target([&] {
    for (const Activation kind : kKinds) {
      SCOPED_TRACE(static_cast<int>(kind));
      Guarded x(40001);
      std::vector<float> expected;
      for (int64_t i = 0; i < x.size(); ++i) {
        x.data()[i] = static_cast<float>(i - 20000) * 0.001f;
        expected.push_back(activation_reference(kind, x.data()[i]));
      }
      activate(kind, x.data(), x.size(), CpuContext{pool});
      x.expect_guards_whole();
      expect_close(x.data(), expected.data(), x.size(), kAbsolute, kRelative);
    }
  });
}

TEST(Activation, ExtremesSaturate) {
  ThreadPool pool({.num_threads = 1});
  for (const Activation kind : kKinds) {
    std::vector<float> x = {-1e4f, -300.f, 0.f, 300.f, 1e4f};
    activate(kind, x.data(), 5, CpuContext{pool});
    EXPECT_EQ(x[0], 0.f);
    EXPECT_EQ(x[1], 0.f);
    EXPECT_EQ(x[2], 0.f);
    EXPECT_EQ(x[3], 300.f);
    EXPECT_EQ(x[4], 1e4f);
  }
}

TEST(GatedActivation, EveryTargetEqualsTheReference) {
  ThreadPool pool({.num_threads = 2, .pin = false});
  for_every_target([&] {
    for (const Shape2& shape : kShapes)
      for (const Activation kind : kKinds) {
        SCOPED_TRACE(
            testing::Message() << shape.rows << " x " << shape.cols << " kind " << static_cast<int>(kind));
        GatedCase c = make_case(shape, kind);
        Guarded actual(shape.rows * c.args.y_stride), expected(shape.rows * c.args.y_stride);
        c.args.y = expected.data();
        gated_activation_reference(c.args);
        c.args.y = actual.data();
        gated_activation(c.args, CpuContext{pool});
        expect_rows_close(actual, expected, c.args);
      }
  });
}

TEST(GatedActivation, WorksInPlaceOnTheGate) {
  ThreadPool pool({.num_threads = 1});
  GatedCase c = make_case({3, 50}, Activation::kSilu);
  Guarded expected(3 * 52);
  c.args.y_stride = 52;
  c.args.y = expected.data();
  gated_activation_reference(c.args);
  c.args.y = c.gate.data();
  gated_activation(c.args, CpuContext{pool});
  for (int64_t row = 0; row < 3; ++row)
    expect_close(c.gate.data() + row * 52, expected.data() + row * 52, 50, 20 * kAbsolute, kRelative);
}

TEST(ClampedSwiglu, EveryTargetEqualsTheReference) {
  ThreadPool pool({.num_threads = 2, .pin = false});
  for_every_target([&] {
    for (const Shape2& shape : kShapes) {
      GatedCase c = make_case(shape, Activation::kSilu);
      Guarded actual(shape.rows * c.args.y_stride), expected(shape.rows * c.args.y_stride);
      c.args.y = expected.data();
      clamped_swiglu_reference({.rows = c.args});
      c.args.y = actual.data();
      clamped_swiglu({.rows = c.args}, CpuContext{pool});
      expect_rows_close(actual, expected, c.args);
    }
  });
}

TEST(Clip, HoldsEveryNumberBetweenTheLimits) {
  ThreadPool pool({.num_threads = 2, .pin = false});
  for (const int64_t count : {0, 1, 7, 100000}) {
    const std::vector<float> start = normals(count, 5, 2.f);
    Guarded x(count);
    std::copy(start.begin(), start.end(), x.data());
    clip(x.data(), 1.5f, count, CpuContext{pool});
    x.expect_guards_whole();
    for (int64_t i = 0; i < count; ++i)
      ASSERT_EQ(x.data()[i], std::clamp(start[static_cast<size_t>(i)], -1.5f, 1.5f)) << i;
  }
}

TEST(AddScaled, AddsOnEverySize) {
  ThreadPool pool({.num_threads = 2, .pin = false});
  for_every_target([&] {
    for (const int64_t count : {0, 1, 7, 16, 33, 100000}) {
      const std::vector<float> x = normals(count, 3, 1.f), start = normals(count, 4, 1.f);
      Guarded y(count);
      std::copy(start.begin(), start.end(), y.data());
      add_scaled(x.data(), 0.25f, y.data(), count, CpuContext{pool});
      y.expect_guards_whole();
      for (int64_t i = 0; i < count; ++i) {
        const auto at = static_cast<size_t>(i);
        ASSERT_NEAR(y.data()[i], start[at] + 0.25f * x[at], 1e-6f)
            << i;  // one rounding or two of numbers below 8
      }
    }
  });
}

}  // namespace
}  // namespace cheetah
