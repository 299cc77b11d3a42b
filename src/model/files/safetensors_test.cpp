// SPDX-License-Identifier: MIT
#include "model/files/safetensors.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/resource.h>

#include "base/error.h"
#include "model/files/model_test_files.h"

namespace cheetah {
namespace {

using test::as_bytes;
using test::le;
using test::safetensors_file;

struct BadFile {
  const char* rule;
  std::string bytes;
  const char* message;  // must be part of the error
};

std::string error_of(const std::string& bytes) {
  try {
    SafetensorsFile::parse(as_bytes(bytes), "bad.safetensors");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void expect_errors(const std::vector<BadFile>& files) {
  for (const BadFile& file : files) {
    const std::string error = error_of(file.bytes);
    EXPECT_TRUE(error.starts_with("bad.safetensors: ")) << file.rule << ": " << error;
    EXPECT_NE(error.find(file.message), std::string::npos) << file.rule << ": " << error;
  }
}

// A file with one entry, written by hand, and eight bytes of data.
std::string with_entry(const std::string& entry) {
  return safetensors_file("{\"x\":" + entry + "}", "12345678");
}

const std::string kTwoTensors =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F16","shape":[2,3],"data_offsets":[0,12]},)"
    R"("a":{"dtype":"I64","shape":[],"data_offsets":[12,20]},"e":{"dtype":"U8","shape":[0,7],"data_offsets":[20,20]}}   )";

TEST(Safetensors, ShowsTensorsAndMetadataWithoutACopy) {
  const std::string bytes = safetensors_file(kTwoTensors, std::string(20, 'd'));
  const SafetensorsFile file = SafetensorsFile::parse(as_bytes(bytes), "good");
  EXPECT_EQ(file.metadata().at("format"), "pt");
  ASSERT_EQ(file.tensors().size(), 3u);
  const TensorView& view = file.tensors().at("b");
  EXPECT_EQ(view.dtype, DType::kF16);
  EXPECT_EQ(view.shape, (Shape{2, 3}));
  EXPECT_EQ(view.data, as_bytes(bytes).data() + bytes.size() - 20);
  EXPECT_EQ(file.tensors().at("a").shape.rank(), 0);
  EXPECT_EQ(file.tensors().at("a").data, view.data + 12);
  EXPECT_EQ(file.tensors().at("e").bytes(), 0);
}

TEST(Safetensors, AFileWithoutTensorsIsGood) {
  EXPECT_EQ(error_of(safetensors_file("{}", "")), "");
  EXPECT_EQ(error_of(safetensors_file(R"({"__metadata__":{}})", "")), "");
}

// The first bytes are a number and may look like anything: 0x0280 is also how a pickle starts.
TEST(Safetensors, AHeaderLengthThatLooksLikeAnotherFormatIsGood) {
  for (const size_t length : {0x0280u, 0x0480u, 0x8b1fu}) {
    const std::string header = "{}" + std::string(length - 2, ' ');
    EXPECT_EQ(error_of(safetensors_file(header, "")), "");
  }
}

TEST(Safetensors, RefusesABadHeaderLength) {
  expect_errors({
      {"0 bytes", "", "the file is empty"},
      {"7 bytes", std::string(7, '\0'), "file has 7 bytes, need 8"},
      {"8 bytes", le(uint64_t{8}), "exceeds the 8 bytes of the file"},
      {"length 0", le(uint64_t{0}) + "{}", "header length 0 is too small"},
      {"length 1", le(uint64_t{1}) + "{}", "header length 1 is too small"},
      {"length 2^63", le(uint64_t{1} << 63) + "{}", "exceeds the limit"},
      {"length 2^64-1", le(~uint64_t{0}) + "{}", "exceeds the limit"},
      {"length 100,000,001", le(uint64_t{100'000'001}) + "{}", "exceeds the limit"},
      {"length 100,000,000 in a small file", le(uint64_t{100'000'000}) + "{}", "exceeds the 10 bytes"},
      {"length over the file", le(uint64_t{3}) + "{}", "exceeds the 10 bytes"},
  });
}

TEST(Safetensors, RefusesABadHeader) {
  expect_errors({
      {"not UTF-8", safetensors_file("{\"\xff\":1}", ""), "invalid JSON at byte"},
      {"not JSON", safetensors_file("{\"a\":}", ""), "invalid JSON at byte"},
      {"an array", safetensors_file("[]", ""), "expected an object"},
      {"padded in front", safetensors_file(" {}", ""), "expected an object"},
      {"two objects", safetensors_file("{}{}", ""), "invalid JSON at byte"},
      {"nested deeply", safetensors_file("{\"a\":" + std::string(5000, '['), ""), "nested deeper"},
      {"duplicate tensor", safetensors_file(R"({"x":1,"x":1})", ""), "\"x\" stands twice"},
      {"metadata not an object", safetensors_file(R"({"__metadata__":[]})", ""), "invalid metadata"},
      {"metadata value not a string", safetensors_file(R"({"__metadata__":{"a":1}})", ""),
          "invalid metadata"},
      {"metadata value of 10 MiB",
          safetensors_file(R"({"__metadata__":{"a":")" + std::string(10 << 20, 'x') + "\"}}", ""),
          "invalid metadata"},
      {"empty name", safetensors_file(R"({"":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})", "1"),
          "the name has 0 bytes"},
      {"name of 1025 bytes",
          safetensors_file(
              "{\"" + std::string(1025, 'n') + R"(":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})", "1"),
          "the name has 1025 bytes"},
  });
}

TEST(Safetensors, RefusesABadEntry) {
  expect_errors({
      {"entry not an object", with_entry("3"), "expected an object"},
      {"unknown field", with_entry(R"({"dtype":"U8","shape":[8],"data_offsets":[0,8],"extra":1})"),
          "unknown field \"extra\""},
      {"dtype F13", with_entry(R"({"dtype":"F13","shape":[8],"data_offsets":[0,8]})"),
          "tensor \"x\": unknown dtype \"F13\""},
      {"dtype of GGUF", with_entry(R"({"dtype":"Q4_0","shape":[32],"data_offsets":[0,8]})"), "unknown dtype"},
      {"dtype missing", with_entry(R"({"shape":[8],"data_offsets":[0,8]})"), "dtype is missing"},
      {"dtype a number", with_entry(R"({"dtype":1,"shape":[8],"data_offsets":[0,8]})"), "dtype is number"},
      {"shape missing", with_entry(R"({"dtype":"U8","data_offsets":[0,8]})"), "shape is missing"},
      {"shape negative", with_entry(R"({"dtype":"U8","shape":[-8],"data_offsets":[0,8]})"), "dimension -8"},
      {"shape a float", with_entry(R"({"dtype":"U8","shape":[8.0],"data_offsets":[0,8]})"), "dimension 8.0"},
      {"nine dimensions", with_entry(R"({"dtype":"U8","shape":[1,1,1,1,1,1,1,1,8],"data_offsets":[0,8]})"),
          "9 dimensions"},
      {"dimension 2^63", with_entry(R"({"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,8]})"),
          "too large"},
      {"product 2^64", with_entry(R"({"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]})"),
          "overflows"},
      {"bytes 2^64", with_entry(R"({"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]})"),
          "overflows"},
      {"overflow beside a zero",
          with_entry(R"({"dtype":"U8","shape":[4294967296,4294967296,0],"data_offsets":[0,0]})"),
          "overflows"},
      {"size and shape disagree", with_entry(R"({"dtype":"F16","shape":[8],"data_offsets":[0,8]})"),
          "8 bytes declared, shape [8] F16 needs 16"},
  });
}

