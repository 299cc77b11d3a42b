// SPDX-License-Identifier: MIT
#include "cluster/registry/etcd_messages.h"

#include <gtest/gtest.h>

#include "base/base64.h"
#include "base/error.h"

namespace cheetah::cluster {
namespace {

constexpr std::string_view kRoot = "/cheetah/c/";

TEST(EtcdMessages, TheEndOfAPrefixIsAboveAllThatStartsWithIt) {
  EXPECT_EQ(etcd::end_of_prefix("/a/"), "/a0");
  EXPECT_EQ(etcd::end_of_prefix("a\xff"), "b");
  EXPECT_EQ(etcd::end_of_prefix("\xff"), std::string(1, '\0'));
}

TEST(EtcdMessages, AWatchLineBecomesChanges) {
  const std::string key = base64_of("/cheetah/c/workers/1"), value = base64_of("x");
  const Json line = parse_json(
      R"({"result":{"header":{"revision":"9"},"events":[{"kv":{"key":")" + key + R"(","value":")" + value +
          R"(","mod_revision":"8"}},{"type":"DELETE","kv":{"key":")" + key + R"(","mod_revision":9}}]}})",
      "test");
  const auto watch = etcd::read_watch(line, kRoot);
  EXPECT_EQ(watch.revision, 9);
  ASSERT_EQ(watch.changes.size(), 2u);
  EXPECT_EQ(watch.changes[0].entry, (RegistryEntry{"workers/1", "x", 8}));
  EXPECT_TRUE(watch.changes[1].removed);
}

TEST(EtcdMessages, WhatIsOutOfPlaceIsAnError) {
  const std::string key = base64_of("/other/c/k");
  for (const std::string& text : std::vector<std::string>{R"([])", R"({})", R"({"result":[]})",
           R"({"error":{"message":"no"}})", R"({"result":{"events":{}}})", R"({"result":{"events":[{}]}})",
           R"({"result":{"events":[{"kv":{"key":"*","mod_revision":"1"}}]}})",
           R"({"result":{"header":{"revision":"x"}}})",
           std::string(R"({"result":{"events":[{"kv":{"key":")")
               .append(key)
               .append(R"(","mod_revision":"1"}}]}})")}) {
    EXPECT_THROW(etcd::read_watch(parse_json(text, "test"), kRoot), Error) << text;
  }
  for (const char* text :
      {R"({})", R"({"header":{"revision":"0"}})", R"({"header":{"revision":"3"},"kvs":[{"key":""}]})"}) {
    EXPECT_THROW(etcd::read_range(parse_json(text, "test"), kRoot), Error) << text;
  }
  EXPECT_THROW(etcd::read_grant(parse_json(R"({"ID":"0","TTL":"5"})", "test")), Error);
  EXPECT_THROW(etcd::read_keep_alive(parse_json(R"({"TTL":"5"})", "test")), Error);
  EXPECT_THROW(etcd::read_transaction(parse_json(R"({"responses":[{}]})", "test"), kRoot), Error);
}

}  // namespace
}  // namespace cheetah::cluster
