// SPDX-License-Identifier: MIT
// The Hopper products against plain sums in double, on shapes that fill tiles and shapes that do not.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "gpu/graph.h"
#include "gpu/memory.h"
#include "kernels/gemm/cuda/cublaslt.h"
#include "tensor/float16.h"

namespace cheetah::gpu {
namespace {

struct Case {
  int64_t m, n, k;
  bool gated = false, bias = false, residual = false, f32_output = false;
  DType dtype = DType::kBF16;
  DType stored = DType::kBF16;  // of the residual, and of y unless f32_output
};

class HopperGemm : public testing::Test {
 protected:
  void SetUp() override {
    if (!device_.is_hopper()) GTEST_SKIP() << "needs a Hopper GPU";
  }
  DeviceInfo device_ = query_device();
  DeviceMemory memory_{device_};
  Stream stream_{device_};

  static uint16_t narrow(float v, DType dtype) {
    return dtype == DType::kF16 ? f32_to_f16(v) : f32_to_bf16(v);
  }
  static float widen(uint16_t v, DType dtype) {
    return dtype == DType::kF16 ? f16_to_f32(v) : bf16_to_f32(v);
  }

  std::vector<uint16_t> random_numbers(int64_t count, float scale, DType dtype, uint64_t seed) {
    Philox random(seed, 0);
    std::vector<uint16_t> numbers(static_cast<size_t>(count));
    for (uint16_t& v : numbers) v = narrow(static_cast<float>(random.next_uniform() * 2 - 1) * scale, dtype);
    return numbers;
  }
  template <class T>
  DeviceBuffer upload(const std::vector<T>& host) {
    const auto bytes = static_cast<int64_t>(host.size() * sizeof(T));
    DeviceBuffer buffer = memory_.allocate(ArenaKind::kWorkspace, std::max<int64_t>(bytes, 16), stream_);
    copy_to_device(buffer.data(), host.data(), bytes, stream_);
    return buffer;
  }

