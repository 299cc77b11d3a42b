// SPDX-License-Identifier: MIT
#pragma once
// For tests: a small model, an engine core driven by hand, and one-by-one generation to compare with.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "base/published.h"
#include "base/random.h"
#include "engine/core.h"
#include "model/generation.h"

namespace cheetah {

inline std::shared_ptr<const Model> load_quietly(const std::string& path) {
  LoadOptions options;
  options.show_progress = false;
  return Model::load(std::string(CHEETAH_SOURCE_DIR) + "/" + path, options);
}

inline std::shared_ptr<const Model> small_model() {
  static const std::shared_ptr<const Model> model =
      load_quietly("models/cub-1m");  // loaded once for all tests
  return model;
}

// What a request has got so far, its events joined.
struct Received {
  struct Choice {
    std::vector<int32_t> tokens;
    std::vector<float> logprobs;
    std::string text;
    std::string stop_string;
    std::optional<FinishReason> finish;
    int64_t completion_tokens = 0;
  };
  std::map<int, Choice> choices;
  std::string error;
  ErrorKind error_kind = ErrorKind::kNone;
  bool done = false;
  int64_t cached_tokens = 0;
  RequestTimes times;
  std::vector<float> embedding;
  std::vector<GeneratedToken> prompt_logprobs;

  void add(GenerationEvent&& event) {
    EXPECT_FALSE(done) << "nothing follows the last event";
    Choice& choice = choices[event.choice];
    EXPECT_FALSE(choice.finish) << "nothing follows a choice's last event";
    for (const GeneratedToken& token : event.tokens) {
      choice.tokens.push_back(token.id);
      choice.logprobs.push_back(token.logprob);
    }
    choice.text += event.text;
    done = event.done;
    if (!event.finish) return;
    choice.finish = event.finish;
    choice.stop_string = event.stop_string;
    choice.completion_tokens = event.completion_tokens;
    error = event.error;
    error_kind = event.error_kind;
    cached_tokens = event.cached_tokens;
    times = event.times;
    embedding = event.embedding;
    prompt_logprobs = event.prompt_logprobs;
  }
};

inline EngineConfig small_config(int64_t num_pages, const Model& model) {
  EngineConfig config;
  config.threads = 2;
  config.kv_dtype = DType::kF32;
  config.page_tokens = 8;
  config.kv_bytes = num_pages * 8 * kv_bytes_per_token(model.traits(), config.kv_dtype);
  config.max_sequences = 8;
  config.max_batch_tokens = 64;
  return config;
}

// Each reading is a little later than the one before.
struct TickingTime final : TimeSource {
  mutable EngineTime at{};
  EngineTime now() const override { return at += std::chrono::microseconds(10); }
};

// Keeps what is written, as text: "event name=value name=value".
class KeptLog final : public LogSink {
 public:
  bool wants(LogLevel) const override { return true; }
  void write(LogLevel, std::string_view event, const std::vector<LogField>& fields) override {
    std::string line(event);
    for (const LogField& field : fields) line += " " + field.name + "=" + field.value;
    lines_.with([&](std::vector<std::string>& lines) { lines.push_back(std::move(line)); });
  }
  std::vector<std::string> lines() const { return lines_.copy(); }

 private:
  Published<std::vector<std::string>> lines_;
};

// An engine core that a test steps.
class CoreDriver {
 public:
  explicit CoreDriver(const EngineConfig& config, std::shared_ptr<const Model> model = small_model())
      : core(model, plan_memory(model->traits(), 0, config, int64_t{8} << 30), time, log) {}

  CoreDriver(const EngineConfig& config, const RunnerFactory& make_runner)
      : core(small_model(), plan_memory(small_model()->traits(), 0, config, int64_t{8} << 30), time, log,
            make_runner) {}

  CoreDriver(const MemoryPlan& plan, std::shared_ptr<const Model> model)
      : core(std::move(model), plan, time, log) {}

  RequestId submit(GenerationRequest request) {
    request.id = RequestId{++last_id};
    received[request.id];
    core.submit(
        std::move(request),
        [this](GenerationEvent&& event) { received[event.request].add(std::move(event)); }, now);
    core.deliver(now);
    return RequestId{last_id};
  }
  void step() {
    now += std::chrono::milliseconds(1);
    core.step(now);
    core.check_invariants();
    core.deliver(now);
  }
  void cancel(RequestId id) {
    core.cancel(id, now);
    core.deliver(now);
  }
  std::string explain_last(int64_t num_decisions) const {
    return text_of(core.decisions().last(num_decisions));
  }
  void run() {
    for (int64_t steps = 0; !core.idle(); ++steps) {
      ASSERT_LT(steps, 200000) << explain_last(20);
      step();
    }
  }
  Received generate(GenerationRequest request) {
    const RequestId id = submit(std::move(request));
    run();
    return received[id];
  }

  TickingTime time;
  EngineTime& now = time.at;
  KeptLog log;
  EngineCore core;
  std::map<RequestId, Received> received;
  uint64_t last_id = 0;
};

inline void expect_no_page_leaked(const CoreDriver& driver) {
  const EngineStats stats = driver.core.stats();
  EXPECT_EQ(stats.pages_free + stats.pages_cached, stats.pages_total);
}

inline std::vector<int32_t> random_prompt(int64_t length, uint64_t seed) {
  Philox random(seed);
  std::vector<int32_t> tokens;
  const auto vocab = static_cast<uint32_t>(small_model()->traits().vocab);
  for (int64_t i = 0; i < length; ++i) tokens.push_back(static_cast<int32_t>(random.next_u32() % vocab));
  return tokens;
}

// The plain loop: one sequence, a cache of its own.
class OneByOne {
 public:
  explicit OneByOne(const EngineConfig& config, std::shared_ptr<const Model> model = small_model())
      : model_(std::move(model)),
        threads_({.num_threads = 2}),
        runner_(*model_, CpuContext{threads_, config.precision}),
        pool_(model_->traits(), config.kv_dtype, (model_->traits().max_positions + 15) / 16) {}

  GenerationResult generate(const GenerationRequest& request) {
    CachedSequence sequence(*model_, runner_, pool_);
    return cheetah::generate(*model_, sequence, request.prompt,
        {.max_tokens = request.max_tokens,
            .sampling = request.sampling,
            .seed = request.seed,
            .ignore_end = request.ignore_eos,
            .stops = request.stop},
        [](std::string_view) { return true; });
  }

 private:
  std::shared_ptr<const Model> model_;
  ThreadPool threads_;
  CpuRunner runner_;
  KvPool pool_;
};

}  // namespace cheetah
