// SPDX-License-Identifier: MIT
#include "engine/scenario.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/format.h"
#include "base/mailbox.h"
#include "base/random.h"
#include "base/time.h"

namespace cheetah {
namespace {

// Nothing a scenario waits for takes this long.
constexpr auto kPatience = std::chrono::minutes(10);
// The arrivals are counted this often. Waking the counting thread for each token would cost the engine's thread,
// which may share its core, a tenth of a small model's step.
constexpr auto kLook = std::chrono::milliseconds(5);

std::vector<int32_t> random_tokens(int64_t count, int64_t vocab, uint64_t seed) {
  Philox random(seed);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<int32_t>(random.next_u32() % static_cast<uint32_t>(vocab)));
  return tokens;
}

// Sends requests and records when their tokens come. The engine's thread only posts; this one counts
// them.
class Load {
 public:
  explicit Load(Engine& engine) : engine_(engine), begin_(std::chrono::steady_clock::now()) {}

  double now_s() const { return seconds_since(begin_); }

  size_t send(std::vector<int32_t> prompt, int64_t max_tokens) {
    GenerationRequest request;
    request.id = id_of(traces_.size());
    request.prompt = std::move(prompt);
    request.max_tokens = max_tokens;
    request.ignore_eos = true;
    traces_.push_back({.sent_s = now_s(), .token_s = {}, .prompt_tokens = std::ssize(request.prompt)});
    ++num_open_;
    const size_t index = traces_.size() - 1;
    engine_.submit(std::move(request), [this, index](GenerationEvent&& event) {
      Arrival arrival{.index = index,
          .time_s = now_s(),
          .num_tokens = std::ssize(event.tokens),
          .cached_tokens = event.cached_tokens,
          .error = event.error,
          .done = event.done};
      if (event.done)
        inbox_.post(std::move(arrival));
      else
        inbox_.post_quietly(std::move(arrival));
    });
    return index;
  }
  void cancel(size_t index) { engine_.cancel(id_of(index)); }

  // Counts arrivals until `enough()`. Throws when the engine refuses something, after the rest has ended: its
  // events come here as long as it lasts.
  template <class Enough>
  void run_until(const Enough& enough) {
    const auto limit = std::chrono::steady_clock::now() + kPatience;
    while (!enough()) {
      const auto now = std::chrono::steady_clock::now();
      if (now >= limit) throw Error("the load did not end within ten minutes");
      inbox_.wait_until(now + kLook);
      take_arrived();
      if (error_.empty()) continue;
      for (size_t i = 0; i < traces_.size(); ++i) cancel(i);
      while (num_open_ > 0 && inbox_.wait_until(limit)) take_arrived();
      throw Error(format("the engine refused the load: {}", error_));
    }
  }
  void run_to_end() {
    run_until([this] { return num_open_ == 0; });
  }
  int64_t num_open() const { return num_open_; }
  const std::vector<RequestTrace>& traces() const { return traces_; }

 private:
  struct Arrival {
    size_t index = 0;
    double time_s = 0;
    int64_t num_tokens = 0;
    int64_t cached_tokens = 0;
    std::string error;
    bool done = false;
  };
  // Far from other people's.
  static RequestId id_of(size_t index) { return RequestId{(uint64_t{1} << 62) + index}; }

  void take_arrived() {
    inbox_.take_all(arrived_);
    for (const Arrival& arrival : arrived_) take(arrival);
  }
  void take(const Arrival& arrival) {
    RequestTrace& trace = traces_[arrival.index];
    for (int64_t i = 0; i < arrival.num_tokens; ++i) trace.token_s.push_back(arrival.time_s);
    if (!arrival.done) return;
    trace.cached_tokens = arrival.cached_tokens;
    --num_open_;
    if (error_.empty()) error_ = arrival.error;
  }

  Engine& engine_;
  EngineTime begin_;
  std::vector<RequestTrace> traces_;
  std::vector<Arrival> arrived_;
  int64_t num_open_ = 0;
  std::string error_;
  Mailbox<Arrival> inbox_;
};

}  // namespace

