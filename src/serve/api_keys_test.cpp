// SPDX-License-Identifier: MIT
#include "serve/api_keys.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace cheetah {
namespace {

using std::chrono::milliseconds;

TEST(ApiKeys, LetEveryoneInWhenThereAreNone) {
  const ApiKeys keys;
  EXPECT_FALSE(keys.required());
  EXPECT_EQ(keys.find("anything"), keys.find(""));
  EXPECT_NE(keys.find(""), nullptr);
}

TEST(ApiKeys, FindTheTenantOfAKeyAndNoOther) {
  const ApiKeys keys =
      ApiKeys::parse("# team keys\n\nalice alices-key rpm=60\nbobs-long-key   # no name\r\n", "keys", {});
  EXPECT_EQ(keys.size(), 2u);
  EXPECT_EQ(keys.find("alices-key")->name(), "alice");
  EXPECT_EQ(keys.find("bobs-long-key")->name(), "key-2");
  EXPECT_NE(keys.find("alices-key")->cache_salt(), keys.find("bobs-long-key")->cache_salt());
  for (const char* wrong : {"", "alice", "alices-ke", "alices-key1", "ALICES-KEY"})
    EXPECT_EQ(keys.find(wrong), nullptr);
}

TEST(ApiKeys, NameTheLineThatIsWrong) {
  for (const char* text : {"short", "a long-enough-key rate=5", "a long-enough-key rpm=0",
           "a long-enough-key rpm=x", "a long-enough-key concurrent=", "\n# only a comment\n"}) {
    try {
      ApiKeys::parse(text, "keys.txt", {});
      ADD_FAILURE() << text;
    } catch (const UsageError& error) {
      EXPECT_EQ(std::string(error.what()).substr(0, 8), "keys.txt") << text;
    }
  }
}

TEST(Tenant, MayCallAsOftenAsItsRateSays) {
  Tenant tenant("t", "", {.requests_per_minute = 60});
  ServeTime now{};
  int taken = 0;
  while (!tenant.over_rate(now)) ++taken;
  EXPECT_EQ(taken, 60);  // a minute's at once
  const double wait = *tenant.over_rate(now);
  EXPECT_NEAR(wait, 1, 1e-6);
  now += milliseconds(999);
  EXPECT_TRUE(tenant.over_rate(now));
  now += milliseconds(1);
  EXPECT_FALSE(tenant.over_rate(now));
  // Over ten minutes no more than the rate and the burst come through.
  int64_t through = 0;
  for (int i = 0; i < 6000; ++i) {
    now += milliseconds(100);
    through += !tenant.over_rate(now);
  }
  EXPECT_LE(through, 660);
  EXPECT_GE(through, 599);
}

TEST(Tenant, StartsWithAFullBucket) {
  Tenant tenant("t", "", {.requests_per_minute = 3});
  ServeTime now{};
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(tenant.over_rate(now)) << i;
  EXPECT_NEAR(*tenant.over_rate(now), 20, 1e-6);
}

TEST(Tenant, RunsAsManyAtOnceAsItMay) {
  Tenant tenant("t", "", {.concurrent = 2});
  EXPECT_TRUE(tenant.try_acquire());
  EXPECT_TRUE(tenant.try_acquire());
  EXPECT_FALSE(tenant.try_acquire());
  tenant.release();
  EXPECT_TRUE(tenant.try_acquire());
}

}  // namespace
}  // namespace cheetah
