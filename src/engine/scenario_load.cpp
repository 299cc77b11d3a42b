// SPDX-License-Identifier: MIT
#include "engine/scenario_load.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/format.h"
#include "base/random.h"

namespace cheetah {
namespace {

// Nothing a scenario waits for takes this long.
constexpr auto kPatience = std::chrono::minutes(10);
// The arrivals are counted this often. Waking the counting thread for each token would cost the engine's thread,
// which may share its core, a tenth of a small model's step.
constexpr auto kLook = std::chrono::milliseconds(5);

}  // namespace

std::vector<int32_t> random_tokens(int64_t count, int64_t vocab, uint64_t seed) {
  Philox random(seed);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<int32_t>(random.next_u32() % static_cast<uint32_t>(vocab)));
  return tokens;
}

double decode_rate(const std::vector<RequestTrace>& traces) {
  double last_first = 0, first_last = 1e300;
  for (const RequestTrace& trace : traces) {
    last_first = std::max(last_first, trace.token_s.front());
    first_last = std::min(first_last, trace.token_s.back());
  }
  int64_t together = 0;
  for (const RequestTrace& trace : traces)
    together +=
        std::ranges::count_if(trace.token_s, [&](double t) { return t > last_first && t <= first_last; });
  return together > 0 ? static_cast<double>(together) / (first_last - last_first) : 0;
}

size_t ScenarioLoad::send(GenerationRequest request) {
  const size_t index = traces_.size();
  request.id = id_of(index);
  RequestTrace& trace = traces_.emplace_back();
  trace.sent_s = now_s();
  trace.prompt_tokens = std::ssize(request.prompt);
  ++num_open_;
  engine_.submit(std::move(request), [this, index](GenerationEvent&& event) {
    Arrival arrival{.index = index,
        .time_s = now_s(),
        .tokens = std::move(event.tokens),
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

size_t ScenarioLoad::send(std::vector<int32_t> prompt, int64_t max_tokens) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  return send(std::move(request));
}

EngineTime ScenarioLoad::patience_ends() { return std::chrono::steady_clock::now() + kPatience; }

void ScenarioLoad::look(EngineTime limit) {
  const auto now = std::chrono::steady_clock::now();
  if (now >= limit) throw Error("the load did not end within ten minutes");
  inbox_.wait_until(now + kLook);
  take_arrived();
  if (error_.empty()) return;
  for (size_t i = 0; i < traces_.size(); ++i) cancel(i);
  while (num_open_ > 0 && inbox_.wait_until(limit)) take_arrived();
  throw Error(format("the engine refused the load: {}", error_));
}

void ScenarioLoad::take_arrived() {
  inbox_.take_all(arrived_);
  for (const Arrival& arrival : arrived_) take(arrival);
}

void ScenarioLoad::take(const Arrival& arrival) {
  RequestTrace& trace = traces_[arrival.index];
  for (const GeneratedToken& token : arrival.tokens) {
    trace.tokens.push_back(token.id);
    trace.token_s.push_back(arrival.time_s);
  }
  if (!arrival.done) return;
  trace.cached_tokens = arrival.cached_tokens;
  --num_open_;
  if (error_.empty()) error_ = arrival.error;
}

}  // namespace cheetah
