// SPDX-License-Identifier: MIT
#include "model/batch_rows.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace cheetah {
namespace {

// Two tokens of a sequence that had three, and the first of another.
class BatchRowsTest : public ::testing::Test {
 protected:
  BatchRowsTest() { traits_.vocab = 10, traits_.max_positions = 5; }
  ForwardBatch batch() const {
    return {
        .tokens = tokens_, .sequences = sequences_, .logit_rows = logit_rows_, .hidden_rows = hidden_rows_};
  }

  ModelTraits traits_;
  std::vector<int32_t> tokens_ = {4, 5, 6};
  std::vector<AttentionSequence> sequences_ = {
      {.pages = {}, .context_tokens = 5, .query_begin = 0, .query_count = 2},
      {.pages = {}, .context_tokens = 1, .query_begin = 2, .query_count = 1}};
  std::vector<int64_t> logit_rows_ = {0, 1, 2}, hidden_rows_;
  BatchRows rows_;
};

TEST_F(BatchRowsTest, TellsWhereEachRowStands) {
  rows_.place(batch(), traits_);
  EXPECT_EQ(rows_.positions, (std::vector<int32_t>{3, 4, 0}));
  EXPECT_EQ(rows_.sequence, (std::vector<int32_t>{0, 0, 1}));
  EXPECT_EQ(rows_.uses_long_rope, (std::vector<int32_t>{0, 0, 0}));
  traits_.rope.long_inv_freq = {1.f};
  traits_.rope.original_context = 4;
  rows_.place(batch(), traits_);
  EXPECT_EQ(rows_.uses_long_rope, (std::vector<int32_t>{1, 1, 0}));
}

TEST_F(BatchRowsTest, TellsWhichRowsAreWanted) {
  rows_.place(batch(), traits_);
  EXPECT_TRUE(rows_.wants_all);
  hidden_rows_ = {1};
  rows_.place(batch(), traits_);
  EXPECT_FALSE(rows_.wants_all);
  EXPECT_EQ(rows_.wanted, (std::vector<int32_t>{0, 1, 2, 1}));
  hidden_rows_.clear();
  logit_rows_ = {0, 2, 1};
  rows_.place(batch(), traits_);
  EXPECT_FALSE(rows_.wants_all);
  logit_rows_ = {2};
  rows_.place(batch(), traits_);
  EXPECT_FALSE(rows_.wants_all);
}

TEST_F(BatchRowsTest, RefusesTokensOutsideTheVocabularyUnlessTheyAreFed) {
  tokens_ = {-1, 10, 6};
  EXPECT_THROW(rows_.place(batch(), traits_), Error);
  const std::vector<FedToken> one = {{.row = 1, .sample = 0}}, both = {{.row = 0, .sample = 1}, {.row = 1}};
  EXPECT_THROW(rows_.place(batch(), traits_, one), Error);
  EXPECT_NO_THROW(rows_.place(batch(), traits_, both));
}

TEST_F(BatchRowsTest, RefusesSequencesPastTheLastLearnedPosition) {
  traits_.learned_positions = true;
  EXPECT_NO_THROW(rows_.place(batch(), traits_));
  traits_.max_positions = 4;
  EXPECT_THROW(rows_.place(batch(), traits_), Error);
  traits_.learned_positions = false;
  EXPECT_NO_THROW(rows_.place(batch(), traits_));
}

}  // namespace
}  // namespace cheetah
