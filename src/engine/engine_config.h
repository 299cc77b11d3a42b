// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>

#include "engine/scheduler/scheduler.h"
#include "model/model.h"
#include "tensor/dtype.h"

namespace cheetah {

enum class DeviceKind { kCpu, kCuda };

struct EngineConfig {
  DeviceKind device = DeviceKind::kCpu;
  int threads = 0;  // 0: one per physical core
  Precision precision = Precision::kNative;
  DType kv_dtype = DType::kF16;
  int64_t page_tokens = 16;    // 8 to 128
  int64_t max_context = 0;     // 0: the model's, or what fits
  int64_t kv_bytes = 0;        // 0: from free memory
  int64_t max_sequences = 64;  // choices decoded at once
  int64_t max_batch_tokens = 2048;
  double step_target_ms = 50;  // prefill chunks are sized so that a step takes about this long
  int64_t max_queue = 1024;    // waiting requests beyond this are refused
  bool prefix_cache = true;
  int64_t max_draft = 0;  // tokens verified ahead per sequence and step, where that pays; 0: none
  Preemption preemption = Preemption::kRecompute;
  BatchPolicy policy = BatchPolicy::kContinuous;
  double ageing_s = 5;        // waiting this long is worth one priority level
  double step_timeout_s = 0;  // a step that takes longer ends the engine; 0: none does
  std::string crash_dir{};    // where a fatal fault leaves its bundle; "": nowhere
};

}  // namespace cheetah
