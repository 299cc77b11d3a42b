// SPDX-License-Identifier: MIT
// What a sequence's logits must not depend on: the rest of the batch, how its prompt was cut, the number of
// threads.
#include "model/forward.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "model/allocation_count.h"
#include "model/reference_models.h"

namespace cheetah {
namespace {

std::vector<int32_t> random_tokens(const Model& model, int64_t count, uint64_t seed) {
  Philox random(seed);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<int32_t>(random.next_u32() % static_cast<uint32_t>(model.traits().vocab)));
  return tokens;
}

// Runs sequences together in steps of `chunk` tokens each and keeps every token's logits.
class Driver {
 public:
  Driver(const Model& model, const CpuContext& context, DType cache)
      : model_(model), pool_(model.traits(), cache, kPages, kPageTokens), runner_(model, context) {}

  std::vector<std::vector<float>> run(const std::vector<std::vector<int32_t>>& sequences, int64_t chunk) {
    share_pages(sequences.size());
    std::vector<std::vector<float>> result(sequences.size());
    for (int64_t done = 0;; done += chunk) {
      plan(sequences, done, chunk);
      if (tokens_.empty()) return result;
      const auto vocab = static_cast<size_t>(model_.traits().vocab);
      logits_.resize(tokens_.size() * vocab);
      rows_.resize(tokens_.size());
      std::iota(rows_.begin(), rows_.end(), int64_t{0});
      runner_.forward({.tokens = tokens_, .sequences = batch_, .logit_rows = rows_}, pool_, logits_);
      for (size_t i = 0; i < batch_.size(); ++i) {
        const auto begin = logits_.begin() + batch_[i].query_begin * static_cast<int64_t>(vocab);
        std::vector<float>& into = result[owner_[i]];
        into.insert(into.end(), begin, begin + batch_[i].query_count * static_cast<int64_t>(vocab));
      }
    }
  }

 private:
  static constexpr int64_t kPages = 24, kPageTokens = 4;

  // Pages in turns, so that no sequence's pages lie together.
  void share_pages(size_t count) {
    pages_.assign(count, {});
    for (int32_t page = 0; page < kPages; ++page) pages_[static_cast<size_t>(page) % count].push_back(page);
  }
  void plan(const std::vector<std::vector<int32_t>>& sequences, int64_t done, int64_t chunk) {
    tokens_.clear();
    batch_.clear();
    owner_.clear();
    for (size_t s = 0; s < sequences.size(); ++s) {
      const auto total = static_cast<int64_t>(sequences[s].size());
      const int64_t count = std::min(chunk, total - done);
      if (count <= 0) continue;
      batch_.push_back({.pages = pages_[s],
          .context_tokens = done + count,
          .query_begin = static_cast<int64_t>(tokens_.size()),
          .query_count = count});
      owner_.push_back(s);
      tokens_.insert(tokens_.end(), sequences[s].begin() + done, sequences[s].begin() + done + count);
    }
  }

  const Model& model_;
  KvPool pool_;
  CpuRunner runner_;
  std::vector<std::vector<int32_t>> pages_;
  std::vector<int32_t> tokens_;
  std::vector<AttentionSequence> batch_;
  std::vector<size_t> owner_;
  std::vector<int64_t> rows_;
  std::vector<float> logits_;
};

class ForwardTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ForwardTest, GivesASequenceTheSameBitsAloneInABatchAndTokenByToken) {
  const auto model = Model::load(GetParam(), {.show_progress = false});
  const std::vector<std::vector<int32_t>> sequences = {
      random_tokens(*model, 21, 1), random_tokens(*model, 1, 2), random_tokens(*model, 13, 3)};
  ThreadPool one{{.num_threads = 1, .pin = false}}, two{{.num_threads = 2, .pin = false}};
  for (const Precision precision : {Precision::kExact, Precision::kNative})
    for (const DType cache : {DType::kF32, DType::kF16}) {
      Driver driver(*model, {one, precision}, cache), threaded(*model, {two, precision}, cache);
      const auto together = driver.run(sequences, 32);
      EXPECT_EQ(driver.run(sequences, 5), together) << "chunks of 5";
      EXPECT_EQ(driver.run(sequences, 1), together) << "token by token";
      EXPECT_EQ(threaded.run(sequences, 32), together) << "two threads";
      for (size_t s = 0; s < sequences.size(); ++s)
        EXPECT_EQ(driver.run({sequences[s]}, 32).front(), together[s]) << "alone";
    }
}