std::vector<double> token_gaps(const std::vector<RequestTrace>& traces, double from_s, double to_s) {
  std::vector<double> gaps;
  for (const RequestTrace& trace : traces)
    for (size_t i = 1; i < trace.token_s.size(); ++i)
      if (trace.token_s[i] >= from_s && trace.token_s[i] < to_s)
        gaps.push_back(trace.token_s[i] - trace.token_s[i - 1]);
  return gaps;
}

StreamsResult run_streams(Engine& engine, const StreamsPlan& plan) {
  Load load(engine);
  const int64_t vocab = engine.model().traits().vocab;
  for (int64_t i = 0; i < plan.streams; ++i)
    load.send(random_tokens(plan.prompt_tokens, vocab, plan.seed * 1000 + static_cast<uint64_t>(i)),
        plan.new_tokens);
  load.run_to_end();
  StreamsResult result{.traces = load.traces()};
  double last_first = 0, first_last = 1e300, end = 0;
  int64_t tokens = 0;
  for (const RequestTrace& trace : result.traces) {
    last_first = std::max(last_first, trace.token_s.front());
    first_last = std::min(first_last, trace.token_s.back());
    end = std::max(end, trace.token_s.back());
    tokens += std::ssize(trace.token_s);
  }
  int64_t together = 0;
  for (const RequestTrace& trace : result.traces)
    together +=
        std::ranges::count_if(trace.token_s, [&](double t) { return t > last_first && t <= first_last; });
  result.tokens_per_s = static_cast<double>(tokens) / end;
  if (together > 0) result.decode_tokens_per_s = static_cast<double>(together) / (first_last - last_first);
  return result;
}

LongPromptResult run_long_prompt(Engine& engine, const LongPromptPlan& plan) {
  Load load(engine);
  const int64_t vocab = engine.model().traits().vocab;
  const int64_t most = engine.config().max_context - plan.prompt_tokens;
  for (int64_t i = 0; i < plan.streams; ++i)
    load.send(random_tokens(plan.prompt_tokens, vocab, plan.seed * 1000 + static_cast<uint64_t>(i)), most);
  const auto decoded = [&](const RequestTrace& trace) {
    return std::ssize(trace.token_s) > plan.calm_tokens;
  };
  load.run_until([&] { return std::ranges::all_of(load.traces(), decoded); });
  const uint64_t steps = engine.stats().steps;
  const size_t late = load.send(random_tokens(plan.long_prompt_tokens, vocab, plan.seed), 1);
  const double came = load.traces()[late].sent_s;
  load.run_until([&] { return !load.traces()[late].token_s.empty(); });
  LongPromptResult result;
  result.steps = engine.stats().steps - steps;
  for (size_t i = 0; i < late; ++i) load.cancel(i);
  load.run_to_end();
  const std::vector<RequestTrace> streams(load.traces().begin(), load.traces().end() - 1);
  double all_decode = 0;
  for (const RequestTrace& trace : streams) all_decode = std::max(all_decode, trace.token_s.front());
  const RequestTrace& last = load.traces()[late];
  result.calm_gaps_s = token_gaps(streams, all_decode, came);
  result.disturbed_gaps_s = token_gaps(streams, came, last.token_s.front());
  result.long_ttft_s = last.ttft_s();
  return result;
}

std::vector<RequestTrace> run_prefix_heavy(Engine& engine, const PrefixPlan& plan) {
  Load load(engine);
  const int64_t vocab = engine.model().traits().vocab;
  const std::vector<int32_t> shared = random_tokens(plan.shared_tokens, vocab, plan.seed);
  const auto send = [&](int64_t index) {
    std::vector<int32_t> prompt = shared;
    const auto own =
        random_tokens(plan.own_tokens, vocab, plan.seed * 1000 + static_cast<uint64_t>(index) + 1);
    prompt.insert(prompt.end(), own.begin(), own.end());
    load.send(std::move(prompt), plan.new_tokens);
  };
  for (int64_t sent = 0; sent < plan.requests; ++sent) {
    load.run_until([&] { return load.num_open() < plan.concurrency; });
    send(sent);
  }
  load.run_to_end();
  return load.traces();
}

}  // namespace cheetah
