#include <cstring>

#include "kernels/activation/activation.h"
#include "kernels/moe/moe.h"
#include "model/forward.h"

namespace cheetah {

void Forward::run_mlp(const MlpWeights& w, const float* x, float* y) {
  const int64_t hidden = traits_.hidden, ffn = w.up.w.rows;
  if (!w.gate.present()) {
    float* inner = inner_.take(rows_ * ffn);
    linear(w.up, x, hidden, {inner, ffn});
    activate(traits_.activation, inner, rows_ * ffn, context_);
    linear(w.down, inner, ffn, {y, hidden});
    return;
  }
  const int64_t stride = 2 * ffn;  // gate and up side by side
  float* gate = inner_.take(rows_ * stride);
  if (w.gate_up.present()) {
    linear(w.gate_up, x, hidden, {gate, stride});
  } else {
    linear(w.gate, x, hidden, {gate, stride});
    linear(w.up, x, hidden, {gate + ffn, stride});
  }
  gated_activation({.kind = traits_.activation,
                    .gate = gate,
                    .gate_stride = stride,
                    .up = gate + ffn,
                    .up_stride = stride,
                    .y = gate,
                    .y_stride = stride,
                    .rows = rows_,
                    .cols = ffn},
                   context_);
  linear(w.down, gate, stride, {y, hidden});
}

void Forward::run_moe(const MoeWeights& w, const float* x, float* y) {
  const int64_t hidden = traits_.hidden, top_k = traits_.moe.top_k, routed = rows_ * top_k;
  route_tokens(w, x);
  float* gathered = gathered_.take(routed * hidden);
  context_.pool.parallel_for(routed, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t token = order_.source[static_cast<size_t>(i)] / top_k;
      std::memcpy(gathered + i * hidden, x + token * hidden, static_cast<size_t>(hidden) * sizeof(float));
    }
  });
  run_experts(w);
  if (traits_.moe.shared_hidden > 0)
    run_mlp(w.shared, x, y);
  else
    std::memset(y, 0, static_cast<size_t>(rows_ * hidden) * sizeof(float));
  combine_experts(y);
}

void Forward::route_tokens(const MoeWeights& w, const float* x) {
  const MoeTraits& moe = traits_.moe;
  const auto routed = static_cast<size_t>(rows_ * moe.top_k);
  float* logits = router_.take(rows_ * moe.experts);
  linear(w.router, x, traits_.hidden, {logits, moe.experts});
  expert_ids_.resize(routed);
  expert_weights_.resize(routed);
  expert_row_.resize(routed);
  route(router_args(moe, logits, rows_, w.selection_bias), expert_ids_, expert_weights_);
  order_by_expert(expert_ids_, moe.experts, order_);
  for (size_t i = 0; i < routed; ++i)
    expert_row_[static_cast<size_t>(order_.source[i])] = static_cast<int64_t>(i);
}

// From gathered rows to expert_out_, both in the experts' order.
void Forward::run_experts(const MoeWeights& w) {
  const int64_t hidden = traits_.hidden, inner = traits_.moe.expert_hidden, stride = 2 * inner;
  const int64_t routed = rows_ * traits_.moe.top_k;
  float* gate = expert_inner_.take(routed * stride);
  GroupedGemmArgs args{.x = gathered_.take(routed * hidden),
                       .x_stride = hidden,
                       .experts = w.gate_up.empty() ? w.gate : w.gate_up,
                       .offsets = order_.offsets,
                       .biases = w.gate_bias,
                       .y = gate,
                       .y_stride = stride};
  grouped_gemm(args, context_);
  if (w.gate_up.empty()) {
    args.experts = w.up;
    args.biases = w.up_bias;
    args.y = gate + inner;
    grouped_gemm(args, context_);
  }
  const GatedArgs rows{.kind = traits_.activation,
                       .gate = gate,
                       .gate_stride = stride,
                       .up = gate + inner,
                       .up_stride = stride,
                       .y = gate,
                       .y_stride = stride,
                       .rows = routed,
                       .cols = inner};
  if (traits_.moe.clamped_swiglu)
    clamped_swiglu({.rows = rows, .limit = traits_.moe.swiglu_limit}, context_);
  else
    gated_activation(rows, context_);
  args = {.x = gate,
          .x_stride = stride,
          .experts = w.down,
          .offsets = order_.offsets,
          .biases = w.down_bias,
          .y = expert_out_.take(routed * hidden),
          .y_stride = hidden};
  grouped_gemm(args, context_);
}

// y += each token's choices, best first: an order that does not depend on the batch.
void Forward::combine_experts(float* y) {
  const int64_t hidden = traits_.hidden, top_k = traits_.moe.top_k;
  const float* out = expert_out_.take(rows_ * top_k * hidden);
  context_.pool.parallel_for(rows_, 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t token = begin; token < end; ++token)
      for (int64_t choice = 0; choice < top_k; ++choice) {
        const auto at = static_cast<size_t>(token * top_k + choice);
        const float weight = expert_weights_[at];
        const float* from = out + expert_row_[at] * hidden;
        float* to = y + token * hidden;
        for (int64_t i = 0; i < hidden; ++i) to[i] += weight * from[i];
      }
  });
}

}  // namespace cheetah
