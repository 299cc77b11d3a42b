// SPDX-License-Identifier: MIT
#include "model/forward.h"

#include "model/first_touch.h"
#include "model/host_steps.h"

namespace cheetah {

template class Transformer<CpuOps>;

void Forward::run(const ForwardBatch& batch, KvPool& pool, std::span<float> logits) {
  rows_.place(batch, traits_);
  if (!batch.tokens.empty())
    transformer_.run({.batch = batch, .pool = pool, .to_logits = logits, .rows = rows_});
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
