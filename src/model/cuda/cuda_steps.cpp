// SPDX-License-Identifier: MIT
#include "model/cuda/cuda_steps.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace cheetah {
namespace {

// Pinned memory that only ever grows.
template <class Number>
Number* room_for(gpu::PinnedBuffer& buffer, int64_t count) {
  const auto bytes = count * static_cast<int64_t>(sizeof(Number));
  if (buffer.size() < bytes) buffer = gpu::PinnedBuffer(bytes);
  return buffer.as<Number>();
}

}  // namespace

template <class T>
StepTicket CudaSteps<T>::submit(const ForwardBatch& batch, const StepExtras& extras, KvPool& pool) {
  CHEETAH_ASSERT(num_submitted_ - num_waited_ < kMaxInFlight, "a step is waited for before more are begun");
  Slot& slot = slots_[set_of(num_submitted_)];
  const std::span<const FedToken> fed = feed(batch, extras);
  ForwardBatch resolved = batch;
  resolved.tokens = tokens_;
  slot.num_sampled = extras.samples.size();
  if (slot.sampled.size() < slot.num_sampled) slot.sampled.resize(slot.num_sampled);
  slot.sampled_on_device = std::ranges::all_of(extras.samples, DeviceSampler::can_choose);
  if (slot.sampled_on_device) device_sampler_.send(extras.samples, batch.logit_rows);
  forward_.start(resolved, fed, pool);
  if (slot.sampled_on_device) {
    sample_on_device(slot);
    fetch(resolved, extras.host_logits, slot);
  } else {
    sample_on_host(resolved, extras, slot);
  }
  return StepTicket{num_submitted_++};
}

// tokens_ as far as the host knows them. What the device chose stays there: those are returned.
template <class T>
std::span<const FedToken> CudaSteps<T>::feed(const ForwardBatch& batch, const StepExtras& extras) {
  tokens_.assign(batch.tokens.begin(), batch.tokens.end());
  if (extras.fed.empty()) return {};
  CHEETAH_ASSERT(num_submitted_ > 0, "tokens are fed from a step before");
  const Slot& before = slots_[set_of(num_submitted_ - 1)];
  if (before.sampled_on_device) return extras.fed;
  for (const FedToken& fed : extras.fed)
    tokens_[static_cast<size_t>(fed.row)] = before.sampled[static_cast<size_t>(fed.sample)].token.id;
  return {};
}

template <class T>
void CudaSteps<T>::sample_on_device(Slot& slot) {
  const auto count = static_cast<int64_t>(slot.num_sampled);
  if (count == 0) return;
  device_sampler_.run(forward_.logits(), forward_.tokens(), forward_.sampled_ids(count));
  gpu::copy_to_host(room_for<gpu::SampleOutcome>(slot.outcomes, count), device_sampler_.outcomes(),
      count * static_cast<int64_t>(sizeof(gpu::SampleOutcome)), stream_);
}

// Starts the copies of what the host wants, and marks their end.
template <class T>
void CudaSteps<T>::fetch(const ForwardBatch& batch, std::span<const int64_t> logit_rows, Slot& slot) {
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  const int64_t vocab = traits_.vocab, num_hidden = std::ssize(batch.hidden_rows) * traits_.hidden;
  auto* logits = room_for<float>(slot.logits, std::ssize(logit_rows) * vocab);
  for (size_t i = 0, end = 0; i < logit_rows.size(); i = end) {  // neighbours travel together
    for (end = i + 1; end < logit_rows.size() && logit_rows[end] == logit_rows[end - 1] + 1;) ++end;
    gpu::copy_to_host(logits + static_cast<int64_t>(i) * vocab, forward_.logits() + logit_rows[i] * vocab,
        static_cast<int64_t>(end - i) * vocab * kFloat, stream_);
  }
  gpu::copy_to_host(
      room_for<float>(slot.hidden, num_hidden), forward_.hidden(), num_hidden * kFloat, stream_);
  slot.done.record(stream_);
  slot.num_logits = logit_rows.size() * static_cast<size_t>(vocab);
  slot.num_hidden = static_cast<size_t>(num_hidden);
}

template <class T>
void CudaSteps<T>::sample_on_host(const ForwardBatch& batch, const StepExtras& extras, Slot& slot) {
  all_rows_.resize(batch.logit_rows.size());
  std::iota(all_rows_.begin(), all_rows_.end(), 0);
  const auto num_tokens = std::ssize(batch.tokens);
  auto* tokens = room_for<int32_t>(slot.tokens, num_tokens);
  gpu::copy_to_host(tokens, forward_.tokens(), num_tokens * static_cast<int64_t>(sizeof(int32_t)), stream_);
  fetch(batch, all_rows_, slot);
  stream_.wait();
  last_tokens_.clear();
  for (const int64_t row : batch.logit_rows) last_tokens_.push_back(tokens[row]);
  auto* logits = slot.logits.template as<float>();
  host_sampler_.run({.rows = extras.samples,
                        .logits = std::span<const float>(logits, slot.num_logits),
                        .last_tokens = last_tokens_,
                        .sampled = std::span(slot.sampled).first(slot.num_sampled)},
      threads_);
  // Those the host wants move up; they ascend, so that none is overwritten before it moved.
  for (size_t i = 0; i < extras.host_logits.size(); ++i)
    std::copy_n(logits + extras.host_logits[i] * traits_.vocab, traits_.vocab,
        logits + static_cast<int64_t>(i) * traits_.vocab);
  slot.num_logits = extras.host_logits.size() * static_cast<size_t>(traits_.vocab);
}

template <class T>
StepResult CudaSteps<T>::wait(StepTicket ticket) {
  CHEETAH_ASSERT(ticket == StepTicket{num_waited_} && num_waited_ < num_submitted_,
      "steps are waited for in their order");
  Slot& slot = slots_[set_of(num_waited_++)];
  try {
    slot.done.wait();
  } catch (const Error&) {
    stream_.wait();  // throws the same, and knows the last launches
    throw;
  }
  if (slot.sampled_on_device)
    for (size_t i = 0; i < slot.num_sampled; ++i)
      read_outcome(slot.outcomes.template as<gpu::SampleOutcome>()[i], slot.sampled[i]);
  return {.sampled = std::span(slot.sampled).first(slot.num_sampled),
      .logits = std::span(slot.logits.template as<const float>(), slot.num_logits),
      .hidden = std::span(slot.hidden.template as<const float>(), slot.num_hidden)};
}

template class CudaSteps<float>;
template class CudaSteps<Bf16>;

}  // namespace cheetah
