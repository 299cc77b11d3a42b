// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "engine/speculate/draft_depth.h"
#include "engine/speculate/draft_lookup.h"

namespace cheetah {

// What one sequence may go on with, and how often that was right.
struct Draft {
  static constexpr size_t kMatchGroups =
      6;  // short matches are often chance, long ones a text that is copied

  std::vector<int32_t> tokens;  // after the sequence's own, for the next step to verify
  int64_t match = 0;  // how many tokens at the end of the sequence stood before where they come from
  DraftLookup lookup;
  std::vector<int32_t> source;  // a predicted answer and the sequence's tokens, where there is one
  std::array<Acceptance, kMatchGroups> acceptance;  // by the length of the match
  bool is_on = false;                               // the last decision that was noted
  int64_t num_accepted = 0, num_rejected = 0;
  std::vector<int32_t> text;  // of a step that verifies: the sequence's tokens with the draft after them
};

}  // namespace cheetah
