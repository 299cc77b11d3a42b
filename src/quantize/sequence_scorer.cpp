// SPDX-License-Identifier: MIT
#include "quantize/sequence_scorer.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace cheetah {
namespace {

constexpr int64_t kChunk = 256;
constexpr int64_t kPageTokens = 16;

}  // namespace

SequenceScorer::SequenceScorer(const Model& model, Runner& runner, int64_t max_tokens)
    : traits_(model.traits()),
      runner_(runner),
      pool_(runner.make_kv_pool(
          {.dtype = DType::kF32, .num_pages = (max_tokens + kPageTokens - 1) / kPageTokens})) {
  pages_.resize(static_cast<size_t>(pool_.num_pages()));
  std::iota(pages_.begin(), pages_.end(), 0);
}

void SequenceScorer::start(std::span<const int32_t> tokens) {
  CHEETAH_ASSERT(std::ssize(tokens) <= pool_.num_pages() * kPageTokens, "the sequence fits the cache");
  tokens_ = tokens;
  done_ = 0;
}

std::span<const float> SequenceScorer::next() {
  const int64_t left = std::ssize(tokens_) - done_;
  // The frequencies of longrope depend on the whole length: such a sequence goes through in one piece.
  const int64_t count = traits_.rope.long_inv_freq.empty() ? std::min(left, kChunk) : left;
  if (count == 0) return {};
  rows_.resize(static_cast<size_t>(count));
  std::iota(rows_.begin(), rows_.end(), 0);
  logits_.resize(static_cast<size_t>(count * traits_.vocab));
  const int64_t total = done_ + count;
  const AttentionSequence sequence{
      .pages = std::span(pages_).first(static_cast<size_t>(pool_.pages_for(total))),
      .context_tokens = total,
      .query_begin = 0,
      .query_count = count};
  runner_.forward({.tokens = tokens_.subspan(static_cast<size_t>(done_), static_cast<size_t>(count)),
                      .sequences = {&sequence, 1},
                      .logit_rows = rows_},
      pool_, logits_);
  done_ = total;
  return logits_;
}

}  // namespace cheetah