  template <class Run>
  void check(const Case& c, const Run& run) {
    SCOPED_TRACE(testing::Message() << c.m << " x " << c.n << " x " << c.k << (c.gated ? " gated" : "")
                                    << (c.bias ? " bias" : "") << (c.residual ? " residual" : "")
                                    << (c.f32_output ? " f32" : "")
                                    << (c.dtype == DType::kF16 ? " f16" : ""));
    const int64_t outputs = c.gated ? c.n / 2 : c.n;
    const auto x = random_numbers(c.m * c.k, 1.f, c.dtype, 1);
    const auto w = random_numbers(c.n * c.k, 0.05f, c.dtype, 2);
    const auto residual = random_numbers(c.m * outputs, 1.f, c.stored, 3);
    std::vector<float> bias(static_cast<size_t>(c.n));
    for (size_t i = 0; i < bias.size(); ++i) bias[i] = 0.01f * static_cast<float>(i % 17);
    const DeviceBuffer dx = upload(x), dw = upload(w), dr = upload(residual), db = upload(bias);
    const int64_t y_bytes = c.m * outputs * (c.f32_output ? 4 : 2);
    const DeviceBuffer dy = memory_.allocate(ArenaKind::kWorkspace, y_bytes, stream_);
    fill_bytes(dy.data(), 0xFF, y_bytes, stream_);  // NaN: an output nobody wrote is found
    run(HopperGemmArgs{.dtype = c.dtype,
        .x = dx.data(),
        .x_stride = c.k,
        .m = c.m,
        .w = dw.data(),
        .n = c.n,
        .k = c.k,
        .bias = c.bias ? db.as<float>() : nullptr,
        .residual = c.residual ? dr.data() : nullptr,
        .residual_stride = outputs,
        .gated = c.gated,
        .y_dtype = c.f32_output ? DType::kF32 : c.stored,
        .y = dy.data(),
        .y_stride = outputs});
    std::vector<std::byte> raw(static_cast<size_t>(y_bytes));
    copy_to_host(raw.data(), dy.data(), y_bytes, stream_);
    stream_.wait();
    const auto exact = [&](int64_t row, int64_t column) {
      double sum = c.bias ? bias[static_cast<size_t>(column)] : 0.0;
      for (int64_t i = 0; i < c.k; ++i)
        sum += static_cast<double>(widen(x[static_cast<size_t>(row * c.k + i)], c.dtype)) *
               widen(w[static_cast<size_t>(column * c.k + i)], c.dtype);
      return sum;
    };
    // Every output of small products, a sample of large ones.
    const int64_t total = c.m * outputs, step = total > 20000 ? 997 : 1;
    for (int64_t at = 0; at < total; at += step) {
      const int64_t row = at / outputs, column = at % outputs;
      double want = exact(row, column);
      if (c.gated) want = want / (1 + std::exp(-want)) * exact(row, outputs + column);
      if (c.residual) want += widen(residual[static_cast<size_t>(at)], c.stored);
      const float got = c.f32_output ? reinterpret_cast<const float*>(raw.data())[at]
                                     : widen(reinterpret_cast<const uint16_t*>(raw.data())[at], c.stored);
      const double unit = c.f32_output ? 2e-5 : c.stored == DType::kF16 ? 1e-3 : 8e-3;
      ASSERT_NEAR(got, want, unit * (1 + std::abs(want))) << "row " << row << " column " << column;
    }
  }
};

TEST_F(HopperGemm, SkinnyProductsAreRightAtEveryBatchAndSplit) {
  const auto run = [&](const HopperGemmArgs& args) { hopper_skinny_gemm(args, stream_); };
  for (const int64_t m : {1, 3, 8, 9, 16, 31, 32, 33, 64})
    for (const int64_t n : {64, 136, 1024, 6144, 28672}) check({.m = m, .n = n, .k = 256}, run);
  for (const int64_t k : {8, 64, 72, 128, 1000, 4096, 14336}) check({.m = 5, .n = 512, .k = k}, run);
}

TEST_F(HopperGemm, SkinnyProductsFinishAsAsked) {
  const auto run = [&](const HopperGemmArgs& args) { hopper_skinny_gemm(args, stream_); };
  for (const DType dtype : {DType::kBF16, DType::kF16})
    for (const bool gated : {false, true})
      for (const bool extras : {false, true})
        for (const bool f32 : {false, true})
          for (const int64_t n : {512, 20480})
            check({.m = 7,
                      .n = n,
                      .k = 512,
                      .gated = gated,
                      .bias = extras,
                      .residual = extras,
                      .f32_output = f32,
                      .dtype = dtype},
                run);
}

TEST_F(HopperGemm, TilesAreRightWhetherFullOrNot) {
  const auto run = [&](const HopperGemmArgs& args) { hopper_tile_gemm(args, stream_); };
  for (const int64_t m : {1, 65, 128, 129, 256, 300, 1000, 4100})
    for (const int64_t n : {64, 256, 264, 1024}) check({.m = m, .n = n, .k = 192}, run);
  for (const int64_t k : {8, 64, 72, 4096}) check({.m = 300, .n = 512, .k = k}, run);
}

TEST_F(HopperGemm, TilesAreRightHoweverTheyShareTheCard) {
  for (const TilePlan& plan : {TilePlan{}, {.beside = true}, {.splits = 2}, {.splits = 2, .narrow = true}}) {
    SCOPED_TRACE(testing::Message() << (plan.beside ? "beside" : plan.narrow ? "narrow" : "") << plan.splits);
    const auto run = [&](const HopperGemmArgs& args) { hopper_planned_tiles(args, plan, stream_); };
    for (const int64_t m : {1, 65, 128, 129, 300})
      for (const int64_t n : {64, 264, 1024}) check({.m = m, .n = n, .k = 712}, run);
    for (const bool gated : {false, true})
      for (const bool extras : {false, true})
        check({.m = 333, .n = 1040, .k = 520, .gated = gated, .bias = extras, .residual = extras}, run);
  }
}

TEST_F(HopperGemm, WideProductsAreRightAtEveryBatch) {
  const auto run = [&](const HopperGemmArgs& args) { hopper_wide_gemm(args, stream_); };
  for (const int64_t m : {65, 128, 129, 256})
    for (const int64_t n : {64, 136, 6144, 28672}) check({.m = m, .n = n, .k = 264}, run);
  for (const int64_t m : {100, 150})
    for (const bool f32 : {false, true})
      check({.m = m, .n = 1024, .k = 512, .bias = true, .residual = true, .f32_output = f32}, run);
}

// A step of decoding is recorded without having run before.
TEST_F(HopperGemm, LibraryProductsAreRightAndCanBeRecorded) {
  const HopperGemmArgs any{.x_stride = 64, .m = 64, .n = 64, .k = 64, .y_stride = 64};
  if (!cublaslt_fits(any)) GTEST_SKIP() << "needs cuBLASLt";
  const auto run = [&](const HopperGemmArgs& args) {
    ASSERT_TRUE(cublaslt_fits(args));
    const Graph graph = Graph::record(stream_, [&] { cublaslt_gemm(args, stream_); });
    graph.launch(stream_);
    stream_.wait();
  };
  for (const DType dtype : {DType::kBF16, DType::kF16})
    for (const bool adds : {false, true})
      check({.m = 150, .n = 1024, .k = 512, .residual = adds, .dtype = dtype, .stored = dtype}, run);
  check({.m = 3, .n = 512, .k = 256, .f32_output = true}, run);
}

TEST_F(HopperGemm, TilesFinishAsAsked) {
  const auto run = [&](const HopperGemmArgs& args) { hopper_tile_gemm(args, stream_); };
  for (const DType dtype : {DType::kBF16, DType::kF16})
    for (const bool gated : {false, true})
      for (const bool extras : {false, true})
        check({.m = 333,
                  .n = 1040,
                  .k = 512,
                  .gated = gated,
                  .bias = extras,
                  .residual = extras,
                  .dtype = dtype},
            run);
}

}  // namespace
}  // namespace cheetah::gpu
