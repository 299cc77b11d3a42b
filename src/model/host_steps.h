// SPDX-License-Identifier: MIT
#pragma once
// Runner's submit() and wait() on top of forward(), with the CPU's sampler: what a runner has that cannot do
// better.
#include <cstdint>
#include <vector>

#include "kernels/sample/row_sampler.h"
#include "model/model.h"

namespace cheetah {

// Owns the logits and the results of steps, reused from step to step. A step is computed by the time submit()
// returns; its results are handed out by wait(), so that `depth` steps can be in flight as on a device.
class HostSteps {
 public:
  HostSteps(const ModelTraits& traits, ThreadPool& threads, int64_t depth = 1);

  StepTicket submit(Runner& runner, const ForwardBatch& batch, const StepExtras& extras, KvPool& pool);
  StepResult wait(StepTicket ticket);

 private:
  struct Slot {
    std::vector<SampledToken> sampled;
    std::vector<float> logits, hidden;
    size_t num_sampled = 0, num_logits = 0, num_hidden = 0;  // of the vectors, which never shrink
  };
  Slot& slot_of(uint64_t number) { return slots_[number % slots_.size()]; }
  void resolve_tokens(const ForwardBatch& batch, const StepExtras& extras);
  void keep_logits(const ForwardBatch& batch, const StepExtras& extras, Slot& slot);

  const ModelTraits& traits_;
  ThreadPool& threads_;
  RowSampler sampler_;
  std::vector<Slot> slots_;
  std::vector<int32_t> fed_ids_;  // what the newest step sampled
  uint64_t num_submitted_ = 0, num_waited_ = 0;
  std::vector<int32_t> tokens_, last_tokens_;
  std::vector<float> logits_;
};

}  // namespace cheetah
