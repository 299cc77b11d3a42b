#include "model/cuda/step_inputs.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {

void StepInputs::load(const ForwardBatch& batch, const ModelTraits& traits, std::span<const FedToken> fed,
                      const std::optional<DecodeShape>& shape) {
  gather(batch, traits, fed);
  if (shape) fill_up(*shape);
  for (int64_t group = 0; group < batch.num_groups(); ++group) add_pages(batch.of_group(group));
  send(!traits.rope.long_inv_freq.empty());
}

void StepInputs::gather(const ForwardBatch& batch, const ModelTraits& traits, std::span<const FedToken> fed) {
  for (auto* list : {&host_positions_, &host_row_sequence_, &host_long_, &host_wanted_, &host_pages_})
    list->clear();
  host_sequences_.clear();
  attention_ = {};
  add_tokens(batch, traits, fed);
  for (const AttentionSequence& sequence : batch.sequences) add_rows(sequence, traits);
  CHEETAH_ASSERT(host_positions_.size() == host_tokens_.size(), "sequences cover the batch's tokens");
  add_wanted(batch);
  attention_.rows = std::ssize(batch.tokens);
}

void StepInputs::add_tokens(const ForwardBatch& batch, const ModelTraits& traits,
                            std::span<const FedToken> fed) {
  host_tokens_.assign(batch.tokens.begin(), batch.tokens.end());
  host_fed_.assign(batch.tokens.size(), -1);
  for (const FedToken& each : fed)
    host_fed_[static_cast<size_t>(each.row)] = static_cast<int32_t>(each.sample);
  for (size_t i = 0; i < host_tokens_.size(); ++i)
    if (host_fed_[i] < 0 && (host_tokens_[i] < 0 || host_tokens_[i] >= traits.vocab))
      throw Error(format("token id {} is outside the vocabulary of {}", host_tokens_[i], traits.vocab));
}

void StepInputs::add_rows(const AttentionSequence& sequence, const ModelTraits& traits) {
  CHEETAH_ASSERT(sequence.query_begin == std::ssize(host_positions_),
                 "sequences follow each other in the batch");
  if (traits.learned_positions && sequence.context_tokens > traits.max_positions)
    throw Error(format("a sequence of {} tokens is longer than the model's {} positions",
                       sequence.context_tokens, traits.max_positions));
  const bool is_long =
      !traits.rope.long_inv_freq.empty() && sequence.context_tokens > traits.rope.original_context;
  const int64_t first = sequence.context_tokens - sequence.query_count;
  for (int64_t i = 0; i < sequence.query_count; ++i) {
    host_positions_.push_back(static_cast<int32_t>(first + i));
    host_row_sequence_.push_back(static_cast<int32_t>(attention_.num_sequences));
    host_long_.push_back(is_long);
  }
  ++attention_.num_sequences;
  attention_.max_context = std::max(attention_.max_context, sequence.context_tokens);
  attention_.max_queries = std::max(attention_.max_queries, sequence.query_count);
}

void StepInputs::add_wanted(const ForwardBatch& batch) {
  const auto rows = std::ssize(batch.tokens);
  num_logits_ = std::ssize(batch.logit_rows);
  num_hidden_ = std::ssize(batch.hidden_rows);
  for (const auto wanted : {batch.logit_rows, batch.hidden_rows})
    for (const int64_t row : wanted) {
      CHEETAH_ASSERT(row >= 0 && row < rows, "a wanted row is in the batch");
      host_wanted_.push_back(static_cast<int32_t>(row));
    }
  wants_all_ = num_hidden_ == 0 && num_logits_ == rows;
  for (int64_t i = 0; wants_all_ && i < rows; ++i) wants_all_ = batch.logit_rows[static_cast<size_t>(i)] == i;
}

// Rows of no token at no position, each in a sequence of its own.
void StepInputs::fill_up(const DecodeShape& shape) {
  for (int64_t row = attention_.rows; row < shape.rows; ++row) {
    const auto index = static_cast<int32_t>(row);
    host_tokens_.push_back(-1);
    host_fed_.push_back(-1);
    host_positions_.push_back(-1);
    host_row_sequence_.push_back(index);
    host_long_.push_back(0);
    host_wanted_.push_back(index);
  }
  attention_.rows = attention_.num_sequences = num_logits_ = shape.rows;
  attention_.max_context = shape.context;
}

// Those that a shape adds have no queries.
void StepInputs::add_pages(std::span<const AttentionSequence> sequences) {
  for (const AttentionSequence& sequence : sequences) {
    host_sequences_.push_back({.context_tokens = static_cast<int32_t>(sequence.context_tokens),
                               .query_begin = static_cast<int32_t>(sequence.query_begin),
                               .query_count = static_cast<int32_t>(sequence.query_count),
                               .first_page = static_cast<int32_t>(host_pages_.size())});
    host_pages_.insert(host_pages_.end(), sequence.pages.begin(), sequence.pages.end());
  }
  for (int64_t i = std::ssize(sequences); i < attention_.num_sequences; ++i)
    host_sequences_.push_back({.query_begin = static_cast<int32_t>(i)});
}

// One block: the sequences, then the lists of numbers. The pages come last, whose number varies most: all
// else stays where it is from one step of a shape to the next.
void StepInputs::send(bool has_long_rope) {
  constexpr int64_t kLeastBytes = 1 << 20;
  const auto lists = {&host_tokens_, &host_fed_,    &host_positions_, &host_row_sequence_,
                      &host_long_,   &host_wanted_, &host_pages_};
  const auto sequence_bytes = static_cast<int64_t>(host_sequences_.size() * sizeof(gpu::SequenceEntry));
  int64_t total = sequence_bytes;
  for (const auto* list : lists) total += static_cast<int64_t>(list->size() * sizeof(int32_t));
  if (device_.size() < total) {
    device_ =
        place_.memory.allocate(gpu::ArenaKind::kWorkspace, std::max(kLeastBytes, 2 * total), place_.stream);
    ++moves_;
  }
  Staging& staging = staging_[next_staging_];
  next_staging_ = (next_staging_ + 1) % staging_.size();
  staging.sent.wait();
  if (staging.memory.size() < total) staging.memory = gpu::PinnedBuffer(std::max(kLeastBytes, 2 * total));
  if (total == 0) return;
  std::memcpy(staging.memory.data(), host_sequences_.data(), static_cast<size_t>(sequence_bytes));
  int64_t at = sequence_bytes;
  int32_t* places[7] = {};
  size_t index = 0;
  for (const auto* list : lists) {
    const auto bytes = static_cast<int64_t>(list->size() * sizeof(int32_t));
    if (bytes > 0) std::memcpy(staging.memory.data() + at, list->data(), static_cast<size_t>(bytes));
    places[index++] = reinterpret_cast<int32_t*>(device_.data() + at);
    at += bytes;
  }
  gpu::copy_to_device(device_.data(), staging.memory.data(), total, place_.stream);
  staging.sent.record(place_.stream);
  attention_.sequences = device_.as<gpu::SequenceEntry>();
  tokens_ = places[0];
  fed_ = places[1];
  attention_.positions = places[2];
  attention_.row_sequence = places[3];
  uses_long_ = has_long_rope ? places[4] : nullptr;
  wanted_rows_ = places[5];
  attention_.pages = places[6];
}

}  // namespace cheetah
