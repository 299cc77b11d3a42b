// SPDX-License-Identifier: MIT
#include "serve/http/multipart.h"

#include <gtest/gtest.h>

namespace cheetah {
namespace {

constexpr const char* kType = "multipart/form-data; boundary=\"x y\"";
const std::string kBody =
    "--x y\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
    "--x y\r\ncontent-type: text/plain\r\ncontent-disposition: form-data; name=file; filename=\"a \\\"b\\\".jsonl\"\r\n"
    "\r\n{\"a\":1}\r\n\r\n--x y--\r\n";

TEST(Multipart, GivesFieldsAndFiles) {
  const auto parts = parse_form(kType, kBody);
  ASSERT_TRUE(parts);
  ASSERT_EQ(parts->size(), 2u);
  EXPECT_EQ((*parts)[0].name, "purpose");
  EXPECT_EQ((*parts)[0].content, "batch");
  EXPECT_EQ((*parts)[1].filename, "a \"b\".jsonl");
  EXPECT_EQ((*parts)[1].content, "{\"a\":1}\r\n");
}

TEST(Multipart, RefusesEveryTruncation) {
  for (size_t length = 0; length < kBody.size() - 4; ++length)
    EXPECT_FALSE(parse_form(kType, std::string_view(kBody).substr(0, length))) << length;
  EXPECT_FALSE(parse_form("application/json", kBody));
  EXPECT_FALSE(parse_form("multipart/form-data", kBody));
  EXPECT_FALSE(parse_form("multipart/form-data; boundary=z", kBody));
}

}  // namespace
}  // namespace cheetah
