// SPDX-License-Identifier: MIT
#pragma once
// Drafts tokens for sequences that decode, as many as pay: the next step verifies them all at once.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/engine_record.h"
#include "engine/sequence.h"
#include "engine/speculate/draft_depth.h"
#include "model/traits.h"

namespace cheetah {

// One thread. What a sequence gets does not depend on its drafts, only when it gets it: each token is sampled by its
// own rules and random number from the logits behind the tokens before it, and a draft counts where it is that token.
class Speculator {
 public:
  struct Parts {
    const ModelTraits& traits;
    const EngineConfig& config;
    EngineRecord& record;
  };
  explicit Speculator(const Parts& parts) : with_(parts) {}

  bool enabled() const { return with_.config.max_draft > 0; }
  // Sets the drafts of `decoding`, whose next step computes one token each; `busy`: it computes prompts too, so
  // that none is drafted.
  void draft(std::span<Sequence* const> decoding, bool busy, EngineTime now);
  // The sequence's `drafted` tokens were verified.
  void observe(Sequence& sequence, int64_t drafted, int64_t accepted);
  // A step that only decoded.
  void observe_step(int64_t tokens, double step_s) { times_.observe(tokens, step_s); }

 private:
  static size_t group_of(int64_t match);
  int64_t longest_draft(const Sequence& sequence) const;
  static void look_up(Sequence& sequence, int64_t longest);
  DraftCandidate propose(Sequence& sequence);
  void keep_allowed(Sequence& sequence) const;
  void note_change(Sequence& sequence, EngineTime now);

  const Parts with_;
  VerifyTimes times_;
  std::array<Acceptance, Draft::kMatchGroups> by_match_;
  // Reused from step to step.
  std::vector<DraftCandidate> candidates_;
  DraftPlan plan_;
};

}  // namespace cheetah
