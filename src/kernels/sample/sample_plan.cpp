// SPDX-License-Identifier: MIT
#include <algorithm>

#include "kernels/sample/sample_cuda.h"

namespace cheetah::gpu {
namespace {

bool in_vocab(int32_t id, int64_t vocab) { return id >= 0 && id < vocab; }

int32_t narrow(size_t count) { return static_cast<int32_t>(count); }

}  // namespace

void SamplePlan::assign(std::span<const SampleRow> rows, int64_t vocab) {
  entries_.clear();
  seen_.clear();
  biased_.clear();
  forbidden_.clear();
  masks_.clear();
  num_changed_ = 0;
  filters_ = has_logprobs_ = false;
  for (const SampleRow& row : rows) add(row, vocab);
}

void SamplePlan::add(const SampleRow& row, int64_t vocab) {
  const SamplingParams& params = row.sampling;
  SampleEntry entry{.logits = static_cast<int32_t>(row.logits),
      .top_k = static_cast<int32_t>(std::clamp<int64_t>(params.top_k, 0, vocab)),
      .top_p = params.top_p,
      .min_p = params.min_p,
      .repetition = params.repetition_penalty,
      .frequency = params.frequency_penalty,
      .presence = params.presence_penalty,
      .uniform = row.uniform,
      .last_generated = row.num_generated > 0};
  if (params.temperature > 0.f && params.top_k != 1) entry.inverse_temperature = 1.f / params.temperature;
  if (row.top_logprobs) entry.top_logprobs = std::min(*row.top_logprobs, kMostTop);
  if (row.penalizes()) add_history(row, vocab, entry);
  entry.bias_begin = narrow(biased_.size());
  for (const auto& [id, bias] : row.logit_bias)
    if (in_vocab(id, vocab)) biased_.push_back({.id = id, .bias = bias});
  std::ranges::stable_sort(biased_.begin() + entry.bias_begin, biased_.end(), {}, &BiasedToken::id);
  entry.bias_count = narrow(biased_.size()) - entry.bias_begin;
  entry.forbidden_begin = narrow(forbidden_.size());
  for (const int32_t id : row.forbidden_ids)
    if (in_vocab(id, vocab)) forbidden_.push_back(id);
  entry.forbidden_count = narrow(forbidden_.size()) - entry.forbidden_begin;
  if (!row.mask.empty() || !row.allowed_ids.empty()) add_mask(row, vocab, entry);
  if (row.changes_logits()) entry.changed_row = static_cast<int32_t>(num_changed_++);
  filters_ |= entry.inverse_temperature > 0.f && (entry.top_k > 0 || entry.top_p < 1.f || entry.min_p > 0.f);
  has_logprobs_ |= entry.top_logprobs >= 0;
  entries_.push_back(entry);
}

void SamplePlan::add_history(const SampleRow& row, int64_t vocab, SampleEntry& entry) {
  place_of_.resize(std::max(place_of_.size(), static_cast<size_t>(vocab)), -1);
  entry.seen_begin = narrow(seen_.size());
  const auto first_generated = std::ssize(row.history) - (row.num_generated - entry.last_generated);
  for (int64_t i = 0; i < std::ssize(row.history); ++i) {
    const int32_t id = row.history[static_cast<size_t>(i)];
    if (!in_vocab(id, vocab)) continue;
    int32_t& place = place_of_[static_cast<size_t>(id)];
    if (place < 0) {
      place = narrow(seen_.size());
      seen_.push_back({.id = id});
    }
    seen_[static_cast<size_t>(place)].generated += i >= first_generated;
  }
  entry.seen_count = narrow(seen_.size()) - entry.seen_begin;
  for (size_t i = static_cast<size_t>(entry.seen_begin); i < seen_.size(); ++i)
    place_of_[static_cast<size_t>(seen_[i].id)] = -1;
}

// The grammar's, and of that only what is allowed.
void SamplePlan::add_mask(const SampleRow& row, int64_t vocab, SampleEntry& entry) {
  const auto words = static_cast<size_t>((vocab + 31) / 32);
  entry.mask_begin = narrow(masks_.size());
  masks_.resize(masks_.size() + words, row.allowed_ids.empty() ? ~uint32_t{0} : 0);
  const std::span<uint32_t> bits = std::span(masks_).last(words);
  for (const int32_t id : row.allowed_ids)
    if (in_vocab(id, vocab)) bits[static_cast<size_t>(id) / 32] |= uint32_t{1} << (id % 32);
  if (row.mask.empty()) return;
  for (size_t i = 0; i < words; ++i) {
    const uint64_t pair = i / 2 < row.mask.size() ? row.mask[i / 2] : 0;
    bits[i] &= static_cast<uint32_t>(i % 2 == 0 ? pair : pair >> 32);
  }
}

}  // namespace cheetah::gpu
