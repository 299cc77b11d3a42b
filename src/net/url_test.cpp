// SPDX-License-Identifier: MIT
#include "net/url.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace cheetah {
namespace {

constexpr UrlRules kApi{.path = "/v1"};

TEST(Url, IsMadeWhole) {
  EXPECT_EQ(parse_url("http://127.0.0.1:8080", kApi).text(), "http://127.0.0.1:8080/v1");
  EXPECT_EQ(parse_url("localhost:9/", kApi).text(), "http://localhost:9/v1");
  EXPECT_EQ(
      parse_url("https://api.example.com/openai/v1/", kApi).text(), "https://api.example.com/openai/v1");
  EXPECT_EQ(parse_url("https://api.example.com", kApi).port, "443");
  EXPECT_EQ(parse_url("http://[::1]:80/x", kApi).host, "::1");
  EXPECT_EQ(parse_url("http://[::1]:81", kApi).host_header(), "[::1]:81");
  EXPECT_EQ(parse_url("http://collector", {.port = "4318"}).text(), "http://collector:4318");
}

TEST(Url, RefusesWhatItCannotUse) {
  for (const char* bad : {"", "http://", "ftp://host", "http://host:0", "http://host:99999", "http://host:x",
           "http://:80", "http://[::1", "http://[::1]x", "http://user:pw@host", "http://host/?q",
           "http://host/#f", "http://a b", "http://host:"})
    EXPECT_THROW(parse_url(bad, kApi), UsageError) << bad;
  EXPECT_THROW(parse_url("host:80", {.needs_scheme = true}), UsageError);
}

}  // namespace
}  // namespace cheetah
