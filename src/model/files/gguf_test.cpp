// SPDX-License-Identifier: MIT
#include "model/files/gguf.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <functional>

#include "base/error.h"
#include "model/files/model_test_files.h"

namespace cheetah {
namespace {

using test::as_bytes;
using test::gguf_string;
using test::GgufBuilder;
using test::le;

constexpr uint64_t kHuge = uint64_t{1} << 60;

struct BadFile {
  const char* rule;
  std::string bytes;
  const char* message;  // must be part of the error
};

std::string error_of(const std::string& bytes) {
  try {
    GgufFile::parse(as_bytes(bytes), "bad.gguf");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void expect_errors(const std::vector<BadFile>& files) {
  for (const BadFile& file : files) {
    const std::string error = error_of(file.bytes);
    EXPECT_TRUE(error.starts_with("bad.gguf: ")) << file.rule << ": " << error;
    EXPECT_NE(error.find(file.message), std::string::npos) << file.rule << ": " << error;
  }
}

GgufBuilder builder_of_version(uint32_t version) {
  GgufBuilder file;
  file.version = version;
  return file;
}

GgufBuilder builder_of_counts(uint64_t tensors, uint64_t keys) {
  GgufBuilder file;
  file.declared_tensors = tensors;
  file.declared_keys = keys;
  return file.string("a", "b");
}

// One tensor that is wrong in one way, in a file with enough data for it.
std::string with_tensor(
    const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset, std::string_view name = "t") {
  return GgufBuilder().tensor(name, dims, type, offset).bytes(4096).build();
}

std::string good_file() {
  return GgufBuilder()
      .string("general.architecture", "llama")
      .u32("n", 7)
      .f32("x", 0.5f)
      .boolean("flag", 1)
      .strings("tokens", {"a", "", "ccc"})
      .array("scores", 6, 3, le(1.f) + le(2.f) + le(-3.f))
      .array("types", 5, 2, le(int32_t{-1}) + le(int32_t{6}))
      .tensor("w", {32, 4}, 8, 0)
      .tensor("b", {4}, 0, 160)
      .bytes(176)
      .build();
}

TEST(Gguf, ReadsEveryKindOfValue) {
  const std::string bytes = good_file();
  const GgufFile file = GgufFile::parse(as_bytes(bytes), "good.gguf");
  EXPECT_EQ(file.string("general.architecture"), "llama");
  EXPECT_EQ(file.integer("n"), 7);
  EXPECT_EQ(file.number("n"), 7.0);
  EXPECT_EQ(file.number("x"), 0.5);
  EXPECT_EQ(file.boolean("flag"), true);
  EXPECT_EQ(file.strings("tokens"), (std::vector<std::string_view>{"a", "", "ccc"}));
  EXPECT_EQ(file.numbers("scores"), (std::vector<double>{1, 2, -3}));
  EXPECT_EQ(file.integers("types"), (std::vector<int64_t>{-1, 6}));
  EXPECT_EQ(file.metadata().size(), 7u);
}

TEST(Gguf, ReadsScalarsOfEveryWidth) {
  const std::string bytes = GgufBuilder()
                                .key("u8", 0, le(uint8_t{200}))
                                .key("i8", 1, le(int8_t{-3}))
                                .key("u16", 2, le(uint16_t{60000}))
                                .key("i16", 3, le(int16_t{-300}))
                                .key("i32", 5, le(int32_t{-70000}))
                                .key("u64", 10, le(uint64_t{1} << 40))
                                .key("i64", 11, le(int64_t{-1} << 40))
                                .key("f64", 12, le(0.25))
                                .build();
  const GgufFile file = GgufFile::parse(as_bytes(bytes), "widths.gguf");
  EXPECT_EQ(file.integer("u8"), 200);
  EXPECT_EQ(file.integer("i8"), -3);
  EXPECT_EQ(file.integer("u16"), 60000);
  EXPECT_EQ(file.integer("i16"), -300);
  EXPECT_EQ(file.integer("i32"), -70000);
  EXPECT_EQ(file.integer("u64"), int64_t{1} << 40);
  EXPECT_EQ(file.integer("i64"), int64_t{-1} << 40);
  EXPECT_EQ(file.number("f64"), 0.25);
}

TEST(Gguf, AnAbsentKeyIsNothingAndAnotherTypeIsAnError) {
  const std::string bytes = GgufBuilder(builder_of_version(2))
                                .key("big", 10, le(~uint64_t{0}))
                                .string("s", "x")
                                .boolean("b", 0)
                                .build();
  const GgufFile file = GgufFile::parse(as_bytes(bytes), "types.gguf");
  EXPECT_EQ(file.integer("absent"), std::nullopt);
  EXPECT_TRUE(file.strings("absent").empty());
  EXPECT_TRUE(file.numbers("absent").empty());
  EXPECT_TRUE(file.integers("absent").empty());
  EXPECT_THROW(file.integer("big"), Error);
  EXPECT_THROW(file.integer("s"), Error);
  EXPECT_THROW(file.integer("b"), Error);
  EXPECT_THROW(file.number("s"), Error);
  EXPECT_THROW(file.boolean("s"), Error);
  EXPECT_THROW(file.string("b"), Error);
  EXPECT_THROW(file.strings("s"), Error);
  EXPECT_THROW(file.numbers("s"), Error);
  EXPECT_THROW(file.integers("s"), Error);
}

TEST(Gguf, ShowsTensorsOutermostDimensionFirst) {
  const std::string bytes = good_file();
  const GgufFile file = GgufFile::parse(as_bytes(bytes), "good.gguf");
  const TensorView& weight = file.tensors().at("w");
  EXPECT_EQ(weight.dtype, DType::kQ8_0);
  EXPECT_EQ(weight.shape, (Shape{4, 32}));
  EXPECT_EQ(weight.bytes(), 4 * 34);
  EXPECT_EQ(file.tensors().at("b").data - weight.data, 160);
  EXPECT_EQ(file.tensors().at("b").data + 16, as_bytes(bytes).data() + bytes.size());
}

TEST(Gguf, AFileWithoutTensorsIsAVocabulary) {
  const std::string bytes = builder_of_version(2).strings("tokenizer.ggml.tokens", {"x"}).build();
  EXPECT_TRUE(GgufFile::parse(as_bytes(bytes), "vocabulary.gguf").tensors().empty());
}

TEST(Gguf, ReadsEverySupportedTensorType) {
  const std::vector<std::pair<uint32_t, DType>> types = {{0, DType::kF32}, {1, DType::kF16},
      {30, DType::kBF16}, {8, DType::kQ8_0}, {2, DType::kQ4_0}, {3, DType::kQ4_1}, {6, DType::kQ5_0},
      {7, DType::kQ5_1}, {12, DType::kQ4_K}, {13, DType::kQ5_K}, {14, DType::kQ6_K}, {39, DType::kMXFP4},
      {28, DType::kF64}, {24, DType::kI8}, {25, DType::kI16}, {26, DType::kI32}, {27, DType::kI64}};
  for (const auto& [id, dtype] : types) {
    const std::string bytes = with_tensor({256}, id, 0);
    EXPECT_EQ(GgufFile::parse(as_bytes(bytes), "t.gguf").tensors().at("t").dtype, dtype);
  }
}

TEST(Gguf, RefusesABadHeader) {
  GgufBuilder wrong_magic;
  wrong_magic.magic = "GGML";
  expect_errors({
      {"empty file", "", "the file is empty"},
      {"three bytes", "GGU", "not a GGUF file"},
      {"magic alone", "GGUF", "the version"},
      {"another magic", wrong_magic.build(), "not a GGUF file"},
      {"version 0", builder_of_version(0).build(), "unsupported GGUF version 0"},
      {"version 1", builder_of_version(1).build(), "unsupported GGUF version 1"},
      {"version 99", builder_of_version(99).build(), "unsupported GGUF version 99"},
      {"byte-swapped", builder_of_version(0x03000000).build(), "big-endian"},
      {"2^63 tensors", builder_of_counts(uint64_t{1} << 63, 1).build(),
          "declares 9223372036854775808 tensors"},
      {"-1 tensors", builder_of_counts(~uint64_t{0}, 1).build(), "bytes left"},
      {"2^63 keys", builder_of_counts(0, uint64_t{1} << 63).build(), "declares 9223372036854775808 keys"},
      {"one key more than there is", builder_of_counts(0, 2).build(), "bytes left"},
      {"one tensor more than there is", builder_of_counts(1, 1).build(), "bytes left"},
  });
}

TEST(Gguf, RefusesBadKeys) {
  GgufBuilder many;
  for (int i = 0; i < 65537; ++i) many.key(std::to_string(i), 0, "x");
  expect_errors({
      {"empty key", GgufBuilder().u32("", 1).build(), "key 0 is empty"},
      {"duplicate key", GgufBuilder().u32("a", 1).u32("a", 1).build(), "key 1 \"a\" stands twice"},
      {"key of 2^60 bytes", "GGUF" + le(3u) + le(uint64_t{0}) + le(uint64_t{1}) + le(kHuge) + "aaaaaaaaaa",
          "declares 1152921504606846976 bytes"},
      {"key over its limit", GgufBuilder().u32(std::string(65536, 'k'), 1).build(),
          "more than the limit of 65535"},
      {"string past the end", GgufBuilder().key("a", 8, le(uint64_t{100}) + "short").build(),
          "declares 100 bytes"},
      {"string of 2^64-1 bytes", GgufBuilder().key("a", 8, le(~uint64_t{0})).build(), "declares"},
      {"unknown value type", GgufBuilder().key("a", 13, le(uint64_t{0})).build(), "unknown value type 13"},
      {"value cut short", GgufBuilder().key("a", 12, "1234").build(), "needs 8 bytes"},
      {"array of arrays", GgufBuilder().array("a", 9, 1, le(uint64_t{0})).build(), "arrays of arrays"},
      {"array of unknown type", GgufBuilder().array("a", 77, 1, "x").build(), "unknown value type 77"},
      {"array of 2^40 bytes", GgufBuilder().array("a", 0, uint64_t{1} << 40, "x").build(),
          "declares 1099511627776 elements"},
      {"array whose bytes overflow", GgufBuilder().array("a", 12, uint64_t{1} << 61, "x").build(),
          "elements"},
      {"strings that cannot all be there", GgufBuilder().array("a", 8, 3, gguf_string("x")).build(),
          "declares 3 elements"},
      {"string in an array past the end", GgufBuilder().array("a", 8, 1, le(uint64_t{9}) + "x").build(),
          "declares 9 bytes"},
      {"bool 7", GgufBuilder().boolean("a", 7).build(), "bool value is 7"},
      {"bool 2 in an array", GgufBuilder().array("a", 7, 2, std::string("\1\2", 2)).build(),
          "bool value is 2"},
      {"65,537 keys", many.build(), "more than the limit of 65536"},
  });
}

TEST(Gguf, RefusesBadAlignment) {
  expect_errors({
      {"0", GgufBuilder().u32("general.alignment", 0).build(), "power of two"},
      {"3", GgufBuilder().u32("general.alignment", 3).build(), "power of two"},
      {"2^31", GgufBuilder().u32("general.alignment", 1u << 31).build(), "power of two"},
      {"a string", GgufBuilder().string("general.alignment", "32").build(), "power of two"},
      {"an array", GgufBuilder().array("general.alignment", 4, 1, le(32u)).build(), "power of two"},
  });
  GgufBuilder wide;
  wide.alignment = 128;
  const std::string bytes =
      wide.u32("general.alignment", 128).tensor("a", {1}, 0, 0).tensor("b", {1}, 0, 128).bytes(132).build();
  EXPECT_EQ(GgufFile::parse(as_bytes(bytes), "wide.gguf").tensors().size(), 2u);
}

TEST(Gguf, RefusesBadTensorDescriptions) {
  const uint64_t two32 = uint64_t{1} << 32;
  expect_errors({
      {"name of 65 bytes", with_tensor({1}, 0, 0, std::string(65, 'n')), "more than the limit of 64"},
      {"empty name", with_tensor({1}, 0, 0, ""), "name of tensor 0 is empty"},
      {"name of 2^60 bytes",
          "GGUF" + le(3u) + le(uint64_t{1}) + le(uint64_t{0}) + le(kHuge) + std::string(40, 'x'),
          "declares 1152921504606846976 bytes"},
      {"duplicate name", GgufBuilder().tensor("t", {1}, 0, 0).tensor("t", {1}, 0, 32).bytes(64).build(),
          "stands twice"},
      {"no dimensions", with_tensor({}, 0, 0), "0 dimensions"},
      {"five dimensions", with_tensor({1, 1, 1, 1, 1}, 0, 0), "5 dimensions"},
      {"dimension 0", with_tensor({4, 0}, 0, 0), "dimension 1 is 0"},
      {"dimension -1", with_tensor({~uint64_t{0}}, 0, 0), "dimension 0 is -1"},
      {"product 2^64", with_tensor({two32, two32}, 0, 0), "overflows"},
      {"product wraps to a small number", with_tensor({two32, two32, 1, 3}, 0, 0), "overflows"},
      {"bytes overflow", with_tensor({uint64_t{1} << 61}, 28, 0), "overflows"},
      {"type 255", with_tensor({1}, 255, 0), "unknown or removed tensor type 255"},
      {"removed type", with_tensor({1}, 4, 0), "unknown or removed tensor type 4"},
      {"Q2_K", with_tensor({256}, 10, 0), "tensor type Q2_K is not supported"},
      {"IQ4_XS", with_tensor({256}, 23, 0), "tensor type IQ4_XS is not supported"},
      {"row of 33 in Q8_0", with_tensor({33}, 8, 0), "not a multiple of the 32 elements"},
      {"row of 128 in Q4_K", with_tensor({128, 2}, 12, 0), "not a multiple of the 256 elements"},
  });
}

TEST(Gguf, RefusesTensorsInTheWrongPlace) {
  expect_errors({
      {"unaligned", with_tensor({1}, 0, 4), "not a multiple of the alignment 32"},
      {"past the end", with_tensor({1}, 0, 4096), "truncated"},
      {"far past the end", with_tensor({1}, 0, ~uint64_t{31}), "past the end"},
      {"last byte past the end", with_tensor({1025}, 0, 0), "truncated"},
      {"same place", GgufBuilder().tensor("a", {8}, 0, 0).tensor("b", {8}, 0, 0).bytes(64).build(),
          "overlaps"},
      {"overlapping", GgufBuilder().tensor("a", {9}, 0, 0).tensor("b", {8}, 0, 32).bytes(64).build(),
          "overlaps"},
      {"no data at all", GgufBuilder().tensor("a", {8}, 0, 0).build(), "truncated"},
  });
}

TEST(Gguf, AFileCutAnywhereIsAnError) {
  const std::string bytes = good_file();
  const size_t step = std::max<size_t>(1, bytes.size() / 1000);
  for (size_t size = 0; size < bytes.size(); size += step) {
    // A copy of its own size, so that a sanitizer sees a read past the end.
    const std::string cut = bytes.substr(0, size);
    EXPECT_NE(error_of(cut), "") << "cut at " << size << " of " << bytes.size();
  }
}

TEST(Gguf, ARealFileCutAtAThousandPlacesIsAnError) {
  const MappedFile whole =
      MappedFile::open(std::string(CHEETAH_SOURCE_DIR) + "/tests/models/gguf/llama-Q4_0.gguf");
  const GgufFile good = GgufFile::parse(whole.bytes(), "whole");
  const std::byte* last = whole.bytes().data();
  for (const auto& [name, view] : good.tensors()) last = std::max(last, view.data + view.bytes());
  const auto needed = static_cast<size_t>(last - whole.bytes().data());
  for (size_t i = 0; i < 1000; ++i) {
    const size_t size = needed * i / 1000;
    EXPECT_THROW(GgufFile::parse(whole.bytes().first(size), "cut"), Error) << size;
  }
}

#ifndef CHEETAH_SANITIZED  // a sanitizer reserves more address space than the limit
TEST(GgufDeathTest, ALyingSizeAllocatesNothing) {
  const auto parse_with_little_memory = [] {
    const rlimit limit{uint64_t{512} << 20, uint64_t{512} << 20};
    setrlimit(RLIMIT_AS, &limit);
    const std::vector<std::string> files = {
        builder_of_counts(kHuge, 1).build(),
        builder_of_counts(0, kHuge).build(),
        GgufBuilder().array("a", 0, kHuge, "x").build(),
        GgufBuilder().array("a", 8, kHuge, "x").build(),
        GgufBuilder().key("a", 8, le(kHuge)).build(),
        with_tensor({kHuge}, 0, 0),
    };
    for (const std::string& file : files)
      if (error_of(file).empty()) std::_Exit(1);  // std::bad_alloc ends the process too
    std::_Exit(0);
  };
  EXPECT_EXIT(parse_with_little_memory(), ::testing::ExitedWithCode(0), "");
}
#endif

TEST(GgufSplit, OpensAllPartsFromAnyOfThem) {
  const test::TemporaryDirectory directory;
  const auto part = [](uint16_t number, std::string_view tensor) {
    return GgufBuilder()
        .key("split.no", 2, le(number))
        .key("split.count", 2, le(uint16_t{2}))
        .key("split.tensors.count", 5, le(int32_t{2}))
        .string("from", tensor)
        .tensor(tensor, {1}, 0, 0)
        .bytes(4)
        .build();
  };
  const std::string first = directory.write("m-00001-of-00002.gguf", part(0, "a"));
  EXPECT_THROW(GgufFile::open(first), Error) << "the second part is missing";
  const std::string second = directory.write("m-00002-of-00002.gguf", part(1, "b"));
  for (const std::string& path : {first, second}) {
    const GgufFile file = GgufFile::open(path);
    EXPECT_EQ(file.tensors().size(), 2u);
    EXPECT_EQ(file.string("from"), "a");
    EXPECT_GT(file.file_bytes(), 0);
    file.prefetch();
  }
}

TEST(GgufSplit, RefusesPartsThatDoNotBelongTogether) {
  const auto part = [](uint16_t number, uint16_t count, int32_t total, std::string_view tensor) {
    return GgufBuilder()
        .key("split.no", 2, le(number))
        .key("split.count", 2, le(count))
        .key("split.tensors.count", 5, le(total))
        .tensor(tensor, {1}, 0, 0)
        .bytes(4)
        .build();
  };
  const auto error_of_parts = [](const std::string& first, const std::string& second) -> std::string {
    const test::TemporaryDirectory directory;
    directory.write("m-00001-of-00002.gguf", first);
    directory.write("m-00002-of-00002.gguf", second);
    try {
      GgufFile::open(directory.path("m-00001-of-00002.gguf"));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::string first = part(0, 2, 2, "a");
  EXPECT_EQ(error_of_parts(first, part(1, 2, 2, "b")), "");
  EXPECT_NE(error_of_parts(first, part(1, 2, 2, "a")).find("in an earlier part too"), std::string::npos);
  EXPECT_NE(error_of_parts(first, part(0, 2, 2, "b")).find("do not say part 2 of 2"), std::string::npos);
  EXPECT_NE(error_of_parts(first, part(1, 3, 2, "b")).find("do not say part 2 of 2"), std::string::npos);
  EXPECT_NE(error_of_parts(part(0, 2, 9, "a"), part(1, 2, 9, "b")).find("hold 2 tensors"), std::string::npos);
}

TEST(GgufSplit, RefusesAPartUnderAnotherName) {
  const test::TemporaryDirectory directory;
  const std::string path =
      directory.write("lonely.gguf", GgufBuilder().key("split.count", 2, le(uint16_t{3})).build());
  EXPECT_THROW(GgufFile::open(path), Error);
  const std::string zero = directory.write("m-00004-of-00003.gguf", GgufBuilder().build());
  EXPECT_THROW(GgufFile::open(zero), Error);
}

}  // namespace
}  // namespace cheetah