TEST(Safetensors, RefusesBadOffsets) {
  const auto two = [](const char* a, const char* b) {
    return safetensors_file(
        format(
            R"({{"x":{{"dtype":"U8","shape":[4],"data_offsets":{}}},"y":{{"dtype":"U8","shape":[4],"data_offsets":{}}}}})",
            a, b),
        "12345678");
  };
  expect_errors({
      {"missing", with_entry(R"({"dtype":"U8","shape":[8]})"), "data_offsets must be"},
      {"three", with_entry(R"({"dtype":"U8","shape":[8],"data_offsets":[0,8,8]})"), "data_offsets must be"},
      {"a string", with_entry(R"({"dtype":"U8","shape":[8],"data_offsets":["0",8]})"),
          "data_offsets must be"},
      {"negative", with_entry(R"({"dtype":"U8","shape":[8],"data_offsets":[-8,0]})"), "data_offsets must be"},
      {"reversed", with_entry(R"({"dtype":"U8","shape":[8],"data_offsets":[8,0]})"), "reversed"},
      {"past the end", with_entry(R"({"dtype":"U8","shape":[9],"data_offsets":[0,9]})"),
          "past the file's 8 bytes"},
      {"2^64-1", with_entry(R"({"dtype":"U8","shape":[8],"data_offsets":[0,18446744073709551615]})"),
          "past the file's"},
      {"hole at the start", with_entry(R"({"dtype":"U8","shape":[7],"data_offsets":[1,8]})"),
          "not contiguous after the header"},
      {"same bytes twice", two("[0,4]", "[0,4]"), "not contiguous after \"x\""},
      {"overlap", two("[0,4]", "[3,7]"), "not contiguous after \"x\""},
      {"hole",
          safetensors_file(
              R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"y":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
              "12345678"),
          "not contiguous after \"x\""},
      {"trailing bytes", with_entry(R"({"dtype":"U8","shape":[5],"data_offsets":[0,5]})"),
          "3 bytes not covered by the header"},
      {"only trailing bytes", safetensors_file("{}", "123"), "3 bytes not covered by the header"},
  });
  EXPECT_EQ(error_of(two("[4,8]", "[0,4]")), "") << "the order in the header is free";
}

