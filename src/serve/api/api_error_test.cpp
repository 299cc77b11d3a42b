// SPDX-License-Identifier: MIT
#include "serve/api/api_error.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace cheetah {
namespace {

TEST(ApiErrorTest, SpeaksBothDialects) {
  const ApiError error{.status = 400, .message = "bad \"x\"", .param = "x", .code = "invalid_value"};
  EXPECT_EQ(Json::parse(error_body(error, ApiStyle::kOpenAi)),
      (Json{{"error", {{"message", "bad \"x\""}, {"type", "invalid_request_error"}, {"param", "x"},
                          {"code", "invalid_value"}}}}));
  EXPECT_EQ(Json::parse(error_body(error, ApiStyle::kAnthropic)),
      (Json{{"type", "error"}, {"error", {{"type", "invalid_request_error"}, {"message", "bad \"x\""}}}}));
}

TEST(ApiErrorTest, NamesWhatIsAbsentAsNull) {
  EXPECT_EQ(Json::parse(error_body({.status = 503, .message = "full"}, ApiStyle::kOpenAi)),
      (Json{{"error",
          {{"message", "full"}, {"type", "overloaded_error"}, {"param", nullptr}, {"code", nullptr}}}}));
}

}  // namespace
}  // namespace cheetah
