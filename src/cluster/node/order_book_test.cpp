// SPDX-License-Identifier: MIT
#include "cluster/node/order_book.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/random.h"

namespace cheetah::cluster {
namespace {

constexpr WorkerId kA{0xa}, kB{0xb};

TEST(OrderBook, BooksThatHearTheSameOrdersInAnyOrderAreEqual) {
  Philox draw(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<Order> orders;
    for (uint64_t i = 0; i < 30; ++i)
      orders.push_back(
          {format("cordon/n{}", draw.next_u32() % 5), draw.next_u32() % 3 == 0 ? "" : format("{}", i),
              1 + draw.next_u32() % 10, draw.next_u32() % 2 == 0 ? kA : kB});
    // Two wishes of one version and one node are no orders that a node gives.
    std::ranges::sort(orders, {}, [](const Order& o) { return std::tuple(o.subject, o.version, o.by); });
    const auto same = [](const Order& a, const Order& b) {
      return std::tuple(a.subject, a.version, a.by) == std::tuple(b.subject, b.version, b.by);
    };
    orders.erase(std::unique(orders.begin(), orders.end(), same), orders.end());
    OrderBook one, other;
    one.merge(orders);
    std::ranges::reverse(orders);
    for (const Order& order : orders) other.merge({order});
    EXPECT_EQ(one.all(), other.all());
    EXPECT_TRUE(one.merge(other.all()).empty()) << "nothing in it is new";
  }
}

TEST(OrderBook, ANewOrderCountsEverywhereAndALiftedOneStaysLifted) {
  OrderBook here, there;
  const Order cordon = here.give(cordon_subject("d1"), "cordon", kA);
  EXPECT_EQ(there.merge({cordon}).size(), 1u);
  EXPECT_TRUE(there.cordon("d1", kB));
  EXPECT_FALSE(there.cordon("d2", kB));
  const Order lifted = there.give(cordon_subject("d1"), "", kB);
  EXPECT_EQ(here.merge({lifted}).size(), 1u);
  EXPECT_FALSE(here.cordon("d1", kB));
  EXPECT_TRUE(here.merge({cordon}).empty()) << "a late word of the order brings it back";
}

TEST(OrderBook, ReadsItsWishes) {
  OrderBook book;
  book.give(cordon_subject("d1"), text_of(CordonWish{std::chrono::milliseconds(1500)}), kA);
  EXPECT_EQ(book.cordon("d1", kB), CordonWish{std::chrono::milliseconds(1500)});
  book.give(cordon_subject(id_text(kB)), text_of(CordonWish{}), kA);
  EXPECT_EQ(book.cordon("d1", kB), CordonWish{}) << "the id is more exact than the name";
  book.give(role_subject("d1"), "prefill", kA);
  EXPECT_EQ(book.role("d1", kA), Role::kPrefill);
  EXPECT_EQ(book.role("d2", kA), std::nullopt);
  book.give(replicas_subject("decode"), "12", kA);
  EXPECT_EQ(book.replicas("decode"), 12);
  book.give(replicas_subject("decode"), "many", kA);
  EXPECT_EQ(book.replicas("decode"), std::nullopt);
}

TEST(OrderBook, WhatNobodyCouldPassOrReadIsNotTaken) {
  OrderBook book;
  book.give(cordon_subject("d1"), "", kA);
  EXPECT_TRUE(book.merge({{cordon_subject("d1"), "cordon", uint64_t{1} << 60, kB}}).empty());
  EXPECT_TRUE(book.merge({{"", "cordon", 5, kB}}).empty());
  EXPECT_TRUE(book.merge({{"cordon/d", std::string(5000, 'x'), 5, kB}}).empty());
  EXPECT_TRUE(book.merge({{"cordon/d", "cordon", 0, kB}}).empty());
  EXPECT_FALSE(book.cordon("d1", kA));
}

TEST(OrderBook, ForgetsTheOldestLiftedOrdersAndRefusesTooMany) {
  OrderBook book;
  for (size_t i = 0; i < 4 * OrderBook::kMostSubjects; ++i) {
    book.give(format("cordon/n{}", i), "cordon", kA);
    book.give(format("cordon/n{}", i), "", kA);
  }
  EXPECT_LE(book.all().size(), OrderBook::kMostSubjects);
  for (size_t i = book.all().size(); i < 2 * OrderBook::kMostSubjects; ++i) {
    try {
      book.give(format("role/n{}", i), "decode", kA);
    } catch (const UsageError&) {
      EXPECT_GE(book.all().size(), OrderBook::kMostSubjects);
      return;
    }
  }
  FAIL() << "a book takes any number of orders";
}

TEST(OrderBook, AnOrderInTheRegistryIsReadAsItWasWritten) {
  const Order order{"cordon/d1", "drain 500", 42, kB};
  EXPECT_EQ(order_of(order.subject, order_text(order)), order);
  for (const char* text :
      {"", "[]", "{\"wish\":1,\"version\":2}", "{\"wish\":\"cordon\"}", "{\"wish\":\"a\",\"version\":-1}"})
    EXPECT_FALSE(order_of("cordon/d1", text)) << text;
}

}  // namespace
}  // namespace cheetah::cluster
