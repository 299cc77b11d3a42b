// SPDX-License-Identifier: MIT
#include "model/cuda/cuda_forward.h"

#include <algorithm>

#include "base/error.h"
#include "gpu/nvtx.h"

namespace cheetah {

template class Transformer<CudaOps<float>>;
template class Transformer<CudaOps<Bf16>>;

template <class T>
void CudaForward<T>::run(const ForwardBatch& batch, KvPool& pool, std::span<float> logits) {
  start(batch, {}, pool);
  if (!batch.tokens.empty()) fetch_outputs(batch, logits);
}

template <class T>
void CudaForward<T>::start(const ForwardBatch& batch, std::span<const FedToken> fed, KvPool& pool) {
  const gpu::NvtxRange range("step");
  load(batch, fed, pool);
  if (!batch.tokens.empty()) compute(pool);
}

template <class T>
void CudaForward<T>::load(const ForwardBatch& batch, std::span<const FedToken> fed, KvPool& pool) {
  shape_ = decode_shape(batch);
  sampled_ids(0);
  inputs_.load(batch, traits_, fed, shape_);
  if (!shape_) return;
  cache_.clear();
  for (size_t i = 0; i < traits_.layers.size(); ++i) cache_.push_back(pool.layer(static_cast<int64_t>(i)));
  if (runs_as_chain(pool)) chain_.kernel->use_cache(cache_);
  graphs_.count_rows(std::ssize(batch.tokens), *shape_);
  forget_graphs_of_other_memory();
}

// From the inputs to logits and hidden states on the device.
template <class T>
void CudaForward<T>::compute(KvPool& pool) {
  if (!shape_ || !graphs_.seen_before(*shape_)) return launch_step(pool);
  const gpu::Graph* graph = graphs_.find(*shape_);
  if (!graph) {
    const int64_t moves = ops_.moves();
    graph = &graphs_.add(*shape_, gpu::Graph::record(stream_, [&] { launch_step(pool); }));
    CHEETAH_ASSERT(moves == ops_.moves(), "the step before took all the memory that a shape needs");
  }
  graph->launch(stream_);
}

template <class T>
void CudaForward<T>::launch_step(KvPool& pool) {
  const CudaStep step{inputs_, pool};
  if (runs_as_chain(pool)) return launch_chain(step);
  transformer_.run(step);
}

template <class T>
bool CudaForward<T>::runs_as_chain(KvPool& pool) const {
  return chain_.kernel && shape_ && shape_->rows <= gpu::DecodeChain::kMaxRows &&
         pool.layout().num_groups() == 1 && gpu::chain_takes_cache(pool.layer(0).dtype);
}

template <class T>
void CudaForward<T>::launch_chain(const CudaStep& step) {
  if constexpr (std::is_same_v<T, Bf16>) {
    const auto state = transformer_.embed(step, chain_.kernel->x());
    float* logits = chain_.makes_logits ? ops_.logits(step) : nullptr;
    chain_.kernel->run(inputs_.attention(0), step.pool.page_tokens(), logits);
    if (logits)
      transformer_.finish_logits(logits, step.num_logits() * traits_.vocab);
    else
      transformer_.finish(step, state);
  }
}

// A graph holds pointers: into scratch memory, the inputs and the cache.
template <class T>
void CudaForward<T>::forget_graphs_of_other_memory() {
  const auto is_same = [](const PagedKv& a, const PagedKv& b) {
    return a.keys == b.keys && a.values == b.values;
  };
  const int64_t moves = ops_.moves() + inputs_.moves();
  if (moves == recorded_moves_ && std::ranges::equal(cache_, recorded_cache_, is_same)) return;
  if (graphs_.size() > 0) stream_.wait();  // one of them may be running
  graphs_.clear();
  recorded_moves_ = moves;
  recorded_cache_ = cache_;
}

template <class T>
void CudaForward<T>::fetch_outputs(const ForwardBatch& batch, std::span<float> logits) {
  const int64_t num_logits = std::ssize(batch.logit_rows) * traits_.vocab;
  const int64_t num_hidden = std::ssize(batch.hidden_rows) * traits_.hidden;
  CHEETAH_ASSERT(std::ssize(logits) >= num_logits, "room for the logits");
  CHEETAH_ASSERT(std::ssize(batch.hidden) >= num_hidden, "room for the hidden states");
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  if (host_outputs_.size() < (num_logits + num_hidden) * kFloat)
    host_outputs_ = gpu::PinnedBuffer((num_logits + num_hidden) * kFloat);
  auto* staged = host_outputs_.as<float>();
  gpu::copy_to_host(staged, this->logits(), num_logits * kFloat, stream_);
  gpu::copy_to_host(staged + num_logits, hidden(), num_hidden * kFloat, stream_);
  stream_.wait();
  std::copy_n(staged, num_logits, logits.data());
  std::copy_n(staged + num_logits, num_hidden, batch.hidden.data());
}

template class CudaForward<float>;
template class CudaForward<Bf16>;

}  // namespace cheetah
