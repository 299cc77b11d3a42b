// SPDX-License-Identifier: MIT
#include "model/cuda/step_graphs.h"

#include <gtest/gtest.h>

#include <numeric>

namespace cheetah {
namespace {

struct Step {
  explicit Step(int64_t rows, int64_t context)
      : tokens(static_cast<size_t>(rows)), logit_rows(tokens.size()) {
    std::iota(logit_rows.begin(), logit_rows.end(), 0);
    for (int64_t i = 0; i < rows; ++i)
      sequences.push_back(
          {.pages = {}, .context_tokens = context - i % 2, .query_begin = i, .query_count = 1});
  }
  ForwardBatch batch() const { return {.tokens = tokens, .sequences = sequences, .logit_rows = logit_rows}; }
  std::vector<int32_t> tokens;
  std::vector<int64_t> logit_rows;
  std::vector<AttentionSequence> sequences;
};

TEST(DecodeShape, FillsDecodeStepsUpToFewShapes) {
  EXPECT_EQ(decode_shape(Step(1, 5).batch()), (DecodeShape{1, 1024}));
  EXPECT_EQ(decode_shape(Step(5, 1025).batch()), (DecodeShape{8, 2048}));
  EXPECT_EQ(decode_shape(Step(64, 4096).batch()), (DecodeShape{64, 4096}));
  EXPECT_EQ(decode_shape(Step(65, 1).batch()), (DecodeShape{96, 1024}));
  EXPECT_EQ(decode_shape(Step(512, 1).batch()), (DecodeShape{512, 1024}));
}

TEST(DecodeShape, IsForPlainDecodeStepsOnly) {
  EXPECT_FALSE(decode_shape(Step(0, 1).batch()));
  EXPECT_FALSE(decode_shape(Step(513, 1).batch()));
  Step some_logits(4, 10), another_order(4, 10), prompt(4, 10), hidden(4, 10);
  some_logits.logit_rows.pop_back();
  EXPECT_FALSE(decode_shape(some_logits.batch()));
  std::swap(another_order.logit_rows[0], another_order.logit_rows[1]);
  EXPECT_FALSE(decode_shape(another_order.batch()));
  prompt.sequences = {{.pages = {}, .context_tokens = 4, .query_begin = 0, .query_count = 4}};
  EXPECT_FALSE(decode_shape(prompt.batch()));
  ForwardBatch with_hidden = hidden.batch();
  with_hidden.hidden_rows = hidden.logit_rows;
  EXPECT_FALSE(decode_shape(with_hidden));
}

TEST(StepGraphs, KeepTheShapesUsedLast) {
  StepGraphs graphs(2);
  graphs.add({1, 1024}, {});
  graphs.add({2, 1024}, {});
  EXPECT_NE(graphs.find({1, 1024}), nullptr);
  graphs.add({4, 1024}, {});
  EXPECT_EQ(graphs.find({2, 1024}), nullptr);
  EXPECT_NE(graphs.find({1, 1024}), nullptr);
  EXPECT_NE(graphs.find({4, 1024}), nullptr);
  EXPECT_EQ(graphs.size(), 2u);
  graphs.clear();
  EXPECT_EQ(graphs.find({4, 1024}), nullptr);
}

TEST(StepGraphs, NeverHoldMoreThanTheirBoundAndCountWhatTheyDid) {
  constexpr size_t kBound = 4;
  StepGraphs graphs(kBound);
  for (int64_t rows = 1; rows <= 50; ++rows) {
    graphs.add({rows, 1024}, {});
    EXPECT_LE(graphs.size(), kBound);
    EXPECT_NE(graphs.find({1, 1024}), nullptr) << "used every time";
  }
  for (int64_t rows = 2; rows <= 47; ++rows) EXPECT_EQ(graphs.find({rows, 1024}), nullptr) << rows;
  for (int64_t rows = 48; rows <= 50; ++rows) EXPECT_NE(graphs.find({rows, 1024}), nullptr) << rows;
  EXPECT_EQ(graphs.use().recorded, 50);
  EXPECT_EQ(graphs.use().launched, 50 + 50 + 3);
}

TEST(StepGraphs, RememberWhichShapesCame) {
  StepGraphs graphs;
  EXPECT_FALSE(graphs.seen_before({1, 1024}));
  EXPECT_TRUE(graphs.seen_before({1, 1024}));
  EXPECT_FALSE(graphs.seen_before({1, 2048}));
  graphs.clear();
  EXPECT_FALSE(graphs.seen_before({1, 1024}));
}

TEST(StepGraphs, CountPaddedRows) {
  StepGraphs graphs;
  graphs.count_rows(5, {8, 1024});
  graphs.count_rows(8, {8, 1024});
  EXPECT_EQ(graphs.use().rows, 13);
  EXPECT_EQ(graphs.use().padded_rows, 3);
}

}  // namespace
}  // namespace cheetah