TEST(Safetensors, AFileCutAnywhereIsAnError) {
  const std::string bytes = safetensors_file(kTwoTensors, std::string(20, 'd'));
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_NE(error_of(bytes.substr(0, size)), "") << "cut at " << size;
}

TEST(Safetensors, ARealFileCutAtAThousandPlacesIsAnError) {
  const MappedFile whole =
      MappedFile::open(std::string(CHEETAH_SOURCE_DIR) + "/tests/models/llama/model.safetensors");
  const auto bytes = whole.bytes();
  EXPECT_NO_THROW(SafetensorsFile::parse(bytes, "whole"));
  for (size_t i = 0; i < 1000; ++i)
    EXPECT_THROW(SafetensorsFile::parse(bytes.first(bytes.size() * i / 1000), "cut"), Error) << i;
}

TEST(Safetensors, AFileWithAnyByteChangedIsReadOrRefused) {
  const std::string good = safetensors_file(kTwoTensors, std::string(20, 'd'));
  EXPECT_TRUE(rc::check("one changed byte", [&] {
    std::string bytes = good;
    bytes[*rc::gen::inRange<size_t>(0, bytes.size())] = *rc::gen::arbitrary<char>();
    error_of(bytes);
  }));
}

#ifndef CHEETAH_SANITIZED  // a sanitizer reserves more address space than the limit
TEST(SafetensorsDeathTest, ALyingSizeAllocatesNothing) {
  const auto parse_with_little_memory = [] {
    const rlimit limit{uint64_t{512} << 20, uint64_t{512} << 20};
    setrlimit(RLIMIT_AS, &limit);
    const std::vector<std::string> files = {
        le(uint64_t{100'000'000}) + "{}",
        le(uint64_t{1} << 60) + "{}",
        with_entry(R"({"dtype":"U8","shape":[1152921504606846976],"data_offsets":[0,1152921504606846976]})"),
    };
    for (const std::string& file : files)
      if (error_of(file).empty()) std::_Exit(1);  // std::bad_alloc ends the process too
    std::_Exit(0);
  };
  EXPECT_EXIT(parse_with_little_memory(), ::testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace cheetah
