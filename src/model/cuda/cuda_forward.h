// SPDX-License-Identifier: MIT
#pragma once
// A forward pass on a CUDA device: a batch in, logits and hidden states on the device out.
#include <optional>
#include <type_traits>
#include <vector>

#include "model/cuda/chain_model.h"
#include "model/cuda/cuda_ops.h"
#include "model/cuda/step_graphs.h"
#include "model/transformer.h"

namespace cheetah {

extern template class Transformer<CudaOps<float>>;
extern template class Transformer<CudaOps<Bf16>>;

// Owns one runner's activations. Everything runs in one stream; the host waits only for what it asked to get
// back. Plain decode steps are filled up to a shape, recorded the second time it comes and replayed from then
// on.
template <class T>
class CudaForward {
 public:
  CudaForward(const ModelTraits& traits, const DeviceWeights& weights, const DevicePlace& place)
      : traits_(traits),
        stream_(place.stream),
        inputs_(place),
        ops_(traits, weights, place),
        transformer_(traits, weights.weights(), ops_) {
    if constexpr (std::is_same_v<T, Bf16>) chain_ = make_chain(traits, weights, place);
  }
  CudaForward(const CudaForward&) = delete;
  void run(const ForwardBatch& batch, KvPool& pool, std::span<float> logits);

  // Sends a step on its way; what it computes is on the device once the stream has got there. Rows that are
  // fed take their token from sampled_ids().
  void start(const ForwardBatch& batch, std::span<const FedToken> fed, KvPool& pool);
  const float* logits() const { return ops_.logits(); }       // [logit rows, vocab]
  const float* hidden() const { return ops_.hidden(); }       // [hidden rows, hidden]
  const int32_t* tokens() const { return inputs_.tokens(); }  // [rows]
  // Room for what is chosen from the step's logits.
  int32_t* sampled_ids(int64_t count) { return ops_.sampled_ids(count); }
  const GraphUse& graph_use() const { return graphs_.use(); }

 private:
  void load(const ForwardBatch& batch, std::span<const FedToken> fed, KvPool& pool);
  void compute(KvPool& pool);
  void launch_step(KvPool& pool);
  // All layers of a small decode step as one kernel, where the model allows it.
  bool runs_as_chain(KvPool& pool) const;
  void launch_chain(const CudaStep& step);
  void forget_graphs_of_other_memory();
  void fetch_outputs(const ForwardBatch& batch, std::span<float> logits);

  const ModelTraits& traits_;
  gpu::Stream& stream_;
  StepInputs inputs_;
  CudaOps<T> ops_;
  Transformer<CudaOps<T>> transformer_;  // points to ops_
  ModelChain chain_;
  StepGraphs graphs_;
  std::optional<DecodeShape> shape_;  // of this step, where it has one
  int64_t recorded_moves_ = 0;        // of scratch memory and inputs, when the graphs were recorded
  std::vector<PagedKv> cache_, recorded_cache_;  // of each layer
  gpu::PinnedBuffer host_outputs_;
};

}  // namespace cheetah
