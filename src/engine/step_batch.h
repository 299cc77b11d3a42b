// SPDX-License-Identifier: MIT
#pragma once
// What one step computes, as the runner takes it: tokens, pages, and which rows are sampled or read.
#include <cstdint>
#include <span>
#include <vector>

#include "base/time.h"
#include "engine/sequence.h"
#include "kernels/sample/sample_row.h"
#include "model/model.h"
#include "model/step.h"

namespace cheetah {

// One sequence's part of a batch.
struct StepWork {
  Sequence* sequence = nullptr;
  int64_t count = 0;       // tokens
  int64_t end = 0;         // of the sequence's tokens, computed when it is done
  bool completes = false;  // all there are
  bool forks = false;      // … of a prompt with several choices
  int64_t drafted = 0;     // of the tokens, those at the end that it verifies
  int64_t logit_row = 0;   // where it completes: which of the logit rows is sampled, the first of drafted + 1
  int64_t prompt_begin = 0;  // of the logits read on the host: the prompt's, where wanted
  int64_t prompt_count = 0;
  int64_t hidden_begin = 0;
  int64_t hidden_count = 0;

  bool samples() const { return completes && !sequence->request->embeds(); }
  int64_t num_samples() const {
    return !samples() ? 0 : forks ? sequence->request->request.best_of : 1 + drafted;
  }
};

// Storage is reused from step to step. One thread. forward() and extras() point into it and into its sequences.
class StepBatch {
 public:
  void clear();
  // The sequence's next `count` tokens, whose pages are prepared.
  void add(Sequence& sequence, int64_t count);
  // Once all is added: further groups of pages and what is sampled. Returns the seconds spent on token masks.
  double complete(const KvLayout& layout, const ModelTraits& traits, const TimeSource& time);

  bool empty() const { return works_.empty(); }
  std::vector<StepWork>& works() { return works_; }
  const std::vector<StepWork>& works() const { return works_; }
  size_t num_samples() const { return samples_.size(); }
  const StepShape& shape() const { return shape_; }
  ForwardBatch forward() const;
  StepExtras extras() const;

 private:
  void add_tokens(const Sequence& sequence, int64_t end);
  double add_samples(const StepWork& work, int64_t vocab, const TimeSource& time);
  double add_verified(const StepWork& work, int64_t vocab, const TimeSource& time);

  std::vector<StepWork> works_;
  std::vector<int32_t> tokens_;
  std::vector<FedToken> fed_;
  std::vector<AttentionSequence> sequences_, further_groups_;
  std::vector<int64_t> logit_rows_, hidden_rows_, host_logits_;
  std::vector<SampleRow> samples_;
  StepShape shape_;
};

}  // namespace cheetah
