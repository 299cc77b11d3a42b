// SPDX-License-Identifier: MIT
#include "model/kv_layout.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>

namespace cheetah {
namespace {

// Each costs a list of pages per sequence, and the pages get smaller.
constexpr int64_t kMaxGroups = 8;
constexpr int64_t kFarWeight = 8;
constexpr int64_t kEverything = std::numeric_limits<int64_t>::max();

// A window that no sequence outgrows is none.
int64_t reach_of(const LayerTraits& layer, const ModelTraits& traits) {
  return layer.window == 0 || layer.window >= traits.max_positions ? kEverything : layer.window;
}

using Counts = std::map<int64_t, int64_t, std::greater<>>;  // layers by how far back they see, farthest first

// Room for layers that `slots` a page make, used or not, and in how many groups. Pages of those that see
// farthest are the most.
struct Division {
  int64_t groups = 0;
  int64_t room = 0;
};
Division divide(const Counts& counts, int64_t slots) {
  Division division;
  for (const auto& [reach, layers] : counts) {
    const int64_t groups = (layers + slots - 1) / slots;
    division.groups += groups;
    division.room += groups * slots * (reach == counts.begin()->first ? kFarWeight : 1);
  }
  return division;
}

int64_t choose_slots(const Counts& counts) {
  int64_t most = 0, best = 0, least_room = kEverything;
  for (const auto& [reach, layers] : counts) most = std::max(most, layers);
  for (int64_t slots = most; slots > 0; --slots) {
    const auto [groups, room] = divide(counts, slots);
    if (groups > std::max<int64_t>(kMaxGroups, std::ssize(counts)) || room >= least_room) continue;
    best = slots;
    least_room = room;
  }
  return best;
}

}  // namespace

int64_t KvLayout::num_full_groups() const { return std::ranges::count(windows, 0); }

KvLayout one_group(const ModelTraits& traits) {
  KvLayout layout{.layers = {}, .windows = {0}, .slots = std::ssize(traits.layers)};
  for (int64_t i = 0; i < layout.slots; ++i) layout.layers.push_back({.group = 0, .slot = i});
  return layout;
}

KvLayout groups_by_window(const ModelTraits& traits) {
  if (traits.layers.empty()) return one_group(traits);
  Counts counts;
  for (const LayerTraits& layer : traits.layers) ++counts[reach_of(layer, traits)];
  KvLayout layout;
  layout.slots = choose_slots(counts);
  layout.layers.resize(traits.layers.size());
  for (const auto& [reach, count] : counts) {
    int64_t slot = layout.slots;
    for (size_t i = 0; i < traits.layers.size(); ++i) {
      if (reach_of(traits.layers[i], traits) != reach) continue;
      if (slot == layout.slots) {
        layout.windows.push_back(reach == kEverything ? 0 : reach);
        slot = 0;
      }
      layout.layers[i] = {.group = layout.num_groups() - 1, .slot = slot++};
    }
  }
  return layout;
}

}  // namespace cheetah
