// SPDX-License-Identifier: MIT
#include "model/cuda/step_inputs.h"

#include <algorithm>
#include <cstring>

namespace cheetah {

void StepInputs::load(const ForwardBatch& batch, const ModelTraits& traits, std::span<const FedToken> fed,
    const std::optional<DecodeShape>& shape) {
  host_rows_.place(batch, traits, fed);
  gather(batch, fed);
  if (shape) fill_up(*shape);
  for (int64_t group = 0; group < batch.num_groups(); ++group) add_pages(batch.of_group(group));
  send(!traits.rope.long_inv_freq.empty());
}

void StepInputs::gather(const ForwardBatch& batch, std::span<const FedToken> fed) {
  host_pages_.clear();
  host_sequences_.clear();
  host_tokens_.assign(batch.tokens.begin(), batch.tokens.end());
  host_fed_.assign(batch.tokens.size(), -1);
  for (const FedToken& each : fed)
    host_fed_[static_cast<size_t>(each.row)] = static_cast<int32_t>(each.sample);
  attention_ = {.num_sequences = std::ssize(batch.sequences), .rows = std::ssize(batch.tokens)};
  for (const AttentionSequence& sequence : batch.sequences) {
    attention_.max_context = std::max(attention_.max_context, sequence.context_tokens);
    attention_.max_queries = std::max(attention_.max_queries, sequence.query_count);
  }
  num_logits_ = std::ssize(batch.logit_rows);
  num_hidden_ = std::ssize(batch.hidden_rows);
}

// Rows of no token at no position, each in a sequence of its own.
void StepInputs::fill_up(const DecodeShape& shape) {
  for (int64_t row = attention_.rows; row < shape.rows; ++row) {
    const auto index = static_cast<int32_t>(row);
    host_tokens_.push_back(-1);
    host_fed_.push_back(-1);
    host_rows_.positions.push_back(-1);
    host_rows_.sequence.push_back(index);
    host_rows_.uses_long_rope.push_back(0);
    host_rows_.wanted.push_back(index);
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
  const auto lists = {&host_tokens_, &host_fed_, &host_rows_.positions, &host_rows_.sequence,
      &host_rows_.uses_long_rope, &host_rows_.wanted, &host_pages_};
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
