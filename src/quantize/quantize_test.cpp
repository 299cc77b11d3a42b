// SPDX-License-Identifier: MIT
#include "quantize/quantize.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/temp_dir.h"
#include "model/packed/unpack.h"

namespace cheetah {
namespace {

const std::string kModels = std::string(CHEETAH_SOURCE_DIR) + "/models/";

struct Case {
  ThreadPool pool{{.num_threads = 1}};
  SourceModel source{kModels + "cub-1m", pool};
  TempDir dir;

  QuantizeReport run(
      const std::string& to, const std::string& out, int64_t group = 0, std::optional<double> max_kl = {}) {
    QuantizeOptions options{.out = dir.path(out), .group = group, .gate = {}};
    options.gate.max_windows = 2;
    options.gate.max_kl = max_kl;
    return quantize(source, target_format(to), options, nullptr, {});
  }
};

// What rounding to so many bits does to this small model's predictions, with room.
struct Bound {
  const char* to;
  double kl;
};

TEST(Quantize, EveryGgufFormatIsWrittenReadAndNearItsSource) {
  for (const auto& [to, kl] : {Bound{"gguf-f32", 1e-6}, {"gguf-bf16", 1e-3}, {"gguf-f16", 1e-3},
           {"q8_0", 5e-3}, {"q6_k", 0.02}, {"q5_k", 0.05}, {"q5_1", 0.05}, {"q5_0", 0.05}, {"q4_k", 0.15},
           {"q4_1", 0.15}, {"q4_0", 0.2}, {"gguf-mxfp4", 0.4}}) {
    Case c;
    const QuantizeReport report = c.run(to, "out.gguf");
    EXPECT_LT(report.gate.evaluation.kl.mean, kl) << to;
    EXPECT_TRUE(std::filesystem::exists(c.dir.path("out.gguf")));
    const RecordedEvaluation recorded = read_recorded_evaluation(c.dir.path("out.gguf"));
    EXPECT_TRUE(recorded.present && recorded.passed && !recorded.stale) << to;
  }
}

TEST(Quantize, EverySafetensorsFormatIsWrittenReadAndNearItsSource) {
  for (const auto& [to, kl] : {Bound{"bf16", 1e-3}, {"f16", 1e-3}, {"fp8", 0.02}, {"fp8-tensor", 0.02},
           {"fp8-block", 0.02}, {"w8a8", 5e-3}, {"int8", 5e-3}, {"int4", 0.2}, {"rtn-int4", 0.2},
           {"rtn-int3", 1.0}, {"mxfp4", 0.4}, {"nvfp4", 0.2}}) {
    Case c;
    const QuantizeReport report = c.run(to, "out", 0);
    EXPECT_LT(report.gate.evaluation.kl.mean, kl) << to;
    EXPECT_TRUE(std::filesystem::exists(c.dir.path("out") + "/tokenizer.json"));
    EXPECT_TRUE(read_recorded_evaluation(c.dir.path("out")).passed) << to;
  }
}

TEST(Quantize, TheGateMarksWhatIsBeyondIt) {
  Case c;
  EXPECT_FALSE(c.run("int4", "out", 16, 1e-9).gate.passed);
  const RecordedEvaluation recorded = read_recorded_evaluation(c.dir.path("out"));
  EXPECT_TRUE(recorded.quantized && recorded.present && !recorded.passed);
}

TEST(Quantize, QuantizesWhatIsQuantizedAlready) {
  Case c;
  c.run("fp8-block", "first");
  const SourceModel again(c.dir.path("first"), c.pool);
  QuantizeOptions options{.out = c.dir.path("second.gguf"), .gate = {}};
  options.gate.max_windows = 1;
  EXPECT_LT(quantize(again, target_format("q8_0"), options, nullptr, {}).gate.evaluation.kl.mean, 5e-3);
  const SourceModel gguf(c.dir.path("second.gguf"), c.pool);
  options.out = c.dir.path("third.gguf");
  options.gate.data = kModels + "cub-1m/heldout.u16";
  EXPECT_LT(quantize(gguf, target_format("q5_1"), options, nullptr, {}).gate.evaluation.kl.mean, 0.05);
}

TEST(Quantize, RefusesWhatItCannotDo) {
  Case c;
  EXPECT_THROW(c.run("int5", "out"), UsageError);
  EXPECT_THROW(c.run("int4", "out.gguf"), UsageError);
  EXPECT_THROW(c.run("q4_0", "out"), UsageError);
  EXPECT_THROW(c.run("int4", "out", 48), UsageError);
  EXPECT_THROW(c.run("int4", "missing/out"), Error);
  c.run("int4", "out", 16);
  EXPECT_THROW(c.run("int4", "out", 16), Error);
}

TEST(PlannedFile, GoesOnWithWhatIsWritten) {
  const TempDir dir;
  const FilePlan plan{.header = "HEAD", .pieces = {{"a", {4, 3}}, {"b", {7, 2}}}, .total_bytes = 9};
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); };
  const std::string path = dir.path("file");
  { PlannedFile(path, plan, "key").write("a", bytes("AAA")); }
  EXPECT_FALSE(std::filesystem::exists(path));
  PlannedFile again(path, plan, "key");
  EXPECT_TRUE(again.is_written("a"));
  EXPECT_FALSE(again.is_written("b"));
  again.write("b", bytes("BB"));
  again.patch(1, "o");
  again.finish();
  std::ifstream in(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "HoADAAABB");
  EXPECT_FALSE(PlannedFile(path, plan, "other").is_written("a"));
}

TEST(Unpack, RefusesDamagedPartsWithOneSentence) {
  Case c;
  c.run("rtn-int4", "out", 16);
  const std::string config = c.dir.path("out") + "/config.json";
  Json json = read_json_file(config);
  json["quantization_config"]["quant_method"] = "awq";  // whose shapes are others
  json["quantization_config"]["version"] = "gemm";
  std::ofstream(config) << json.dump();
  try {
    Model::load(c.dir.path("out"), {.show_progress = false});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("does not fit its other parts"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace cheetah
