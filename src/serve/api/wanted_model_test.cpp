// SPDX-License-Identifier: MIT
#include "serve/api/wanted_model.h"

#include <gtest/gtest.h>

namespace cheetah {
namespace {

TEST(WantedModel, IsTheBodysOwnField) {
  EXPECT_EQ(wanted_model(R"({"messages":[{"model":"no"}],"model":"a/b"})").name, "a/b");
  EXPECT_EQ(wanted_model(R"({"name":"old","stream":true})").name, "old");
  EXPECT_EQ(wanted_model(R"({"model":"new","name":"old"})").name, "new");
  EXPECT_EQ(wanted_model(R"({"model":7})").name, "");
  EXPECT_EQ(wanted_model(R"({"model":"a")").name, "") << "its parser says what is wrong";
  EXPECT_EQ(wanted_model("").name, "");
  EXPECT_EQ(wanted_model(std::string(100, '[')).name, "");
}

TEST(WantedModel, ReadsHowLongToKeepIt) {
  EXPECT_EQ(wanted_model(R"({"model":"a"})").keep_alive_s, std::nullopt);
  EXPECT_EQ(wanted_model(R"({"keep_alive":0})").keep_alive_s, 0);
  EXPECT_EQ(wanted_model(R"({"keep_alive":-1})").keep_alive_s, -1);
  EXPECT_EQ(wanted_model(R"({"keep_alive":"5m"})").keep_alive_s, 300);
  EXPECT_EQ(wanted_model(R"({"options":{"keep_alive":0}})").keep_alive_s, std::nullopt);
}

TEST(GoDuration, IsReadAsGoWritesIt) {
  EXPECT_EQ(go_duration_s("1h30m"), 5400);
  EXPECT_EQ(go_duration_s("-1m"), -60);
  EXPECT_EQ(go_duration_s("300"), 300);
  EXPECT_EQ(go_duration_s("1.5s"), 1.5);
  EXPECT_EQ(go_duration_s("250ms"), 0.25);
  for (const char* wrong : {"", "-", "m", "5 m", "5x", "1.2.3s", "x"})
    EXPECT_EQ(go_duration_s(wrong), std::nullopt) << wrong;
}

}  // namespace
}  // namespace cheetah
