// SPDX-License-Identifier: MIT
#include "cluster/registry/known_map.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace cheetah::cluster {
namespace {

using Kind = RegistryEvent::Kind;
constexpr Time kStart{};
constexpr Duration kGrace = std::chrono::seconds(10);

Registry::Entries map_of(const std::vector<RegistryEntry>& entries) {
  Registry::Entries map;
  for (const RegistryEntry& entry : entries) map[entry.key] = entry;
  return map;
}

TEST(KnownMap, LateChangesDoNotUndoLaterOnes) {
  KnownMap map(kGrace);
  std::vector<RegistryEvent> events;
  map.put({"k", "new", 5}, events);
  map.put({"k", "old", 4}, events);
  map.remove("k", 4, events);
  EXPECT_EQ(events.size(), 1u);
  EXPECT_EQ(map.entries().at("k").value, "new");
}

TEST(KnownMap, WhatAWholeStateLacksIsRemovedOnlyAfterItsGrace) {
  KnownMap map(kGrace);
  std::vector<RegistryEvent> events;
  map.replace_all(map_of({{"a", "x", 1}, {"b", "x", 2}}), kStart, events);
  events.clear();
  map.replace_all({}, kStart + kGrace, events);
  EXPECT_TRUE(events.empty());
  EXPECT_EQ(map.next_expiry(), kStart + 2 * kGrace);
  map.put({"a", "x", 1}, events);  // the service has lost its data and counts from the beginning
  map.expire(kStart + 2 * kGrace, events);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].kind, Kind::kRemove);
  EXPECT_EQ(events[1].entry.key, "b");
  EXPECT_EQ(map.entries().size(), 1u);
}

TEST(KnownMap, TheEventsToldSoFarGiveTheMap) {
  EXPECT_TRUE(rc::check([](const std::vector<std::tuple<uint8_t, uint8_t, uint8_t>>& steps) {
    KnownMap map(kGrace);
    Registry::Entries told;
    Time now = kStart;
    for (const auto& [what, key_number, number] : steps) {
      std::vector<RegistryEvent> events;
      const std::string key(1, static_cast<char>('a' + key_number % 4));
      now += std::chrono::seconds(number % 8);
      if (what % 4 == 0) map.put({key, std::to_string(number), number + 1}, events);
      if (what % 4 == 1) map.remove(key, number, events);
      if (what % 4 == 2) map.replace_all(map_of({{key, "x", number + 1}}), now, events);
      map.expire(now, events);
      for (const RegistryEvent& event : events) {
        if (event.kind == Kind::kPut) told[event.entry.key] = event.entry;
        if (event.kind == Kind::kRemove) RC_ASSERT(told.erase(event.entry.key) == 1u);
      }
      RC_ASSERT(told == map.entries());
    }
  }));
}

}  // namespace
}  // namespace cheetah::cluster
