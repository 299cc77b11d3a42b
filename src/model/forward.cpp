#include "model/forward.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/format.h"
#include "kernels/activation/activation.h"
#include "kernels/embed/embed.h"
#include "kernels/norm/norm.h"
#include "model/first_touch.h"
#include "model/host_steps.h"

namespace cheetah {

void Forward::run(const ForwardBatch& batch, KvPool& pool, std::span<float> logits) {
  prepare(batch);
  if (rows_ == 0) return;
  embed_tokens(batch);
  for (size_t i = 0; i < traits_.layers.size(); ++i) run_layer(i, batch, pool);
  write_outputs(batch, logits);
}

void Forward::prepare(const ForwardBatch& batch) {
  rows_ = static_cast<int64_t>(batch.tokens.size());
  positions_.clear();
  groups_.clear();
  for (const int32_t token : batch.tokens)
    if (token < 0 || token >= traits_.vocab)
      throw Error(format("token id {} is outside the vocabulary of {}", token, traits_.vocab));
  for (const AttentionSequence& sequence : batch.sequences) {
    CHEETAH_ASSERT(sequence.query_begin == static_cast<int64_t>(positions_.size()),
                   "sequences follow each other in the batch");
    if (traits_.learned_positions && sequence.context_tokens > traits_.max_positions)
      throw Error(format("a sequence of {} tokens is longer than the model's {} positions",
                         sequence.context_tokens, traits_.max_positions));
    const bool is_long =
        !traits_.rope.long_inv_freq.empty() && sequence.context_tokens > traits_.rope.original_context;
    if (groups_.empty() || groups_.back().is_long != is_long)
      groups_.push_back({.begin = sequence.query_begin, .count = 0, .is_long = is_long});
    groups_.back().count += sequence.query_count;
    const int64_t first = sequence.context_tokens - sequence.query_count;
    for (int64_t i = 0; i < sequence.query_count; ++i) positions_.push_back(static_cast<int32_t>(first + i));
  }
  CHEETAH_ASSERT(static_cast<int64_t>(positions_.size()) == rows_, "sequences cover the batch's tokens");
}

void Forward::embed_tokens(const ForwardBatch& batch) {
  x_ = x_buffer_.take(rows_ * traits_.hidden);
  embed({.table = weights_.embedding,
         .ids = batch.tokens,
         .scale = traits_.embedding_scale,
         .y = x_,
         .y_stride = traits_.hidden},
        context_);
  if (!traits_.learned_positions) return;
  float* places = branch_.take(rows_ * traits_.hidden);
  embed({.table = weights_.positions, .ids = positions_, .y = places, .y_stride = traits_.hidden}, context_);
  add_scaled(places, 1.f, x_, rows_ * traits_.hidden, context_);
}

void Forward::run_layer(size_t index, const ForwardBatch& batch, KvPool& pool) {
  const LayerWeights& w = weights_.layers[index];
  const int64_t hidden = traits_.hidden;
  const float* in = traits_.pre_norm ? normed(w.attention_in, x_, normed_.take(rows_ * hidden)) : x_;
  const auto layer = static_cast<int64_t>(index);
  const LayerCache cache{pool.layer(layer), batch.of_group(pool.group_of(layer))};
  if (traits_.has_mla)
    attend_latent(in, index, cache);
  else
    attend(in, index, cache);
  const int64_t width = w.attention.o.w.cols;
  // Past the last layer's attention only rows whose outputs are wanted matter.
  if (index + 1 == traits_.layers.size()) pick_rows(batch, width);
  if (rows_ == 0) return;
  float* branch = branch_.take(rows_ * hidden);
  linear(w.attention.o, attended_, width, {branch, hidden});
  add_residual(w.attention_out);

  // Both the logits and the hidden state of a row may be wanted: then there are more rows than before.
  in = traits_.pre_norm ? normed(w.mlp_in, x_, normed_.take(rows_ * hidden)) : x_;
  if (traits_.layers[index].moe)
    run_moe(w.moe, in, branch);
  else
    run_mlp(w.mlp, in, branch);
  add_residual(w.mlp_out);
}

// Those with logits first, then those with hidden states.
void Forward::pick_rows(const ForwardBatch& batch, int64_t attended_width) {
  const auto num_logits = std::ssize(batch.logit_rows), count = num_logits + std::ssize(batch.hidden_rows);
  float* x = picked_x_.take(count * traits_.hidden);
  float* attended = picked_attended_.take(count * attended_width);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = i < num_logits ? batch.logit_rows[static_cast<size_t>(i)]
                                       : batch.hidden_rows[static_cast<size_t>(i - num_logits)];
    CHEETAH_ASSERT(row >= 0 && row < static_cast<int64_t>(positions_.size()), "a wanted row is in the batch");
    std::memcpy(x + i * traits_.hidden, x_ + row * traits_.hidden,
                static_cast<size_t>(traits_.hidden) * sizeof(float));
    std::memcpy(attended + i * attended_width, attended_ + row * attended_width,
                static_cast<size_t>(attended_width) * sizeof(float));
  }
  x_ = x;
  attended_ = attended;
  rows_ = count;
}

