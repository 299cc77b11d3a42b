// SPDX-License-Identifier: MIT
#include "kernels/sample/sample_cuda.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cuda/device_case.h"
#include "kernels/sample/row_sampler.h"

namespace cheetah::gpu {
namespace {

// Rows of logits on the device and what each row's last token was.
class SampleCase {
 public:
  SampleCase(int64_t count, int64_t vocab, std::vector<float> logits)
      : count_(count), vocab_(vocab), logits_(std::move(logits)), device_logits_(device_.upload(logits_)) {
    for (int64_t i = 0; i < count; ++i) {
      tokens_.push_back(static_cast<int32_t>(7 * i % vocab));
      token_rows_.push_back(static_cast<int32_t>(count - 1 - i));
    }
    device_tokens_ = device_.upload(tokens_);
    device_token_rows_ = device_.upload(token_rows_);
  }

  std::vector<SampledToken> on_device(const std::vector<SampleRow>& rows) {
    SamplePlan plan;
    plan.assign(rows, vocab_);
    const auto num_rows = std::ssize(rows);
    const auto list = [&](auto values) { return device_.upload(std::vector(values.begin(), values.end())); };
    const SampleArgs args{.logits = device_logits_,
        .last_tokens = device_tokens_,
        .last_token_rows = device_token_rows_,
        .vocab = vocab_,
        .num_rows = num_rows,
        .entries = list(plan.entries()),
        .seen = list(plan.seen()),
        .biased = list(plan.biased()),
        .forbidden = list(plan.forbidden()),
        .masks = list(plan.masks()),
        .num_changed = plan.num_changed(),
        .changed = device_.upload(std::vector<float>(static_cast<size_t>(plan.num_changed() * vocab_))),
        .parts =
            device_.upload(std::vector<SamplePart>(static_cast<size_t>(num_rows * sample_pieces(vocab_)))),
        .totals = device_.upload(std::vector<SampleTotal>(rows.size())),
        .arrivals = device_.upload(std::vector<uint32_t>(rows.size(), 0)),
        .filters = plan.filters(),
        .has_logprobs = plan.has_logprobs(),
        .outcomes = device_.upload(std::vector<SampleOutcome>(rows.size())),
        .ids = device_.upload(std::vector<int32_t>(rows.size(), -1))};
    sample_rows(args, device_.stream());
    sample_rows(args, device_.stream());  // the counts of arrivals stand as before
    const auto outcomes = device_.download(args.outcomes, num_rows);
    const auto ids = device_.download(args.ids, num_rows);
    std::vector<SampledToken> sampled(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(ids[i], outcomes[i].id);
      sampled[i].impossible = outcomes[i].impossible;
      sampled[i].token = {.id = outcomes[i].id, .logprob = outcomes[i].logprob, .top = {}};
      sampled[i].token.top.assign(outcomes[i].top, outcomes[i].top + outcomes[i].num_top);
    }
    return sampled;
  }

  std::vector<SampledToken> on_cpu(const std::vector<SampleRow>& rows) {
    std::vector<int32_t> last;
    for (const int32_t row : token_rows_) last.push_back(tokens_[static_cast<size_t>(row)]);
    std::vector<SampledToken> sampled(rows.size());
    ThreadPool threads({.num_threads = 2});
    RowSampler(2).run({.rows = rows, .logits = logits_, .last_tokens = last, .sampled = sampled}, threads);
    return sampled;
  }

  // The device's tokens are the CPU's. Where they are drawn, a number very near a border between two tokens
  // may fall to either side, as may a token at the border of the nucleus.
  void expect_equal(std::vector<SampleRow> rows) {
    const auto actual = on_device(rows);
    const auto expected = on_cpu(rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(actual[i].impossible, expected[i].impossible) << i;
      if (actual[i].token.id != expected[i].token.id) {
        EXPECT_GT(rows[i].sampling.temperature, 0.f) << "row " << i;
        EXPECT_TRUE(is_near(rows[i], actual[i].token.id))
            << "row " << i << ": " << actual[i].token.id << " for " << expected[i].token.id;
        continue;
      }
      EXPECT_NEAR(actual[i].token.logprob, expected[i].token.logprob, 2e-5) << i;
      ASSERT_EQ(actual[i].token.top.size(), expected[i].token.top.size()) << i;
      for (size_t k = 0; k < expected[i].token.top.size(); ++k) {
        EXPECT_EQ(actual[i].token.top[k].id, expected[i].token.top[k].id) << i << ", " << k;
        EXPECT_NEAR(actual[i].token.top[k].logprob, expected[i].token.top[k].logprob, 2e-5);
      }
    }
  }

