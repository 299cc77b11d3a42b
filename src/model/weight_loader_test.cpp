// SPDX-License-Identifier: MIT
#include "model/weight_loader.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/quant/quant.h"
#include "model/bind_weights.h"
#include "model/fingerprint.h"
#include "tensor/float16.h"

namespace cheetah {
namespace {

// A checkpoint in memory.
struct Store {
  TensorView& add(const std::string& name, DType dtype, const Shape& shape) {
    const TensorView sizes{.dtype = dtype, .shape = shape, .data = nullptr};
    std::byte* data = buffers.emplace_back(sizes.bytes()).data();
    return tensors[name] = {.dtype = dtype, .shape = shape, .data = data};
  }
  template <class T>
  T* at(const std::string& name) {
    return reinterpret_cast<T*>(const_cast<std::byte*>(tensors.at(name).data));
  }
  std::vector<Buffer> buffers;
  TensorMap tensors;
};

class WeightLoaderTest : public ::testing::Test {
 protected:
  WeightLoader loader(std::optional<DType> dtype = std::nullopt) {
    options_ = {.dtype = dtype, .show_progress = false};
    return WeightLoader(source_, options_, pool_, weights_);
  }
  std::string error_of(WeightLoader& loader) {
    try {
      loader.finish({"ignored"});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  Store store_;
  WeightSource source_{.tensors = store_.tensors, .what = "model", .fp8_rows = 2, .fp8_cols = 4};
  LoadOptions options_;
  ThreadPool pool_{{.num_threads = 1, .pin = false}};
  ModelWeights weights_;
};

TEST_F(WeightLoaderTest, UsesWhatTheFileHoldsInPlace) {
  store_.add("w", DType::kF16, {3, 4});
  WeightLoader load = loader();
  EXPECT_EQ(load.matrix("w", 3, 4).data, store_.tensors.at("w").data);
  EXPECT_EQ(error_of(load), "");
}

TEST_F(WeightLoaderTest, TellsHowManyOfTheBytesAreRead) {
  store_.add("a", DType::kF16, {3, 4});
  store_.add("b", DType::kF32, {8});
  std::vector<std::pair<int64_t, int64_t>> told;
  options_ = {.show_progress = false,
      .on_progress = [&](int64_t done, int64_t total) { told.emplace_back(done, total); }};
  WeightLoader load(source_, options_, pool_, weights_);
  load.matrix("a", 3, 4);
  load.vector("b", {8});
  EXPECT_EQ(told, (std::vector<std::pair<int64_t, int64_t>>{{24, 56}, {56, 56}}));
}

TEST_F(WeightLoaderTest, CopiesAnUnalignedTensor) {
  store_.add("w", DType::kF32, {2, 5});
  for (int i = 0; i < 10; ++i) store_.at<float>("w")[i] = static_cast<float>(i);
  std::memmove(store_.at<char>("w") + 1, store_.at<char>("w"), 36);
  store_.tensors["w"].shape = {3, 3};
  store_.tensors["w"].data += 1;
  WeightLoader load = loader();
  const WeightMatrix w = load.matrix("w", 3, 3);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(w.data) % 4, 0u);
  EXPECT_EQ(reinterpret_cast<const float*>(w.data)[8], 8.f);
}

TEST_F(WeightLoaderTest, ConvertsToTheAskedTypeAndSaysWhereItCannot) {
  store_.add("wide", DType::kF32, {1, 512});
  store_.add("narrow", DType::kF32, {1, 96});
  store_.add("odd", DType::kF32, {1, 5});
  WeightLoader load = loader(DType::kQ4_K);
  EXPECT_EQ(load.matrix("wide", 1, 512).dtype, DType::kQ4_K);
  EXPECT_EQ(load.matrix("narrow", 1, 96).dtype, DType::kQ8_0);
  EXPECT_EQ(load.matrix("odd", 1, 5).dtype, DType::kF16);
  EXPECT_EQ(weights_.notes.size(), 2u);
  EXPECT_EQ(weights_.notes[0], "rows of 96 numbers are no whole number of Q4_K blocks: stored as Q8_0");
}

TEST_F(WeightLoaderTest, TransposesBands) {
  store_.add("w", DType::kF32, {3, 40});
  for (int i = 0; i < 120; ++i) store_.at<float>("w")[i] = static_cast<float>(i);
  WeightLoader load = loader();
  const WeightMatrix w = load.transposed("w", 40, 3);
  for (int r = 0; r < 40; ++r)
    for (int c = 0; c < 3; ++c)
      EXPECT_EQ(reinterpret_cast<const float*>(w.data)[r * 3 + c], static_cast<float>(c * 40 + r));
}

TEST_F(WeightLoaderTest, MultipliesFp8BlocksByTheirScales) {
  store_.add("w.weight", DType::kF8E4M3, {3, 6});
  store_.add("w.weight_scale_inv", DType::kF32, {2, 2});
  for (int i = 0; i < 18; ++i) store_.at<uint8_t>("w.weight")[i] = 0x38;  // 1.0
  for (int i = 0; i < 4; ++i) store_.at<float>("w.weight_scale_inv")[i] = static_cast<float>(i + 1);
  WeightLoader load = loader();
  const WeightMatrix w = load.matrix("w.weight", 3, 6);
  ASSERT_EQ(w.dtype, DType::kBF16);
  const auto* values = reinterpret_cast<const uint16_t*>(w.data);
  EXPECT_EQ(bf16_to_f32(values[0]), 1.f);
  EXPECT_EQ(bf16_to_f32(values[5]), 2.f);
  EXPECT_EQ(bf16_to_f32(values[2 * 6]), 3.f);
  EXPECT_EQ(bf16_to_f32(values[2 * 6 + 4]), 4.f);
  EXPECT_EQ(error_of(load), "");
}

TEST_F(WeightLoaderTest, TakesOneScaleForATensorARowOrABlock) {
  store_.add("tensor.weight", DType::kF8E4M3, {3, 6});
  store_.add("tensor.weight_scale", DType::kF32, {});
  store_.add("rows.weight", DType::kF8E4M3, {3, 6});
  store_.add("rows.weight_scale", DType::kBF16, {3, 1});
  for (const char* name : {"tensor.weight", "rows.weight"})
    for (int i = 0; i < 18; ++i) store_.at<uint8_t>(name)[i] = 0x38;  // 1.0
  *store_.at<float>("tensor.weight_scale") = 0.5f;
  for (int i = 0; i < 3; ++i)
    store_.at<uint16_t>("rows.weight_scale")[i] = f32_to_bf16(static_cast<float>(i + 1));
  WeightLoader load = loader(DType::kF8E4M3);
  const WeightMatrix tensor = load.matrix("tensor.weight", 3, 6), rows = load.matrix("rows.weight", 3, 6);
  EXPECT_EQ(tensor.data, store_.tensors.at("tensor.weight").data) << "kept as stored";
  EXPECT_TRUE(tensor.has_row_scales());
  std::vector<float> row(6);
  widen_weights(tensor, 2, row.data());
  EXPECT_EQ(row[5], 0.5f);
  widen_weights(rows, 2, row.data());
  EXPECT_EQ(row[0], 3.f);
  EXPECT_EQ(error_of(load), "");
}

TEST_F(WeightLoaderTest, StoresOtherTypesInFp8WithAScaleARow) {
  store_.add("w", DType::kF32, {2, 40});
  for (int i = 0; i < 80; ++i) store_.at<float>("w")[i] = i < 40 ? 1e-3f * static_cast<float>(i - 20) : 0.f;
  WeightLoader load = loader(DType::kF8E4M3);
  const WeightMatrix w = load.matrix("w", 2, 40), whole = load.unscaled("w", 2, 40);
  ASSERT_EQ(w.dtype, DType::kF8E4M3);
  EXPECT_EQ(whole.dtype, DType::kF32);
  std::vector<float> row(40);
  widen_weights(w, 0, row.data());
  for (int i = 0; i < 40; ++i)
    EXPECT_NEAR(row[static_cast<size_t>(i)], 1e-3f * static_cast<float>(i - 20), 1.3e-3f);
  widen_weights(w, 1, row.data());
  for (const float number : row) EXPECT_EQ(number, 0.f);
}

TEST_F(WeightLoaderTest, ReportsEverythingThatDoesNotFitInOneMessage) {
  store_.add("shape", DType::kF32, {2, 3});
  store_.add("extra", DType::kF32, {7});
  store_.add("an.ignored.buffer", DType::kF32, {7});
  WeightLoader load = loader();
  load.matrix("shape", 2, 4);
  load.vector("absent", {5});
  const std::string message = error_of(load);
  EXPECT_EQ(message,
      "model: the tensors do not fit the configuration: \"shape\" is [2, 3], expected [2, 4]; "
      "missing \"absent\" [5]; unexpected \"extra\" [7]");
}

TEST_F(WeightLoaderTest, ListsTenProblemsAndCountsTheRest) {
  WeightLoader load = loader();
  for (int i = 0; i < 13; ++i) load.vector(std::to_string(i), {1});
  const std::string message = error_of(load);
  EXPECT_NE(message.find("\"9\""), std::string::npos);
  EXPECT_EQ(message.find("\"10\""), std::string::npos);
  EXPECT_NE(message.find("and 3 more"), std::string::npos);
}

TEST_F(WeightLoaderTest, RejectsIntegerWeights) {
  store_.add("w", DType::kI32, {2, 2});
  WeightLoader load = loader();
  EXPECT_THROW(load.matrix("w", 2, 2), Error);
}

TEST(Fingerprint, ChangesWhenOneMatrixDoes) {
  std::vector<float> numbers(3 * 64 * 32, 1.f);
  const auto matrix = [&](int64_t index) {
    return WeightMatrix{.dtype = DType::kF32,
        .rows = 64,
        .cols = 32,
        .data = reinterpret_cast<const std::byte*>(numbers.data() + index * 64 * 32)};
  };
  ModelWeights weights;
  weights.embedding = weights.head.w = matrix(0);
  weights.layers.resize(2);
  weights.layers[0].attention.o.w = matrix(1);
  weights.layers[1].attention.o.w = matrix(2);
  const uint64_t before = fingerprint_of(weights);
  EXPECT_EQ(fingerprint_of(weights), before);
  std::fill(numbers.begin() + int64_t{2} * 64 * 32, numbers.end(), 1.5f);  // as further training would
  EXPECT_NE(fingerprint_of(weights), before);
}

}  // namespace
}  // namespace cheetah
