// SPDX-License-Identifier: MIT
#include "engine/scenario.h"

#include <algorithm>

#include "engine/scenario_load.h"

namespace cheetah {
std::vector<double> token_gaps(const std::vector<RequestTrace>& traces, double from_s, double to_s) {
  std::vector<double> gaps;
  for (const RequestTrace& trace : traces)
    for (size_t i = 1; i < trace.token_s.size(); ++i)
      if (trace.token_s[i] >= from_s && trace.token_s[i] < to_s)
        gaps.push_back(trace.token_s[i] - trace.token_s[i - 1]);
  return gaps;
}

StreamsResult run_streams(Engine& engine, const StreamsPlan& plan) {
  ScenarioLoad load(engine);
  const int64_t vocab = engine.model().traits().vocab;
  for (int64_t i = 0; i < plan.streams; ++i)
    load.send(random_tokens(plan.prompt_tokens, vocab, plan.seed * 1000 + static_cast<uint64_t>(i)),
        plan.new_tokens);
  load.run_to_end();
  StreamsResult result{.traces = load.traces()};
  double end = 0;
  int64_t tokens = 0;
  for (const RequestTrace& trace : result.traces) {
    end = std::max(end, trace.token_s.back());
    tokens += std::ssize(trace.token_s);
  }
  result.tokens_per_s = static_cast<double>(tokens) / end;
  result.decode_tokens_per_s = decode_rate(result.traces);
  return result;
}

LongPromptResult run_long_prompt(Engine& engine, const LongPromptPlan& plan) {
  ScenarioLoad load(engine);
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
  ScenarioLoad load(engine);
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
