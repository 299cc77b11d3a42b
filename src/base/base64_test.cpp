// SPDX-License-Identifier: MIT
#include "base/base64.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace cheetah {
namespace {

TEST(Base64, EveryByteStringComesBack) {
  EXPECT_TRUE(rc::check([](const std::string& bytes) { RC_ASSERT(from_base64(base64_of(bytes)) == bytes); }));
  EXPECT_EQ(base64_of("fo"), "Zm8=");
  EXPECT_EQ(from_base64("Zm9v"), "foo");
}

TEST(Base64, WhatIsNotBase64IsRefused) {
  for (const char* text : {"Z", "Zm8", "Zm8*", "====", "Z===", "Zm=v", "Zm9v\n"})
    EXPECT_FALSE(from_base64(text)) << text;
}

}  // namespace
}  // namespace cheetah
