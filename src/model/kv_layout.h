// SPDX-License-Identifier: MIT
#pragma once
// Which layers keep their keys and values in the same pages.
#include <cstdint>
#include <iterator>
#include <vector>

#include "model/traits.h"

namespace cheetah {

// Layers form groups; all layers of a group see as far back, so a sequence has one list of pages a group and
// the pages before a group's window can go while other groups keep theirs. A page has room for `slots` layers
// and serves any group: groups share one pool whatever their needs are, and a group with fewer layers than
// slots leaves the rest of its pages empty.
struct KvLayout {
  struct Place {
    int64_t group = 0;
    int64_t slot = 0;
  };
  std::vector<Place> layers;
  std::vector<int64_t> windows;  // a group's; 0: it sees everything. Those with 0 come first
  int64_t slots = 0;

  int64_t num_groups() const { return std::ssize(windows); }
  int64_t num_full_groups() const;
  int64_t num_window_groups() const { return num_groups() - num_full_groups(); }
};

// All layers in one group: a page holds a token's rows of every layer.
KvLayout one_group(const ModelTraits& traits);

// Groups by window, of as many slots as leave little room empty, above all in the layers that see farthest.
KvLayout groups_by_window(const ModelTraits& traits);

}  // namespace cheetah
