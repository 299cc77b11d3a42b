// SPDX-License-Identifier: MIT
#include "model/kv_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "model/model.h"

namespace cheetah {
namespace {

ModelTraits traits_with(const std::vector<int64_t>& windows) {
  ModelTraits traits;
  traits.max_positions = 8192;
  for (const int64_t window : windows) traits.layers.push_back({.window = window});
  return traits;
}

// `repeats` times a run of windowed layers and one without.
ModelTraits pattern(int64_t windowed, int64_t repeats, int64_t rest) {
  std::vector<int64_t> windows;
  for (int64_t i = 0; i < repeats; ++i) {
    windows.insert(windows.end(), static_cast<size_t>(windowed), 512);
    windows.push_back(0);
  }
  windows.insert(windows.end(), static_cast<size_t>(rest), 512);
  return traits_with(windows);
}

void expect_sound(const KvLayout& layout, const ModelTraits& traits) {
  std::set<std::pair<int64_t, int64_t>> seen;
  ASSERT_EQ(layout.layers.size(), traits.layers.size());
  for (size_t i = 0; i < layout.layers.size(); ++i) {
    const auto [group, slot] = layout.layers[i];
    ASSERT_TRUE(group >= 0 && group < layout.num_groups() && slot >= 0 && slot < layout.slots);
    EXPECT_TRUE(seen.emplace(group, slot).second) << "a place for each layer";
    EXPECT_EQ(layout.windows[static_cast<size_t>(group)], traits.layers[i].window);
  }
  EXPECT_TRUE(std::ranges::is_partitioned(layout.windows, [](int64_t w) { return w == 0; }));
}

TEST(KvLayout, LayersThatAllSeeAsFarAreOneGroup) {
  for (const int64_t window : {0, 512}) {
    const ModelTraits traits = traits_with(std::vector<int64_t>(12, window));
    const KvLayout layout = groups_by_window(traits);
    expect_sound(layout, traits);
    EXPECT_EQ(layout.num_groups(), 1);
    EXPECT_EQ(layout.slots, 12);
  }
}

TEST(KvLayout, MixedLayersFillTheirPages) {
  const struct {
    int64_t windowed, repeats, rest, slots, groups;
  } cases[] = {
      {1, 13, 0, 13, 2},  // gemma 2 2B
      {1, 12, 0, 12, 2},  // gpt-oss 20B
      {5, 4, 2, 4, 7},    // gemma 3 1B
      {5, 10, 2, 10, 7},  // gemma 3 27B
      {3, 8, 0, 8, 4},    // command R7B
      {40, 1, 0, 6, 8},
  };
  for (const auto& c : cases) {
    const ModelTraits traits = pattern(c.windowed, c.repeats, c.rest);
    const KvLayout layout = groups_by_window(traits);
    expect_sound(layout, traits);
    EXPECT_EQ(layout.slots, c.slots);
    EXPECT_EQ(layout.num_groups(), c.groups);
  }
}

TEST(KvLayout, AWindowWiderThanAnyTextIsNone) {
  ModelTraits traits = pattern(1, 3, 0);
  traits.max_positions = 512;
  EXPECT_EQ(groups_by_window(traits).windows, std::vector<int64_t>{0});
}

TEST(KvPool, HasMemoryForTheSlotsOfItsPages) {
  ModelTraits traits = pattern(1, 2, 0);
  traits.kv_heads = 2;
  traits.head_dim = 16;
  KvPool pool(traits, {.dtype = DType::kF32, .num_pages = 3, .layout = groups_by_window(traits)});
  EXPECT_EQ(pool.layout().slots, 2);
  EXPECT_EQ(pool.layer(0).keys, pool.layer(1).keys) << "layers of different groups share a slot";
  EXPECT_NE(pool.layer(0).keys, pool.layer(2).keys);
  EXPECT_NE(pool.group_of(0), pool.group_of(1));
}

}  // namespace
}  // namespace cheetah
