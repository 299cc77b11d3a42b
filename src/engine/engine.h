#pragma once
// The engine as other threads see it. One thread owns all of its state; these calls only post messages to it.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/histogram.h"
#include "engine/request.h"
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
  Preemption preemption = Preemption::kRecompute;
  BatchPolicy policy = BatchPolicy::kContinuous;
  double ageing_s = 5;  // waiting this long is worth one priority level
  bool deterministic = false;
};

// A copy of the engine's counters as they stood between two steps.
struct EngineStats {
  int64_t running = 0, waiting = 0, swapped = 0;
  int64_t paused = 0;                                         // of those that run or wait
  int64_t pages_total = 0, pages_free = 0, pages_cached = 0;  // cached: held only by the prefix cache
  double kv_occupancy = 0;                                    // share of the pages that sequences hold
  double fragmentation = 0;  // of the places in those pages, the share without a token
  uint64_t steps = 0, prompt_tokens = 0, cached_prompt_tokens = 0, generated_tokens = 0;
  uint64_t prefix_queries = 0, prefix_hits = 0, preemptions = 0;  // queries and hits in tokens
  uint64_t finished_stop = 0, finished_length = 0, finished_cancelled = 0, finished_deadline = 0,
           finished_error = 0;
  double drain_tokens_per_s = 0;              // recent rate at which work leaves the queue
  double step_seconds = 0, mask_seconds = 0;  // spent in steps; of that, on the masks of grammars
  double last_step_ms = 0;
  int64_t last_batch_tokens = 0, last_batch_sequences = 0;
  Histogram ttft_s, itl_s, tpot_s, e2e_s, queue_s, prefill_s, decode_s, step_tokens, prompt_lengths,
      output_lengths;
};

class Engine {
 public:
  Engine(std::shared_ptr<const Model> model,
         const EngineConfig& config);  // shared: the server names and inspects it
  ~Engine();

  // Events arrive at `sink` until one with done, those of a step after stats() counts it. A request the
  // engine cannot take (too long, queue full, draining) gets a single kError event, before submit() returns
  // where that can be known at once.
  void submit(GenerationRequest request, EventSink sink);
  void cancel(RequestId id);
  // Its client reads too slowly: takes no part in steps until resumed, and is the first to give up its pages.
  void pause(RequestId id);
  void resume(RequestId id);

  // Runs a tiny request through every part, so that the first real one finds warm caches.
  void warm_up();
  // No new requests; returns when the running ones are done or the time is up (then they are cancelled).
  void drain(std::chrono::milliseconds limit);

  // Neither waits for a running step.
  EngineStats stats() const;
  std::string explain_last(int64_t num_decisions) const;  // the ring log, one line a decision
  const EngineConfig& config() const;                     // resolved: no zeros left
  const Model& model() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cheetah
