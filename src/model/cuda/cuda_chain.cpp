// Decode steps of few rows as one kernel.
#include <type_traits>

#include "kernels/activation/activation_cuda.h"
#include "model/cuda/chain_model.h"
#include "model/cuda/cuda_forward.h"

namespace cheetah {

template <class T>
void CudaForward<T>::make_chain() {
  if constexpr (std::is_same_v<T, Bf16>) {
    if (!why_no_chain(traits_).empty()) return;
    gpu::ChainModel model = chain_model_of(traits_, device_);
    if (!gpu::why_no_chain(model, stream().device()).empty()) return;
    gpu::ChainModel with_head = model;
    with_head.final_norm = weights_.final_norm.weight;
    with_head.head = weights_.head.bias ? gpu::ChainMatrix{} : chain_matrix(weights_.head.w);
    chain_has_head_ = with_head.head.w.data && gpu::why_no_chain(with_head, stream().device()).empty();
    chain_ = std::make_unique<gpu::DecodeChain>(chain_has_head_ ? with_head : model, place_.memory, stream());
  }
}

template <class T>
bool CudaForward<T>::runs_as_chain(KvPool& pool) const {
  return chain_ && shape_ && shape_->rows <= gpu::DecodeChain::kMaxRows && pool.layout().num_groups() == 1 &&
         gpu::chain_takes_cache(pool.layer(0).dtype);
}

template <class T>
void CudaForward<T>::give_chain_the_cache(KvPool& pool) {
  std::vector<PagedKv> layers;
  for (size_t i = 0; i < traits_.layers.size(); ++i) layers.push_back(pool.layer(static_cast<int64_t>(i)));
  chain_->use_cache(layers);
}

template <class T>
void CudaForward<T>::launch_chain(KvPool& pool) {
  if constexpr (std::is_same_v<T, Bf16>) {
    embed_tokens(chain_->x());
    const int64_t num_logits = rows_ * traits_.vocab;
    float* logits = chain_has_head_ ? take<float>(logits_, num_logits) : nullptr;
    chain_->run(inputs_.attention(0), pool.page_tokens(), logits);
    if (!chain_has_head_) {
      enter(&weights_.final_norm);
      compute_outputs();
    } else if (traits_.logit_scale != 1.f || traits_.logit_soft_cap != 0.f) {
      gpu::finish_logits(logits, num_logits, traits_.logit_scale, traits_.logit_soft_cap, stream());
    }
  }
}

template class CudaForward<float>;
template class CudaForward<Bf16>;

}  // namespace cheetah
