// SPDX-License-Identifier: MIT
#include "model/engine_bench.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/random.h"

namespace cheetah {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

class EngineBench {
 public:
  EngineBench(const Model& model, Runner& runner, KvPool& pool, const EngineBenchPlan& plan)
      : vocab_(model.traits().vocab),
        runner_(runner),
        pool_(pool),
        plan_(plan),
        pages_per_sequence_(pool.pages_for(plan.max_positions())) {
    CHEETAH_ASSERT(pool.num_pages() >= plan.num_pages(pool.page_tokens()), "a pool too small for the plan");
    for (int32_t page = 0; page < pool.num_pages(); ++page) pages_.push_back(page);
    Philox random(1);
    for (int64_t i = 0; i < plan.max_positions(); ++i)
      text_.push_back(static_cast<int32_t>(random.next_u32() % static_cast<uint32_t>(vocab_)));
  }

  // The first `tokens` tokens of `count` sequences, in steps of several sequences' chunks.
  double fill(int64_t count, int64_t tokens) {
    const auto start = Clock::now();
    clear();
    int64_t room = plan_.chunk_tokens;
    for (int64_t sequence = 0; sequence < count; ++sequence)
      for (int64_t at = 0; at < tokens;) {
        const int64_t part = std::min(room, tokens - at);
        add(sequence, at, part, at + part == tokens);
        at += part;
        room -= part;
        if (room > 0) continue;
        run_alone();
        room = plan_.chunk_tokens;
      }
    if (!sequences_.empty()) run_alone();
    return seconds_between(start, Clock::now());
  }

  // Times from token to token.
  void decode(int64_t batch, int64_t steps, std::vector<double>& seconds) {
    last_ids_.assign(static_cast<size_t>(batch), text_.front());
    const int64_t depth = runner_.max_steps_in_flight();
    auto last = Clock::now();
    for (int64_t step = 0, waited = 0; waited < steps;) {
      if (step < steps && step - waited < depth) {
        submit_decode(batch, plan_.context_tokens + step++, waited);
        if (step < steps && step - waited < depth) continue;
      }
      take_ids(runner_.wait(tickets_[static_cast<size_t>(waited++ % 2)]));
      const auto now = Clock::now();
      seconds.push_back(seconds_between(last, now));
      last = now;
    }
  }

 private:
  void clear() {
    tokens_.clear();
    fed_.clear();
    sequences_.clear();
    rows_.clear();
    samples_.clear();
  }
  void add(int64_t sequence, int64_t at, int64_t count, bool samples) {
    const auto row = std::ssize(tokens_);
    tokens_.insert(tokens_.end(), text_.begin() + at, text_.begin() + at + count);
    sequences_.push_back({.pages = pages_of(sequence),
        .context_tokens = at + count,
        .query_begin = row,
        .query_count = count});
    if (!samples) return;
    samples_.emplace_back().logits = std::ssize(rows_);
    rows_.push_back(row + count - 1);
  }
  StepTicket submit() {
    return runner_.submit({.tokens = tokens_, .sequences = sequences_, .logit_rows = rows_},
        {.fed = fed_, .samples = samples_}, pool_);
  }
  void run_alone() {
    runner_.wait(submit());
    clear();
  }
  // The token after `context` cached ones, of every sequence; it may still be on its way.
  void submit_decode(int64_t batch, int64_t context, int64_t waited) {
    clear();
    const int64_t step = context - plan_.context_tokens;
    for (int64_t i = 0; i < batch; ++i) {
      add(i, context, 1, true);
      tokens_.back() = last_ids_[static_cast<size_t>(i)];
      if (step > waited) fed_.push_back({.row = i, .sample = i});
    }
    tickets_[static_cast<size_t>(step % 2)] = submit();
  }
  void take_ids(const StepResult& result) {
    for (size_t i = 0; i < result.sampled.size(); ++i) last_ids_[i] = result.sampled[i].token.id;
  }
  std::span<const int32_t> pages_of(int64_t sequence) const {
    return std::span(pages_).subspan(
        static_cast<size_t>(sequence * pages_per_sequence_), static_cast<size_t>(pages_per_sequence_));
  }
  int64_t vocab_;
  Runner& runner_;
  KvPool& pool_;
  const EngineBenchPlan& plan_;
  int64_t pages_per_sequence_;
  std::vector<int32_t> pages_, text_;
  std::vector<int32_t> tokens_, last_ids_;
  std::vector<FedToken> fed_;
  std::vector<AttentionSequence> sequences_;
  std::vector<int64_t> rows_;
  std::vector<SampleRow> samples_;
  StepTicket tickets_[2] = {};
};

}  // namespace

int64_t EngineBenchPlan::max_batch() const { return *std::ranges::max_element(batches); }

int64_t EngineBenchPlan::max_positions() const {
  return std::max(context_tokens + new_tokens, prompt_length());
}

int64_t EngineBenchPlan::num_pages(int64_t page_tokens) const {
  return std::max(max_batch(), prompts) * ((max_positions() + page_tokens - 1) / page_tokens);
}

EngineBenchSamples run_engine_bench(const Model& model, Runner& runner, KvPool& pool,
    const EngineBenchPlan& plan, const std::function<bool(double)>& progress) {
  constexpr int64_t kWarmSteps = 4;  // a runner may record its second step of a kind
  EngineBench bench(model, runner, pool, plan);
  EngineBenchSamples samples;
  const auto parts = static_cast<double>((1 + std::ssize(plan.batches)) * plan.repeats);
  double done = 0;
  bool stopped = false;
  if (plan.prompt_length() > 0) {
    bench.fill(plan.prompts, plan.prompt_length());
    for (int64_t i = 0; i < plan.repeats; ++i) {
      samples.prompt_seconds.push_back(bench.fill(plan.prompts, plan.prompt_length()));
      if (!progress(++done / parts)) return samples;
    }
  }
  if (plan.new_tokens == 0) return samples;
  if (plan.context_tokens > 0) bench.fill(plan.max_batch(), plan.context_tokens);
  for (const int64_t batch : plan.batches) {
    DecodeSamples decode{.batch = batch, .step_seconds = {}}, warm;
    bench.decode(batch, std::min(kWarmSteps, plan.new_tokens), warm.step_seconds);
    for (int64_t repeat = 0; repeat < plan.repeats && !stopped; ++repeat) {
      bench.decode(batch, plan.new_tokens, decode.step_seconds);
      stopped = !progress(++done / parts);
    }
    samples.decode.push_back(std::move(decode));
    if (stopped) break;
  }
  return samples;
}

}  // namespace cheetah
