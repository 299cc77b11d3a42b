// SPDX-License-Identifier: MIT
#include "model/host_steps.h"

#include <algorithm>

#include "base/error.h"

namespace cheetah {
namespace {

template <class T>
std::span<T> room_for(std::vector<T>& values, size_t count) {
  if (values.size() < count) values.resize(count);
  return std::span(values).first(count);
}

}  // namespace

HostSteps::HostSteps(const ModelTraits& traits, ThreadPool& threads, int64_t depth)
    : traits_(traits),
      threads_(threads),
      sampler_(threads.num_threads()),
      slots_(static_cast<size_t>(depth)) {}

StepTicket HostSteps::submit(
    Runner& runner, const ForwardBatch& batch, const StepExtras& extras, KvPool& pool) {
  CHEETAH_ASSERT(num_submitted_ - num_waited_ < slots_.size(), "a step is waited for before more are begun");
  Slot& slot = slot_of(num_submitted_);
  resolve_tokens(batch, extras);
  slot.num_hidden = batch.hidden_rows.size() * static_cast<size_t>(traits_.hidden);
  const auto logits = room_for(logits_, batch.logit_rows.size() * static_cast<size_t>(traits_.vocab));
  ForwardBatch resolved = batch;
  resolved.tokens = tokens_;
  resolved.hidden = room_for(slot.hidden, slot.num_hidden);
  runner.forward(resolved, pool, logits);
  last_tokens_.clear();
  for (const int64_t row : batch.logit_rows) last_tokens_.push_back(tokens_[static_cast<size_t>(row)]);
  slot.num_sampled = extras.samples.size();
  const auto sampled = room_for(slot.sampled, slot.num_sampled);
  sampler_.run(
      {.rows = extras.samples, .logits = logits, .last_tokens = last_tokens_, .sampled = sampled}, threads_);
  fed_ids_.clear();
  for (const SampledToken& each : sampled) fed_ids_.push_back(each.token.id);
  keep_logits(batch, extras, slot);
  return StepTicket{num_submitted_++};
}

void HostSteps::resolve_tokens(const ForwardBatch& batch, const StepExtras& extras) {
  tokens_.assign(batch.tokens.begin(), batch.tokens.end());
  for (const FedToken& fed : extras.fed)
    tokens_[static_cast<size_t>(fed.row)] = fed_ids_[static_cast<size_t>(fed.sample)];
}

void HostSteps::keep_logits(const ForwardBatch& batch, const StepExtras& extras, Slot& slot) {
  const auto vocab = static_cast<size_t>(traits_.vocab);
  slot.num_logits = extras.host_logits.size() * vocab;
  if (extras.host_logits.size() == batch.logit_rows.size()) {  // all: no copy
    std::swap(slot.logits, logits_);
    return;
  }
  auto to = room_for(slot.logits, slot.num_logits).begin();
  for (const int64_t row : extras.host_logits)
    to = std::copy_n(logits_.begin() + row * traits_.vocab, traits_.vocab, to);
}

StepResult HostSteps::wait(StepTicket ticket) {
  CHEETAH_ASSERT(ticket == StepTicket{num_waited_} && num_waited_ < num_submitted_,
      "steps are waited for in their order");
  Slot& slot = slot_of(num_waited_++);
  return {.sampled = std::span(slot.sampled).first(slot.num_sampled),
      .logits = std::span<const float>(slot.logits).first(slot.num_logits),
      .hidden = std::span<const float>(slot.hidden).first(slot.num_hidden)};
}

}  // namespace cheetah
