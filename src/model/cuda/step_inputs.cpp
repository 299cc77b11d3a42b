#include "model/cuda/step_inputs.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {

void StepInputs::load(const ForwardBatch& batch, const ModelTraits& traits) {
  gather(batch, traits);
  send();
}

void StepInputs::gather(const ForwardBatch& batch, const ModelTraits& traits) {
  for (auto* list : {&host_positions_, &host_row_sequence_, &host_pages_, &host_wanted_}) list->clear();
  host_sequences_.clear();
  groups_.clear();
  attention_ = {};
  for (const int32_t token : batch.tokens)
    if (token < 0 || token >= traits.vocab)
      throw Error(format("token id {} is outside the vocabulary of {}", token, traits.vocab));
  host_tokens_.assign(batch.tokens.begin(), batch.tokens.end());
  for (const AttentionSequence& sequence : batch.sequences) add_sequence(sequence, traits);
  const auto rows = std::ssize(batch.tokens);
  CHEETAH_ASSERT(std::ssize(host_positions_) == rows, "sequences cover the batch's tokens");
  for (const auto wanted : {batch.logit_rows, batch.hidden_rows})
    for (const int64_t row : wanted) {
      CHEETAH_ASSERT(row >= 0 && row < rows, "a wanted row is in the batch");
      host_wanted_.push_back(static_cast<int32_t>(row));
    }
  attention_.num_sequences = std::ssize(batch.sequences);
  attention_.rows = rows;
}

void StepInputs::add_sequence(const AttentionSequence& sequence, const ModelTraits& traits) {
  CHEETAH_ASSERT(sequence.query_begin == std::ssize(host_positions_),
                 "sequences follow each other in the batch");
  if (traits.learned_positions && sequence.context_tokens > traits.max_positions)
    throw Error(format("a sequence of {} tokens is longer than the model's {} positions",
                       sequence.context_tokens, traits.max_positions));
  const bool is_long =
      !traits.rope.long_inv_freq.empty() && sequence.context_tokens > traits.rope.original_context;
  if (groups_.empty() || groups_.back().is_long != is_long)
    groups_.push_back({.begin = sequence.query_begin, .count = 0, .is_long = is_long});
  groups_.back().count += sequence.query_count;
  const auto index = static_cast<int32_t>(host_sequences_.size());
  host_sequences_.push_back({.context_tokens = static_cast<int32_t>(sequence.context_tokens),
                             .query_begin = static_cast<int32_t>(sequence.query_begin),
                             .query_count = static_cast<int32_t>(sequence.query_count),
                             .first_page = static_cast<int32_t>(host_pages_.size())});
  host_pages_.insert(host_pages_.end(), sequence.pages.begin(), sequence.pages.end());
  const int64_t first = sequence.context_tokens - sequence.query_count;
  for (int64_t i = 0; i < sequence.query_count; ++i) {
    host_positions_.push_back(static_cast<int32_t>(first + i));
    host_row_sequence_.push_back(index);
  }
  attention_.max_context = std::max(attention_.max_context, sequence.context_tokens);
  attention_.max_queries = std::max(attention_.max_queries, sequence.query_count);
}

// One block: the sequences, then the lists of numbers.
void StepInputs::send() {
  const auto sequence_bytes = static_cast<int64_t>(host_sequences_.size() * sizeof(gpu::SequenceEntry));
  int64_t total = sequence_bytes;
  const auto lists = {&host_tokens_, &host_positions_, &host_row_sequence_, &host_pages_, &host_wanted_};
  for (const auto* list : lists) total += static_cast<int64_t>(list->size() * sizeof(int32_t));
  sent_.wait();
  if (staging_.size() < total) {
    staging_ = gpu::PinnedBuffer(2 * total);
    device_ = place_.memory.allocate(gpu::ArenaKind::kWorkspace, 2 * total, place_.stream);
  }
  if (total == 0) return;
  std::memcpy(staging_.data(), host_sequences_.data(), static_cast<size_t>(sequence_bytes));
  int64_t at = sequence_bytes;
  const int32_t* places[5] = {};
  size_t index = 0;
  for (const auto* list : lists) {
    const auto bytes = static_cast<int64_t>(list->size() * sizeof(int32_t));
    if (bytes > 0) std::memcpy(staging_.data() + at, list->data(), static_cast<size_t>(bytes));
    places[index++] = reinterpret_cast<const int32_t*>(device_.data() + at);
    at += bytes;
  }
  gpu::copy_to_device(device_.data(), staging_.data(), total, place_.stream);
  sent_.record(place_.stream);
  attention_.sequences = device_.as<gpu::SequenceEntry>();
  tokens_ = places[0];
  attention_.positions = places[1];
  attention_.row_sequence = places[2];
  attention_.pages = places[3];
  wanted_rows_ = places[4];
}

}  // namespace cheetah
