// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "kernels/quant/quant.h"
#include "model/packed/awq_layout.h"
#include "model/packed/bitsandbytes.h"
#include "model/packed/compressed_layout.h"
#include "model/packed/gptq_layout.h"

namespace cheetah {
namespace {

struct Sizes {
  int64_t rows, cols, groups;
  int bits;
};

IntMatrix random_matrix(const Sizes& sizes, bool symmetric) {
  SplitMix64 random(3);
  IntMatrix matrix{.rows = sizes.rows, .cols = sizes.cols, .bits = sizes.bits, .groups = sizes.groups};
  const uint64_t most = 1u << sizes.bits;
  for (int64_t i = 0; i < sizes.rows * sizes.cols; ++i)
    matrix.codes.push_back(static_cast<uint8_t>(random.next() % most));
  for (int64_t i = 0; i < sizes.rows * sizes.groups; ++i) {
    matrix.scales.push_back(static_cast<float>(1 + random.next() % 64) / 1024);
    matrix.zeros.push_back(static_cast<uint16_t>(
        symmetric ? static_cast<uint64_t>(matrix.symmetric_zero()) : 1 + random.next() % (most - 1)));
  }
  return matrix;
}

std::vector<float> values(const IntMatrix& matrix) {
  std::vector<float> all(static_cast<size_t>(matrix.rows * matrix.cols));
  for (int64_t r = 0; r < matrix.rows; ++r) dequantize_row(matrix, r, all.data() + r * matrix.cols);
  return all;
}

uint32_t word_of(const OwnedTensor& tensor, size_t index) {
  uint32_t word;
  std::memcpy(&word, tensor.data.data() + index * 4, 4);
  return word;
}

TEST(GptqLayout, GivesBackWhatWasPackedAtEveryWidth) {
  for (const int bits : {2, 3, 4, 8}) {
    const IntMatrix matrix = random_matrix({.rows = 32, .cols = 64, .groups = 2, .bits = bits}, false);
    const auto packed = pack_gptq(matrix, "w");
    const TensorView order = packed[3].view();
    const IntMatrix again = unpack_gptq({.qweight = packed[0].view(),
                                            .qzeros = packed[1].view(),
                                            .scales = packed[2].view(),
                                            .g_idx = &order,
                                            .minus_one = true},
        "w");
    EXPECT_EQ(again.bits, bits);
    EXPECT_TRUE(again.group_of.empty());
    EXPECT_EQ(values(again), values(matrix)) << bits;
  }
}

TEST(GptqLayout, LaysNumbersAlongTheInputsLowBitsFirst) {
  IntMatrix matrix = random_matrix({.rows = 32, .cols = 32, .groups = 1, .bits = 4}, true);
  for (int64_t c = 0; c < 8; ++c) matrix.codes[static_cast<size_t>(c)] = static_cast<uint8_t>(c);
  const auto packed = pack_gptq(matrix, "w");
  EXPECT_EQ(word_of(packed[0], 0), 0x76543210u);
  EXPECT_EQ(word_of(packed[1], 0), 0x77777777u);  // a zero of 8, stored less one
}

TEST(GptqLayout, ReadsActivationOrder) {
  const IntMatrix matrix = random_matrix({.rows = 32, .cols = 32, .groups = 2, .bits = 4}, false);
  auto packed = pack_gptq(matrix, "w");
  for (int32_t c = 0; c < 32; ++c) {
    const int32_t group = c % 2;
    std::memcpy(packed[3].data.data() + c * 4, &group, 4);
  }
  TensorView order = packed[3].view();
  const GptqTensors tensors{packed[0].view(), packed[1].view(), packed[2].view(), &order};
  const IntMatrix again = unpack_gptq(tensors, "w");
  ASSERT_EQ(again.group_of.size(), 32);
  EXPECT_FLOAT_EQ(values(again)[1], matrix.scales[1] * static_cast<float>(matrix.codes[1] - matrix.zeros[1]));
  const int32_t far = 2;
  std::memcpy(packed[3].data.data(), &far, 4);
  EXPECT_THROW(unpack_gptq(tensors, "w"), Error);
}

TEST(GptqLayout, RefusesPartsThatDoNotFitAndScalesThatAreNoNumbers) {
  const IntMatrix matrix = random_matrix({.rows = 32, .cols = 32, .groups = 2, .bits = 4}, false);
  auto packed = pack_gptq(matrix, "w");
  GptqTensors tensors{packed[0].view(), packed[1].view(), packed[2].view()};
  tensors.scales.shape = {2, 16};
  EXPECT_THROW(unpack_gptq(tensors, "w"), Error);
  tensors.scales = packed[2].view();
  tensors.qzeros.shape = {1, 8};
  EXPECT_THROW(unpack_gptq(tensors, "w"), Error);
  tensors.qzeros = packed[1].view();
  const uint16_t nan = 0x7E00;
  std::memcpy(packed[2].data.data(), &nan, 2);
  EXPECT_THROW(unpack_gptq(tensors, "w"), Error);
}

TEST(AwqLayout, GivesBackWhatWasPackedInItsOrder) {
  IntMatrix matrix = random_matrix({.rows = 16, .cols = 64, .groups = 2, .bits = 4}, false);
  for (int64_t r = 0; r < 8; ++r) matrix.codes[static_cast<size_t>(r * 64)] = static_cast<uint8_t>(r);
  const auto packed = pack_awq(matrix, "w");
  EXPECT_EQ(word_of(packed[0], 0), 0x75316420u);
  const IntMatrix again = unpack_awq({packed[0].view(), packed[1].view(), packed[2].view()}, "w");
  EXPECT_EQ(values(again), values(matrix));
}

TEST(CompressedLayout, GivesBackWhatWasPacked) {
  for (const int bits : {3, 4, 8}) {
    const IntMatrix matrix = random_matrix({.rows = 8, .cols = 96, .groups = 3, .bits = bits}, true);
    const auto packed = pack_compressed(matrix, "w", DType::kBF16);
    const IntMatrix again = unpack_compressed(
        {.packed = packed[0].view(), .scale = packed[1].view(), .shape = packed[2].view(), .bits = bits},
        "w");
    EXPECT_EQ(values(again), values(matrix)) << bits;
  }
}

TEST(CompressedLayout, GivesBackEightBitNumbers) {
  const IntMatrix matrix = random_matrix({.rows = 8, .cols = 64, .groups = 1, .bits = 8}, true);
  const auto packed = pack_int8(matrix, "w", DType::kF32);
  EXPECT_EQ(values(read_int8(packed[0].view(), packed[1].view(), nullptr, "w")), values(matrix));
}

TEST(CompressedLayout, RefusesAShapeThatIsNone) {
  const IntMatrix matrix = random_matrix({.rows = 8, .cols = 64, .groups = 1, .bits = 4}, true);
  auto packed = pack_compressed(matrix, "w", DType::kF16);
  const int64_t huge = int64_t{1} << 62;
  std::memcpy(packed[2].data.data(), &huge, 8);
  EXPECT_THROW(unpack_compressed(
                   {.packed = packed[0].view(), .scale = packed[1].view(), .shape = packed[2].view()}, "w"),
      Error);
}

TEST(IntMatrix, SymmetricGroupsOfWholeBlocksHaveAnExactBlockType) {
  for (const int bits : {2, 3, 4, 8}) {
    const IntMatrix matrix = random_matrix({.rows = 4, .cols = 128, .groups = 2, .bits = bits}, true);
    const auto dtype = exact_block_type(matrix);
    ASSERT_TRUE(dtype);
    std::vector<std::byte> row(static_cast<size_t>(row_bytes(*dtype, 128)));
    std::vector<float> got(128), expected(128);
    to_blocks(matrix, *dtype, 1, row.data());
    dequantize_row(*dtype, row.data(), got.data(), 128);
    dequantize_row(matrix, 1, expected.data());
    EXPECT_EQ(got, expected) << bits;
  }
  EXPECT_FALSE(exact_block_type(random_matrix({.rows = 4, .cols = 128, .groups = 2, .bits = 4}, false)));
  EXPECT_FALSE(exact_block_type(random_matrix({.rows = 4, .cols = 128, .groups = 8, .bits = 4}, true)));
}

TEST(Fp4, MxScalesArePowersOfTwoAndNvScalesAreDividedByTheGlobalOne) {
  std::vector<std::byte> packed(16, std::byte{0x72});  // codes 2 and 7: 1 and 6
  const std::byte eight{127 + 3}, one{0x38};           // E8M0 of 8, E4M3 of 1
  const float divisor = 4;
  const TensorView codes{.dtype = DType::kU8, .shape = {1, 16}, .data = packed.data()};
  const Fp4Tensors mx{.packed = codes, .scale = {.dtype = DType::kU8, .shape = {1, 1}, .data = &eight}};
  float row[32], blocks[32];
  check_fp4(mx, "w");
  dequantize_fp4_row(mx, 0, row);
  EXPECT_EQ(row[0], 8.f);
  EXPECT_EQ(row[31], 48.f);
  std::byte block[17];
  mxfp4_blocks(mx, 0, block);
  dequantize_row(DType::kMXFP4, block, blocks, 32);
  EXPECT_TRUE(std::equal(row, row + 32, blocks));
  const std::byte scales[2] = {one, one};
  const TensorView global{
      .dtype = DType::kF32, .shape = {1}, .data = reinterpret_cast<const std::byte*>(&divisor)};
  const Fp4Tensors nv{.packed = codes,
      .scale = {.dtype = DType::kF8E4M3, .shape = {1, 2}, .data = scales},
      .global_scale = &global};
  check_fp4(nv, "w");
  dequantize_fp4_row(nv, 0, row);
  EXPECT_EQ(row[1], 1.5f);
}

// A matrix [2, 4] in two blocks of four numbers.
struct Nf4File {
  std::vector<float> table = std::vector<float>(16);
  std::vector<std::byte> codes = {std::byte{0x12}, std::byte{0x34}, std::byte{0xF0}, std::byte{0x00}};
  std::vector<float> scales = {2.f, 10.f};
  std::string state = R"({"quant_type": "nf4", "blocksize": 4, "dtype": "bfloat16", "shape": [2, 4]})";
  TensorMap tensors;

