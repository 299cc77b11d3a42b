#include "model/engine_bench.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/random.h"
#include "kernels/sample/sample.h"

namespace cheetah {
namespace {

constexpr int64_t kPromptChunk = 512;  // as generation.cpp feeds prompts

template <class Work>
double seconds_of(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class EngineBench {
 public:
  EngineBench(const Model& model, Runner& runner, KvPool& pool, const EngineBenchPlan& plan)
      : vocab_(model.traits().vocab),
        runner_(runner),
        pool_(pool),
        plan_(plan),
        pages_per_sequence_(pool.pages_for(plan.context())) {
    CHEETAH_ASSERT(pool.num_pages() >= plan.num_pages(pool.page_tokens()), "a pool too small for the plan");
    for (int32_t page = 0; page < pool.num_pages(); ++page) pages_.push_back(page);
    Philox random(1);
    for (int64_t i = 0; i < plan.prompt_tokens; ++i)
      prompt_.push_back(static_cast<int32_t>(random.next_u32() % static_cast<uint32_t>(vocab_)));
  }

  // One sequence's prompt into its pages, chunk by chunk.
  void fill(int64_t sequence) {
    logits_.resize(static_cast<size_t>(vocab_));
    for (int64_t at = 0; at < plan_.prompt_tokens; at += kPromptChunk) {
      const int64_t count = std::min(kPromptChunk, plan_.prompt_tokens - at);
      const AttentionSequence part{
          .pages = pages_of(sequence), .context_tokens = at + count, .query_begin = 0, .query_count = count};
      const int64_t last = count - 1;
      runner_.forward(
          {.tokens = std::span(prompt_).subspan(static_cast<size_t>(at), static_cast<size_t>(count)),
           .sequences = {&part, 1},
           .logit_rows = {&last, 1}},
          pool_, logits_);
    }
  }

  void start_decode(int64_t batch) {
    tokens_.assign(static_cast<size_t>(batch), prompt_.empty() ? 0 : prompt_.back());
    logits_.resize(static_cast<size_t>(batch * vocab_));
    rows_.resize(static_cast<size_t>(batch));
    sequences_.resize(static_cast<size_t>(batch));
  }

  // The token after `context` cached ones, of every sequence of the batch.
  void step(int64_t context) {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const auto index = static_cast<int64_t>(i);
      rows_[i] = index;
      sequences_[i] = {
          .pages = pages_of(index), .context_tokens = context + 1, .query_begin = index, .query_count = 1};
    }
    runner_.forward({.tokens = tokens_, .sequences = sequences_, .logit_rows = rows_}, pool_, logits_);
    for (size_t i = 0; i < tokens_.size(); ++i)
      tokens_[i] =
          argmax(std::span(logits_).subspan(i * static_cast<size_t>(vocab_), static_cast<size_t>(vocab_)));
  }

 private:
  std::span<const int32_t> pages_of(int64_t sequence) const {
    return std::span(pages_).subspan(static_cast<size_t>(sequence * pages_per_sequence_),
                                     static_cast<size_t>(pages_per_sequence_));
  }
  int64_t vocab_;
  Runner& runner_;
  KvPool& pool_;
  const EngineBenchPlan& plan_;
  int64_t pages_per_sequence_;
  std::vector<int32_t> pages_;
  std::vector<int32_t> prompt_;
  std::vector<int32_t> tokens_;
  std::vector<int64_t> rows_;
  std::vector<AttentionSequence> sequences_;
  std::vector<float> logits_;  // [batch, vocab] f32
};

}  // namespace

int64_t EngineBenchPlan::max_batch() const { return *std::ranges::max_element(batches); }

int64_t EngineBenchPlan::num_pages(int64_t page_tokens) const {
  return max_batch() * ((context() + page_tokens - 1) / page_tokens);
}

EngineBenchSamples run_engine_bench(const Model& model, Runner& runner, KvPool& pool,
                                    const EngineBenchPlan& plan,
                                    const std::function<void(double)>& progress) {
  EngineBench bench(model, runner, pool, plan);
  EngineBenchSamples samples;
  const int64_t prompts = std::max(plan.repeats, plan.max_batch());
  const auto parts = static_cast<double>(1 + static_cast<int64_t>(plan.batches.size()) * plan.repeats);
  if (plan.prompt_tokens > 0) {
    bench.fill(0);
    for (int64_t i = 0; i < prompts; ++i) {
      samples.prompt_seconds.push_back(seconds_of([&] { bench.fill(i % plan.max_batch()); }));
      progress(static_cast<double>(i + 1) / static_cast<double>(prompts) / parts);
    }
  }
  double done = 1;
  for (const int64_t batch : plan.batches) {
    DecodeSamples decode{.batch = batch, .step_seconds = {}};
    bench.start_decode(batch);
    if (plan.new_tokens > 0) bench.step(plan.prompt_tokens);
    for (int64_t repeat = 0; repeat < plan.repeats; ++repeat) {
      for (int64_t i = 0; i < plan.new_tokens; ++i)
        decode.step_seconds.push_back(seconds_of([&] { bench.step(plan.prompt_tokens + i); }));
      progress(++done / parts);
    }
    samples.decode.push_back(std::move(decode));
  }
  return samples;
}

}  // namespace cheetah
