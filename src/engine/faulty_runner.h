// SPDX-License-Identifier: MIT
#pragma once
// For tests: a runner with the faults that a device may have.
#include <atomic>
#include <cmath>
#include <future>
#include <memory>

#include "base/error.h"
#include "engine/core_fixture.h"
#include "model/host_steps.h"

namespace cheetah {

// What the device does from now on. Any thread may change it.
struct DeviceFaults {
  std::atomic<bool> throws = false;  // at every step
  std::atomic<bool> lost = false;    // … and says that it will go on so
  std::atomic<bool> hangs = false;   // a step does not return until release()
  std::atomic<int32_t> poison = -1;  // this token makes outputs NaN

  void release() { released_.set_value(); }
  void hang() {
    hanging_.set_value();
    released_.get_future().wait();
  }
  void wait_until_it_hangs() { hanging_.get_future().wait(); }

 private:
  std::promise<void> released_, hanging_;
};

class FaultyRunner final : public Runner {
 public:
  FaultyRunner(const Model& model, const CpuContext& context, std::shared_ptr<DeviceFaults> faults)
      : faults_(std::move(faults)),
        vocab_(model.traits().vocab),
        width_(model.traits().hidden),
        cpu_(model, context),
        steps_(model.traits(), context.pool, 1) {}

  void forward(const ForwardBatch& batch, KvPool& pool, std::span<float> logits) override {
    cpu_.forward(batch, pool, logits);
    spoil(batch, batch.logit_rows, logits, vocab_);
    spoil(batch, batch.hidden_rows, batch.hidden, width_);
  }
  KvPool make_kv_pool(const KvShape& shape) override { return cpu_.make_kv_pool(shape); }
  StepTicket submit(const ForwardBatch& batch, const StepExtras& extras, KvPool& pool) override {
    if (faults_->throws || faults_->lost) throw Error("an illegal address was accessed");
    return steps_.submit(*this, batch, extras, pool);
  }
  StepResult wait(StepTicket ticket) override {
    if (faults_->hangs) faults_->hang();
    return steps_.wait(ticket);
  }
  std::string device_fault() const override { return faults_->lost ? "illegal address" : ""; }
  std::string launch_log() const override { return "decode_chain(4) grid 132x1x1"; }

 private:
  void spoil(const ForwardBatch& batch, std::span<const int64_t> rows, std::span<float> values,
      int64_t width) const {
    for (size_t i = 0; i < rows.size(); ++i)
      if (batch.tokens[static_cast<size_t>(rows[i])] == faults_->poison)
        values[i * static_cast<size_t>(width) + 1] = std::nanf("");
  }

  std::shared_ptr<DeviceFaults> faults_;  // shared with the test
  int64_t vocab_, width_;
  CpuRunner cpu_;
  HostSteps steps_;
};

inline RunnerFactory faulty_runners(std::shared_ptr<DeviceFaults> faults) {
  return [faults](const Model& model, const EngineConfig& config, ThreadPool& threads) {
    return std::make_unique<FaultyRunner>(model, CpuContext{threads, config.precision}, faults);
  };
}

}  // namespace cheetah
