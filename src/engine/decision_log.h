// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "engine/scheduler/scheduler.h"

namespace cheetah {

enum class DecisionKind {
  kArrived,
  kRefused,
  kAdmitted,
  kPrefilled,
  kHeldBack,
  kPreempted,
  kForked,
  kTurned,
  kPaused,
  kResumed,
  kDrafts,
  kDraftsNoMore,
  kFinished
};

struct Decision {
  DecisionKind kind = DecisionKind::kArrived;
  uint64_t step = 0;
  double time_s = 0;  // since the engine started
  RequestId request{};
  int choice = 0;
  int64_t tokens = 0;                           // of the sequence
  int64_t cached = 0;                           // admitted: of those, found in the prefix cache
  int64_t chunk = 0;                            // prefilled: tokens of the prompt that the step computed
  int64_t step_tokens = 0, step_sequences = 0;  // prefilled: of the whole step
  double step_s = 0;                            // prefilled: how long that took
  int64_t drafted = 0;                          // drafts: tokens verified ahead
  double gain = 0;                              // drafts: tokens per second expected, over those of no drafts
  int64_t free_pages = 0;
  HoldReason held{};
  PreemptReason preempt{};
  Preemption how{};
  FinishReason finish{};
};

// The last decisions, oldest overwritten first: plain values, written as text only when someone asks. One
// thread.
class DecisionLog {
 public:
  static constexpr size_t kCapacity = 4096;

  DecisionLog() : ring_(kCapacity) {}
  void add(const Decision& decision) { at(count_++) = decision; }
  // Adds what `other` has and this one lacks.
  void follow(const DecisionLog& other);
  std::vector<Decision> last(int64_t num_decisions) const;  // oldest first
  std::vector<Decision> of(RequestId request) const;        // what the ring still has, oldest first

 private:
  Decision& at(uint64_t index) { return ring_[static_cast<size_t>(index % ring_.size())]; }
  const Decision& at(uint64_t index) const { return ring_[static_cast<size_t>(index % ring_.size())]; }

  std::vector<Decision> ring_;
  uint64_t count_ = 0;
};

std::string_view name_of(DecisionKind kind);
std::string what_of(const Decision& decision);                // a sentence without its subject
std::string text_of(const std::vector<Decision>& decisions);  // a line each

}  // namespace cheetah
