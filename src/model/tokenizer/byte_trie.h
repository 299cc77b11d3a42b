// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/tokenizer/merge_table.h"

namespace cheetah {

// A trie over bytes: its edges are one hash table, so a step is one look-up and the memory is linear.
class ByteTrie {
 public:
  static constexpr int32_t kNone = -1;
  static constexpr int32_t kRoot = 0;

  // The value must not be negative; a later value for the same key replaces the earlier one.
  void insert(std::string_view key, int32_t value);
  int32_t step(int32_t node, char byte) const {
    return edges_.find(node, static_cast<unsigned char>(byte)).result;
  }
  int32_t value(int32_t node) const { return values_[static_cast<size_t>(node)]; }

 private:
  MergeTable edges_;
  std::vector<int32_t> values_ = {kNone};
};

}  // namespace cheetah