 private:
  bool is_near(const SampleRow& row, int32_t id) {
    constexpr double kNear = 4e-6;
    std::vector<SampleRow> near;
    for (const double step : {-kNear, 0.0, kNear})
      for (const float shift : {-2e-6f, 0.f, 2e-6f}) {
        near.push_back(row);
        near.back().uniform = std::clamp(row.uniform + step, 0.0, 0x1.fffffffffffffp-1);
        if (row.sampling.top_p < 1.f) near.back().sampling.top_p += shift;
      }
    const auto tokens = on_cpu(near);
    return std::ranges::any_of(tokens, [&](const SampledToken& token) { return token.token.id == id; });
  }

  DeviceCase device_;
  int64_t count_, vocab_;
  std::vector<float> logits_;
  const float* device_logits_;
  std::vector<int32_t> tokens_, token_rows_;
  const int32_t *device_tokens_, *device_token_rows_;
};

std::vector<SampleRow> rows_for(int64_t count, const SamplingParams& params, int repeats = 1) {
  std::vector<SampleRow> rows;
  Philox random(3);
  for (int64_t i = 0; i < count * repeats; ++i) {
    SampleRow row;
    row.logits = i % count;
    row.sampling = params;
    row.uniform = random.next_uniform();
    rows.push_back(row);
  }
  return rows;
}

TEST(SampleCuda, TheBestTokenIsTheCpusOnEveryVocabulary) {
  for (const int64_t vocab : {1, 2, 31, 4095, 4096, 4097, 32000, 128256, 262144}) {
    SCOPED_TRACE(vocab);
    constexpr int64_t kCount = 5;
    SampleCase each(kCount, vocab, normal_numbers(kCount * vocab, 1, 3.f));
    each.expect_equal(rows_for(kCount, {}));
  }
}

TEST(SampleCuda, TiesGoToTheLowerIdAndNanNeverWins) {
  constexpr int64_t kVocab = 10000;
  const float nan = std::nanf(""), inf = INFINITY;
  std::vector<float> logits(5 * kVocab, -1.f);
  logits[kVocab - 1] = logits[5000] = 2.f;                 // row 0: 5000
  std::fill_n(logits.begin() + kVocab, kVocab, nan);       // row 1: 0
  std::fill_n(logits.begin() + 2 * kVocab, kVocab, -inf);  // row 2: 0
  std::fill_n(logits.begin() + 3 * kVocab, 7000, nan);     // row 3: 7000
  std::fill_n(logits.begin() + 4 * kVocab, kVocab, -0.f);  // row 4: both zeros are one
  logits[4 * kVocab + 30] = 0.f;
  SampleCase each(5, kVocab, logits);
  for (const SamplingParams& params : {SamplingParams{}, SamplingParams{.temperature = 1.f, .top_k = 1}})
    each.expect_equal(rows_for(5, params));
}

TEST(SampleCuda, DrawsFromAllTokensFallWhereTheCpusDo) {
  for (const int64_t vocab : {3, 5000, 128256}) {
    SCOPED_TRACE(vocab);
    SampleCase each(4, vocab, normal_numbers(4 * vocab, 2, 3.f));
    for (const float temperature : {0.3f, 1.f, 2.5f})
      each.expect_equal(rows_for(4, {.temperature = temperature}, 16));
  }
}

// Peaked rows are sorted in shared memory, flat ones searched.
TEST(SampleCuda, FiltersKeepWhatTheCpuKeeps) {
  for (const float spread : {0.05f, 1.f, 4.f})
    for (const int64_t vocab : {300, 50000, 128256}) {
      SampleCase each(3, vocab, normal_numbers(3 * vocab, 5, spread));
      for (const SamplingParams& params : {SamplingParams{.temperature = 1.f, .top_k = 50},
               SamplingParams{.temperature = 0.7f, .top_p = 0.9f},
               SamplingParams{.temperature = 1.f, .min_p = 0.1f},
               SamplingParams{.temperature = 2.f, .top_p = 0.99f},
               SamplingParams{.temperature = 1.f, .top_k = 3000, .top_p = 0.5f},
               SamplingParams{.temperature = 1.f, .top_k = 100, .top_p = 0.8f, .min_p = 0.02f},
               SamplingParams{.temperature = 1.f, .top_p = 0.95f, .min_p = 0.05f},
               SamplingParams{.temperature = 1.f, .min_p = 1.5f}}) {
        SCOPED_TRACE(testing::Message() << vocab << " " << spread << " k " << params.top_k << " p "
                                        << params.top_p << " min " << params.min_p);
        each.expect_equal(rows_for(3, params, 4));
      }
    }
}

TEST(SampleCuda, EqualLogitsAreKeptFromTheLowestIdOn) {
  constexpr int64_t kVocab = 9000;
  std::vector<float> logits(kVocab, 1.f);
  for (size_t i = 0; i < 40; ++i) logits[200 * i + 11] = 2.f;
  SampleCase each(1, kVocab, logits);
  for (const int64_t top_k : {5, 40, 60, 5000})
    each.expect_equal(rows_for(1, {.temperature = 1.f, .top_k = top_k}, 24));
}

TEST(SampleCuda, PenaltiesBiasesAndMasksChangeTheRowAsTheCpuDoes) {
  constexpr int64_t kVocab = 5000, kCount = 4;
  SampleCase each(kCount, kVocab, normal_numbers(kCount * kVocab, 8, 2.f));
  std::vector<int32_t> history;
  for (int i = 0; i < 700; ++i) history.push_back(i * i % 5100 - 50);
  const std::vector<std::pair<int32_t, float>> bias = {
      {7, 3.f}, {12, -4.f}, {7, 0.3f}, {9999, 1.f}, {-1, 1.f}};
  const std::vector<int32_t> allowed = {3, 14, 15, 92, 653, 5000, -2}, forbidden = {0, 1, 2, 6000};
  std::vector<uint64_t> mask(79, 0x5555aaaa12345678u), nothing(79, 0);
  std::vector<SampleRow> rows;
  for (const float temperature : {0.f, 1.f})
    for (int kind = 0; kind < 64; ++kind) {
      SampleRow row;
      row.logits = kind % kCount;
      row.uniform = kind / 64.0;
      row.sampling.temperature = temperature;
      row.history = history;
      row.num_generated = kind % 3 * 100;
      if (kind & 1) row.sampling.repetition_penalty = 1.4f;
      if (kind & 2) row.sampling.frequency_penalty = 0.3f, row.sampling.presence_penalty = 0.2f;
      if (kind & 4) row.logit_bias = bias;
      if (kind & 8) row.allowed_ids = allowed;
      if (kind & 16) row.mask = mask;
      if (kind & 32) row.forbidden_ids = forbidden;
      if (kind % 5 == 0) row.top_logprobs = 3;
      rows.push_back(row);
    }
  rows.front().mask = nothing;
  each.expect_equal(rows);
}

TEST(SampleCuda, LogprobsAreTheModelsOwn) {
  for (const float spread : {0.f, 0.01f, 3.f})
    for (const int64_t vocab : {8, 128256}) {
      SampleCase each(3, vocab, normal_numbers(3 * vocab, 4, spread));
      auto rows = rows_for(3, {.temperature = 1.f}, 2);
      for (size_t i = 0; i < rows.size(); ++i) rows[i].top_logprobs = i % 2 == 0 ? 20 : 0;
      each.expect_equal(rows);
    }
}

}  // namespace
}  // namespace cheetah::gpu
