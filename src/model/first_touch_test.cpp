// SPDX-License-Identifier: MIT
#include "model/first_touch.h"

#include <gtest/gtest.h>

#include <cstring>

namespace cheetah {
namespace {

// Larger than two huge pages per layer, so that it is mapped rather than filled, and no whole number of them.
TEST(FirstTouch, LeavesEveryByteOfTheCacheAsItWasAndEndsWithinIt) {
  ThreadPool threads({.num_threads = 2});
  ModelTraits traits;
  traits.kv_heads = 3;
  traits.head_dim = 32;
  traits.layers.resize(2);
  constexpr int64_t kPages = 1501, kPageTokens = 16;
  constexpr int64_t kPlane = kPages * kPageTokens * 3 * 32 * 2;  // bytes of F16
  KvPool pool(traits, DType::kF16, kPages, kPageTokens);
  for (int64_t i = 0; i < 2; ++i) {
    std::memset(pool.layer(i).keys, 17, kPlane);
    std::memset(pool.layer(i).values, 18, kPlane);
  }
  const std::vector<int32_t> pages = {0, 7, kPages - 1}, tokens(40, 1);
  const AttentionSequence sequence{.pages = pages, .context_tokens = 40, .query_begin = 0, .query_count = 40};
  const ForwardBatch batch{.tokens = tokens, .sequences = {&sequence, 1}, .logit_rows = {}};
  FirstTouch first_touch;
  for (int step = 0; step < 20; ++step) first_touch.run(batch, pool, threads);
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t at = 0; at < kPlane; ++at) {
      ASSERT_EQ(pool.layer(i).keys[at], std::byte{17});
      ASSERT_EQ(pool.layer(i).values[at], std::byte{18});
    }
}

}  // namespace
}  // namespace cheetah
