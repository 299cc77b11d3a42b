// SPDX-License-Identifier: MIT
#include "quantize/calibration.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/temp_dir.h"
#include "quantize/quantize.h"

namespace cheetah {
namespace {

const std::string kModels = std::string(CHEETAH_SOURCE_DIR) + "/models/";

struct Case {
  explicit Case(const std::string& name) : source(kModels + name, pool) {}
  ThreadPool pool{{.num_threads = 1}};
  SourceModel source;
  TempDir dir;

  double kl(const std::string& to, std::optional<int64_t> memory = {}) {
    const TargetFormat& target = target_format(to);
    QuantizeOptions options{.out = dir.path(to), .group = 16, .gate = {}};
    options.gate.max_windows = 4;
    std::unique_ptr<Calibration> calibration;
    if (target.is_calibrated()) {
      Calibration::Options how{.text = {.file = "", .tokens = 4 * 256, .window = 256}};
      if (memory) how.memory_bytes = *memory;
      if (target.rounding == Rounding::kAwq) how.scale_for = LinearEncoder(source, target, 16).rules();
      calibration = std::make_unique<Calibration>(source, how);
    }
    return quantize(source, target, options, calibration.get(), {}).gate.evaluation.kl.mean;
  }
};

TEST(Calibration, EverySiteOfADenseModelSeesEveryToken) {
  Case c("cub-1m");
  Calibration calibration(c.source, {.text = {.file = "", .tokens = 4 * 64, .window = 64}});
  for (const LinearTensor& linear : c.source.linears()) {
    calibration.prepare(linear.layer);
    const Moments* moments = calibration.moments(linear);
    ASSERT_TRUE(moments) << linear.name;
    EXPECT_EQ(moments->tokens, 4 * 64) << linear.name;
    EXPECT_EQ(moments->width, linear.cols) << linear.name;
    EXPECT_GT(moments->importance().front(), 0.f) << linear.name;
    EXPECT_FLOAT_EQ(moments->products[1], moments->products[static_cast<size_t>(linear.cols)]) << linear.name;
  }
}

TEST(Calibration, LittleMemoryTakesMorePassesAndGivesTheSame) {
  Case c("cub-1m");
  const double at_once = c.kl("gptq-int4");
  std::filesystem::remove_all(c.dir.path("gptq-int4"));
  EXPECT_DOUBLE_EQ(c.kl("gptq-int4", 1), at_once);
}

TEST(Calibration, GptqAndAwqBeatRoundToNearest) {
  Case c("cub-1m");
  for (const char* bits : {"4", "3"}) {
    const double nearest = c.kl(std::string("rtn-int") + bits);
    EXPECT_LT(c.kl(std::string("gptq-int") + bits), nearest) << bits;
    EXPECT_LT(c.kl(std::string("awq-int") + bits), nearest) << bits;
  }
}

TEST(Calibration, ExpertsAreCalibratedToo) {
  Case c("cub-moe");
  const double nearest = c.kl("rtn-int4");
  EXPECT_LT(c.kl("gptq-int4"), nearest);
  EXPECT_LT(c.kl("awq-int4"), nearest);
}

TEST(ScaleLayer, ItsEditsDoNotChangeTheModel) {
  Case c("cub-1m");
  Calibration calibration(c.source, {.text = {.file = "", .tokens = 4 * 64, .window = 64},
                                        .scale_for = GridRules{.bits = 3, .group = 16, .symmetric = false}});
  const std::string folder = c.dir.path("same");
  std::filesystem::create_directory(folder);
  // Written without rounding, the edits of neighbours cancel out.
  write_directory(c.source, TargetFormat{.name = "f32", .layout = Layout::kPlain, .dtype = DType::kF32}, 0,
      folder, "key", &calibration, {});
  EXPECT_LT(run_gate(folder, c.source, "f32", {.max_windows = 2}, {}).evaluation.kl.mean, 1e-5);
}

}  // namespace
}  // namespace cheetah
