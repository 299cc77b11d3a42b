// SPDX-License-Identifier: MIT
#include "cluster/policy/shares.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace cheetah::cluster {
namespace {

constexpr int kPremium = 0, kStandard = 1, kFree = 2;
const std::vector<QosClass> kTiers = {{.name = "premium", .reserved = 0.1, .priority = 100},
    {.name = "standard", .reserved = 0.3, .priority = 50}, {.name = "free", .reserved = 0.0, .priority = 10}};

Shares of_hundred(double borrow_limit = 1) {
  Shares shares(kTiers, borrow_limit);
  shares.resize(100);
  return shares;
}

bool take(Shares& shares, int class_index, int64_t places) {
  const ShareAnswer answer = shares.ask(class_index, places);
  if (answer.granted) shares.take(class_index, places, answer.give_back);
  return answer.granted;
}

TEST(Shares, ReservationsAreRoundedDownWithoutLosingAWholePlace) {
  Shares shares(std::vector<QosClass>{{.name = "a", .reserved = 0.29}}, 1);
  shares.resize(100);
  EXPECT_EQ(shares.reserved(0), 29);
}

TEST(Shares, IdleReservationsAreLentUpToTheLimit) {
  Shares shares = of_hundred(0.5);
  for (int i = 0; i < 80; ++i) {
    EXPECT_EQ(shares.ask(kFree, 1).borrowed, i < 60 ? 0 : 1);
    EXPECT_TRUE(take(shares, kFree, 1));
  }
  EXPECT_FALSE(take(shares, kFree, 1));  // half of the 40 reserved and idle ones
}

TEST(Shares, WhatWasLentComesBackOnDemandFromTheLowestPriority) {
  Shares shares = of_hundred();
  ASSERT_TRUE(take(shares, kFree, 80));
  ASSERT_TRUE(take(shares, kStandard, 20));
  const ShareAnswer answer = shares.ask(kPremium, 10);
  ASSERT_TRUE(answer.granted);
  EXPECT_EQ(answer.give_back, (std::vector<GiveBack>{{kFree, 10}}));
  shares.take(kPremium, 10, answer.give_back);
  EXPECT_EQ(
      shares.ask(kStandard, 10).give_back, (std::vector<GiveBack>{{kFree, 10}}));  // not the same ten again
  EXPECT_FALSE(shares.ask(kFree, 1).granted);
  shares.release("free", 10);
  EXPECT_FALSE(shares.ask(kFree, 1).granted);
}

TEST(Shares, AClassThatMayNotBorrowStaysWithinWhatIsUnreserved) {
  std::vector<QosClass> tiers = kTiers;
  tiers[kFree].may_borrow = false;
  Shares shares(tiers, 1);
  shares.resize(100);
  EXPECT_TRUE(take(shares, kFree, 60));
  EXPECT_FALSE(take(shares, kFree, 1));
}

TEST(Shares, NewClassesKeepWhatIsInUseByName) {
  Shares shares = of_hundred();
  ASSERT_TRUE(take(shares, kPremium, 5));
  shares.reconfigure({{.name = "other"}, {.name = "premium", .reserved = 0.2}}, 1);
  EXPECT_EQ(shares.in_use(1), 5);
  EXPECT_EQ(shares.reserved(1), 20);
  shares.release("free", 3);  // of a class that is gone
  shares.release("premium", 9);
  EXPECT_EQ(shares.total_in_use(), 0);
}

// Any order of arrivals and ends, with those asked to give back doing so at once: the cluster is never over
// full, and a class below its reservation always gets its place.
TEST(Shares, ReservedSharesHoldUnderAnyArrivalOrder) {
  EXPECT_TRUE(rc::check([] {
    Shares shares(kTiers, *rc::gen::element(0.0, 0.5, 1.0));
    shares.resize(*rc::gen::inRange(1, 80));
    const int steps = *rc::gen::inRange(1, 150);
    for (int i = 0; i < steps; ++i) {
      const int c = *rc::gen::inRange(0, 3);
      const int64_t places = *rc::gen::inRange(1, 4);
      if (*rc::gen::inRange(0, 3) == 0) {
        shares.release(kTiers[static_cast<size_t>(c)].name, std::min(places, shares.in_use(c)));
      } else {
        const ShareAnswer answer = shares.ask(c, places);
        if (shares.in_use(c) + places <= shares.reserved(c)) RC_ASSERT(answer.granted);
        if (answer.granted) shares.take(c, places, answer.give_back);
        for (const GiveBack& back : answer.give_back) {
          RC_ASSERT(answer.granted && back.class_index != c);
          RC_ASSERT(shares.in_use(back.class_index) - back.places >= shares.reserved(back.class_index));
          shares.release(kTiers[static_cast<size_t>(back.class_index)].name, back.places);
        }
      }
      shares.check_invariants();
      RC_ASSERT(shares.total_in_use() <= shares.capacity());
    }
  }));
}

// Those asked to give back finish only when they do: then every borrowed place has returned once they have.
TEST(Shares, BorrowedPlacesReturnEvenWhenTheyAreSlow) {
  EXPECT_TRUE(rc::check([] {
    Shares shares = of_hundred();
    while (take(shares, kFree, 1)) {
    }
    RC_ASSERT(shares.in_use(kFree) == 100);
    int64_t asked_back = 0;
    for (int i = 0; i < 10; ++i) {
      const ShareAnswer answer = shares.ask(kPremium, 1);
      RC_ASSERT(answer.granted);
      for (const GiveBack& back : answer.give_back) asked_back += back.places;
      shares.take(kPremium, 1, answer.give_back);
      if (*rc::gen::arbitrary<bool>()) shares.release("free", 1);
      shares.check_invariants();
    }
    RC_ASSERT(asked_back <= 10);
    while (shares.total_in_use() > 100) shares.release("free", 1);
    RC_ASSERT(shares.in_use(kPremium) == 10);
    RC_ASSERT(shares.in_use(kFree) >= 90 - 10);
  }));
}

}  // namespace
}  // namespace cheetah::cluster