  Nf4File() {
    for (size_t i = 0; i < 16; ++i) table[i] = static_cast<float>(i);
    put("w.weight", DType::kU8, {4, 1}, codes.data());
    put("w.weight.quant_map", DType::kF32, {16}, table.data());
    put("w.weight.absmax", DType::kF32, {2}, scales.data());
    put_state();
  }
  void put(const std::string& name, DType dtype, const Shape& shape, const void* data) {
    tensors[name] = {.dtype = dtype, .shape = shape, .data = static_cast<const std::byte*>(data)};
  }
  void put_state() {
    put("w.weight.quant_state.bitsandbytes__nf4", DType::kU8, {std::ssize(state)}, state.data());
  }
};

TEST(BitsAndBytes, TheFirstNumberOfAPairIsTheHighNibble) {
  const Nf4File file;
  ASSERT_TRUE(is_bnb4(file.tensors, "w.weight"));
  const Nf4Matrix matrix = read_bnb4(file.tensors, "w.weight", "w");
  std::vector<float> row(4);
  dequantize_row(matrix, 0, row.data());
  EXPECT_EQ(row, (std::vector<float>{2, 4, 6, 8}));
  dequantize_row(matrix, 1, row.data());
  EXPECT_EQ(row, (std::vector<float>{150, 0, 0, 0}));
  EXPECT_EQ(bnb4_parts(file.tensors, "w.weight").size(), 4);
}

TEST(BitsAndBytes, ScalesMayBeQuantizedAgain) {
  Nf4File file;
  file.state = R"({"blocksize": 4, "shape": [2, 4], "nested_blocksize": 256, "nested_offset": 1.0})";
  file.put_state();
  std::vector<float> nested(256), largest = {3.f};
  nested[7] = 0.5f;
  const std::vector<std::byte> codes = {std::byte{7}, std::byte{0}};
  file.put("w.weight.absmax", DType::kU8, {2}, codes.data());
  file.put("w.weight.nested_quant_map", DType::kF32, {256}, nested.data());
  file.put("w.weight.nested_absmax", DType::kF32, {1}, largest.data());
  EXPECT_EQ(read_bnb4(file.tensors, "w.weight", "w").absmax, (std::vector<float>{2.5f, 1.f}));
}

TEST(BitsAndBytes, RefusesSizesThatDoNotFit) {
  for (const char* state : {R"({"blocksize": 4, "shape": [2, 5]})", R"({"blocksize": 0, "shape": [2, 4]})",
           R"({"blocksize": 8, "shape": [2, 4]})", R"({"shape": [-2, 4]})", R"({"blocksize": 4})", "[]",
           "{"}) {
    Nf4File file;
    file.state = state;
    file.put_state();
    EXPECT_THROW(read_bnb4(file.tensors, "w.weight", "w"), Error) << state;
  }
}

}  // namespace
}  // namespace cheetah
