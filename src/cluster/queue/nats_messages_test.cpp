// SPDX-License-Identifier: MIT
#include "cluster/queue/nats_messages.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace cheetah::cluster {
namespace {

TEST(NatsMessages, OnlyAClearYesIsQueued) {
  EXPECT_EQ(nats::read_push_answer(R"({"stream":"S","seq":3})"), PushResult::kQueued);
  EXPECT_EQ(nats::read_push_answer(R"({"stream":"S","seq":3,"duplicate":true})"), PushResult::kDuplicate);
  EXPECT_EQ(nats::read_push_answer(
                R"({"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"}})"),
      PushResult::kFull);
  for (const char* text : {"", "{}", "[]", R"({"seq":0})", R"({"seq":"3"})",
           R"({"error":{"code":503,"err_code":10039}})", R"({"error":"no"})", "\xff"})
    EXPECT_EQ(nats::read_push_answer(text), PushResult::kUnavailable) << text;
}

TEST(NatsMessages, DeliveriesAreReadFromBothFormsOfTheSubject) {
  EXPECT_EQ(nats::deliveries_in("$JS.ACK.S.C.2.10.11.1700000000.0"), 2);
  EXPECT_EQ(nats::deliveries_in("$JS.ACK.domain.hash.S.C.3.10.11.1700000000.0.token"), 3);
  for (const char* text :
      {"", "$JS.ACK.S.C", "a.b.c.d.e.f.g.h.i", "$JS.ACK.S.C.x.10.11.1.0", "$JS.ACK.S.C.0.10.11.1.0"})
    EXPECT_FALSE(nats::deliveries_in(text)) << text;
  EXPECT_TRUE(rc::check([](const std::string& text) {
    nats::deliveries_in("$JS.ACK." + text);
    nats::read_push_answer(text);
  }));
}

}  // namespace
}  // namespace cheetah::cluster
