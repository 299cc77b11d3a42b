// SPDX-License-Identifier: MIT
#pragma once
// A forward pass on the CPU: a batch in, logits and hidden states out.
#include <span>

#include "model/cpu_ops.h"
#include "model/transformer.h"

namespace cheetah {

extern template class Transformer<CpuOps>;

// Owns one runner's activations.
class Forward {
 public:
  Forward(const ModelTraits& traits, const ModelWeights& weights, const CpuContext& context)
      : traits_(traits), ops_(traits, weights, context), transformer_(traits, weights, ops_) {}
  Forward(const Forward&) = delete;
  void run(const ForwardBatch& batch, KvPool& pool, std::span<float> logits);

 private:
  const ModelTraits& traits_;
  BatchRows rows_;
  CpuOps ops_;
  Transformer<CpuOps> transformer_;  // points to ops_
};

}  // namespace cheetah
