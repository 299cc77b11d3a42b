// SPDX-License-Identifier: MIT
#pragma once
// For tests: an engine core on a runner that takes two steps at once.
#include <memory>

#include "base/error.h"
#include "engine/core_fixture.h"
#include "model/host_steps.h"

namespace cheetah {

// As a device behaves: two steps at once, and a step's tokens are not to be had before they are waited for.
class TwoStepRunner final : public Runner {
 public:
  TwoStepRunner(const Model& model, const CpuContext& context)
      : cpu_(model, context), steps_(model.traits(), context.pool, 2) {}

  void forward(const ForwardBatch& batch, KvPool& pool, std::span<float> logits) override {
    cpu_.forward(batch, pool, logits);
  }
  KvPool make_kv_pool(const KvShape& shape) override { return cpu_.make_kv_pool(shape); }
  int64_t max_steps_in_flight() const override { return 2; }
  StepTicket submit(const ForwardBatch& batch, const StepExtras& extras, KvPool& pool) override {
    num_fed += std::ssize(extras.fed);
    if (fails_at > 0 && --fails_at == 0) throw Error("the step cannot be");
    ++graphs.launched;
    return steps_.submit(*this, batch, extras, pool);
  }
  StepResult wait(StepTicket ticket) override {
    if (loses_device) throw Error("the device is gone");
    return steps_.wait(ticket);
  }

  GraphUse graph_use() const override { return graphs; }

  GraphUse graphs;
  int64_t num_fed = 0;
  int64_t fails_at = 0;  // the so many-th submit from now
  bool loses_device = false;

 private:
  CpuRunner cpu_;
  HostSteps steps_;
};

struct RunnerSlot {  // a base, so that it is there before the driver is made
  TwoStepRunner* runner = nullptr;
};
class AheadDriver : public RunnerSlot, public CoreDriver {
 public:
  explicit AheadDriver(const EngineConfig& config)
      : CoreDriver(config, [this](const Model& model, const EngineConfig& resolved, ThreadPool& threads) {
          auto made = std::make_unique<TwoStepRunner>(model, CpuContext{threads, resolved.precision});
          runner = made.get();
          return made;
        }) {}
};

}  // namespace cheetah
