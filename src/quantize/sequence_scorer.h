// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/model.h"

namespace cheetah {

// Logits of whole sequences, one after another, with a cache of its own in F32. A sequence goes through in
// chunks, so that a long window of a large vocabulary needs little memory.
class SequenceScorer {
 public:
  SequenceScorer(const Model& model, Runner& runner, int64_t max_tokens);

  // Begins a new sequence; next() then gives the logits of its tokens, chunk by chunk, until it is empty.
  void start(std::span<const int32_t> tokens);
  std::span<const float> next();  // [chunk, vocab], good until the next call

 private:
  const ModelTraits& traits_;
  Runner& runner_;
  KvPool pool_;
  std::vector<int32_t> pages_;
  std::span<const int32_t> tokens_;
  int64_t done_ = 0;
  std::vector<int64_t> rows_;
  std::vector<float> logits_;
};

}  // namespace cheetah