TEST_P(ForwardTest, AllocatesNothingOnceWarm) {
  const auto model = Model::load(GetParam(), {.show_progress = false});
  ThreadPool pool{{.num_threads = 1, .pin = false}};
  KvPool kv(model->traits(), DType::kF32, 4);
  CpuRunner runner(*model, {pool});
  const std::vector<int32_t> pages = {0, 1, 2, 3}, tokens = random_tokens(*model, 16, 5);
  std::vector<float> logits(static_cast<size_t>(model->traits().vocab));
  const std::vector<int64_t> last = {15}, first = {0};
  const auto step = [&](int64_t context, int64_t count) {
    const AttentionSequence sequence{
        .pages = pages, .context_tokens = context, .query_begin = 0, .query_count = count};
    runner.forward({.tokens = std::span(tokens).first(static_cast<size_t>(count)),
                       .sequences = {&sequence, 1},
                       .logit_rows = count == 1 ? first : last},
        kv, logits);
  };
  step(16, 16);
  step(17, 1);
  const int64_t before = allocation_count();
  step(16, 16);
  step(17, 1);
  step(18, 1);
  EXPECT_EQ(allocation_count() - before, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, ForwardTest, ::testing::ValuesIn(reference_models()),
    [](const auto& test) { return test_name(test.param); });

TEST(Forward, RefusesTokensOutsideTheVocabularyAndSequencesPastTheLastPosition) {
  const auto model =
      Model::load(std::string(CHEETAH_SOURCE_DIR) + "/tests/models/gpt2", {.show_progress = false});
  ThreadPool pool{{.num_threads = 1, .pin = false}};
  KvPool kv(model->traits(), DType::kF32, 64);
  CpuRunner runner(*model, {pool});
  std::vector<int32_t> pages(64);
  std::iota(pages.begin(), pages.end(), 0);
  std::vector<float> logits(512);
  const std::vector<int64_t> row = {0};
  const auto run = [&](int32_t token, int64_t context) {
    const AttentionSequence sequence{
        .pages = pages, .context_tokens = context, .query_begin = 0, .query_count = 1};
    runner.forward({.tokens = {&token, 1}, .sequences = {&sequence, 1}, .logit_rows = row}, kv, logits);
  };
  EXPECT_THROW(run(-1, 1), Error);
  EXPECT_THROW(run(512, 1), Error);
  EXPECT_THROW(run(5, 513), Error);
  EXPECT_NO_THROW(run(5, 1));
}

TEST(Forward, WantsNoLogitsOfAPromptsFirstPart) {
  const auto model =
      Model::load(std::string(CHEETAH_SOURCE_DIR) + "/tests/models/llama", {.show_progress = false});
  ThreadPool pool{{.num_threads = 1, .pin = false}};
  KvPool kv(model->traits(), DType::kF32, 2);
  CpuRunner runner(*model, {pool});
  const std::vector<int32_t> pages = {0, 1}, tokens = {1, 2, 3};
  const AttentionSequence sequence{.pages = pages, .context_tokens = 3, .query_begin = 0, .query_count = 3};
  EXPECT_NO_THROW(runner.forward({.tokens = tokens, .sequences = {&sequence, 1}, .logit_rows = {}}, kv, {}));
}

}  // namespace
}  // namespace cheetah
