// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/grammar/configurations.h"
#include "engine/grammar/vocabulary.h"

namespace cheetah {

// Which tokens may follow a configuration. Owns the configurations of one program and the masks found so far.
// One thread.
//
// A mask is computed once per configuration cut to its innermost frames. Most tokens are decided there for
// every context; the few that end more frames than the cut kept are listed and tried in the real context.
class TokenMasks {
 public:
  TokenMasks(const Automaton& automaton, const TokenVocabulary& vocabulary);

  Configurations& configurations() { return configurations_; }
  const Configurations& configurations() const { return configurations_; }

  // Sets the bit of each id that may follow (bit id % 64 of word id / 64) and clears the others. True if any
  // is set. Where the grammar is so ambiguous that one mask would take longer than kMaxWork, none is.
  bool fill(ConfigId config, std::span<uint64_t> words);
  bool any(ConfigId config);

  // Large enough that a fresh table is better than a larger one.
  bool full() const;
  int64_t bytes() const { return configurations_.bytes() + mask_bytes_; }

  static constexpr int64_t kMaxWork = 20'000'000;  // elementary steps, about a tenth of a second

 private:
  struct Mask {
    std::vector<uint64_t> words;     // or, when few are allowed,
    std::vector<int32_t> ids;        // these
    std::vector<int32_t> undecided;  // ranks to try in context
    bool too_complex = false;
  };

  const Mask& mask_of(ConfigId cut);
  Mask compute(ConfigId cut);
  void accept_ranks(int32_t first, int32_t last, std::vector<uint64_t>& words) const;
  template <class Accept>
  void try_undecided(const Mask& mask, ConfigId config, const Accept& accept);

  const TokenVocabulary& vocabulary_;
  std::span<const TextClass> text_classes_;
  Configurations configurations_;
  std::unordered_map<int32_t, Mask> masks_;
  int64_t mask_bytes_ = 0;
  std::vector<ConfigId> path_;            // of the walk, by depth
  std::vector<uint8_t> path_left_known_;  // the cut's frames may have ended on the way
};

}  // namespace cheetah