// x += scale * norm(branch)
void Forward::add_residual(const Norm& out_norm) {
  float* branch = branch_.take(rows_ * traits_.hidden);
  if (traits_.post_norm) normed(out_norm, branch, branch);
  add_scaled(branch, traits_.residual_scale, x_, rows_ * traits_.hidden, context_);
}

void Forward::write_outputs(const ForwardBatch& batch, std::span<float> logits) {
  if (rows_ == 0) return;
  const float* x = normed(weights_.final_norm, x_, normed_.take(rows_ * traits_.hidden));
  rows_ = std::ssize(batch.logit_rows);
  const auto num_hidden = std::ssize(batch.hidden_rows) * traits_.hidden;
  CHEETAH_ASSERT(std::ssize(batch.hidden) >= num_hidden, "room for the hidden states");
  std::copy_n(x + rows_ * traits_.hidden, num_hidden, batch.hidden.data());
  if (rows_ > 0) write_logits(x, logits);
}

void Forward::write_logits(const float* x, std::span<float> logits) {
  const int64_t vocab = traits_.vocab, count = rows_ * vocab;
  CHEETAH_ASSERT(static_cast<int64_t>(logits.size()) >= count, "room for the logits");
  linear(weights_.head, x, traits_.hidden, {logits.data(), vocab});
  const float scale = traits_.logit_scale, cap = traits_.logit_soft_cap;
  if (scale == 1.f && cap == 0.f) return;
  context_.pool.parallel_for(count, 4096, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      float& logit = logits[static_cast<size_t>(i)];
      logit *= scale;
      if (cap != 0.f) logit = cap * std::tanh(logit / cap);
    }
  });
}

void Forward::linear(const Linear& layer, const float* x, int64_t x_stride, Rows y) {
  gemm({.x = x,
        .x_stride = x_stride,
        .m = rows_,
        .w = layer.w,
        .bias = layer.bias,
        .y = y.data,
        .y_stride = y.stride},
       context_);
}

const float* Forward::normed(const Norm& norm, const float* x, float* y) {
  const NormArgs args{.x = x,
                      .x_stride = traits_.hidden,
                      .y = y,
                      .y_stride = traits_.hidden,
                      .rows = rows_,
                      .cols = traits_.hidden,
                      .weight = norm.weight,
                      .bias = norm.bias,
                      .eps = traits_.norm_eps,
                      .weight_offset = traits_.norm_weight_offset};
  if (traits_.norm == NormKind::kRms)
    rms_norm(args, context_);
  else
    layer_norm(args, context_);
  return y;
}

struct CpuRunner::State {
  Forward forward;
  const ModelTraits& traits;
  HostSteps steps;
  ThreadPool& threads;
  FirstTouch first_touch = {};
};

CpuRunner::CpuRunner(const Model& model, const CpuContext& context)
    : state_(new State{Forward(model.traits(), model.weights(), context), model.traits(),
                       HostSteps(model.traits(), context.pool), context.pool}) {}

CpuRunner::~CpuRunner() = default;

void CpuRunner::forward(const ForwardBatch& batch, KvPool& pool, std::span<float> logits) {
  state_->forward.run(batch, pool, logits);
  state_->first_touch.run(batch, pool, state_->threads);
}

KvPool CpuRunner::make_kv_pool(const KvShape& shape) { return KvPool(state_->traits, shape); }

StepTicket CpuRunner::submit(const ForwardBatch& batch, const StepExtras& extras, KvPool& pool) {
  return state_->steps.submit(*this, batch, extras, pool);
}

StepResult CpuRunner::wait(StepTicket ticket) { return state_->steps.wait(ticket); }

}  // namespace cheetah
