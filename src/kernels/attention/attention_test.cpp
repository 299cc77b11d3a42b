// SPDX-License-Identifier: MIT
#include "kernels/attention/attention.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstring>

#include "base/random.h"
#include "kernels/attention/scaled_row.h"
#include "kernels/every_target.h"
#include "kernels/guarded.h"
#include "tensor/float16.h"

namespace cheetah {
namespace {

struct Request {
  int64_t context_tokens, query_count;
};

struct Problem {
  std::vector<Request> requests;
  int64_t heads = 4, kv_heads = 2, key_dim = 16, value_dim = 16, page_tokens = 16;
  DType dtype = DType::kF32;
  bool latent = false;  // MLA: no values of their own
  float soft_cap = 0.f;
  int64_t window = 0;
  bool sinks = false;
};

// A cache, queries and outputs for a problem. Pages are scattered, and everything no token wrote is NaN.
class Case {
 public:
  explicit Case(const Problem& problem) : problem_(problem), out_(prepare()) {
    Philox random(11);
    q_.resize(static_cast<size_t>(tokens_ * problem.heads * problem.key_dim));
    for (float& value : q_) value = 1.5f * random.next_normal();
    sinks_.resize(static_cast<size_t>(problem.heads));
    for (float& value : sinks_) value = 2 * random.next_normal();
    write_cache(random);
  }

  AttentionArgs args() {
    const Problem& p = problem_;
    return {.q = q_.data(),
        .q_stride = p.heads * p.key_dim,
        .out = out_.data(),
        .out_stride = p.heads * p.value_dim + 1,
        .heads = p.heads,
        .kv = kv(),
        .sequences = sequences_,
        .scale = 1.f / std::sqrt(static_cast<float>(p.key_dim)),
        .soft_cap = p.soft_cap,
        .window = p.window,
        .sinks = p.sinks ? sinks_.data() : nullptr};
  }
  const Guarded& out() const { return out_; }

 private:
  int64_t prepare() {
    int64_t page = 0;
    for (const Request& request : problem_.requests) {
      std::vector<int32_t>& pages = pages_.emplace_back();
      for (int64_t at = 0; at < request.context_tokens; at += problem_.page_tokens)
        pages.push_back(static_cast<int32_t>(page++));
    }
    // Odd steps through the pool visit every page once: neighbours in a sequence are not neighbours in
    // memory.
    num_pages_ = 1;
    while (num_pages_ < page) num_pages_ *= 2;
    for (std::vector<int32_t>& pages : pages_)
      for (int32_t& entry : pages) entry = static_cast<int32_t>((entry * 5 + 3) % num_pages_);
    for (size_t i = 0; i < problem_.requests.size(); ++i) {
      const Request& request = problem_.requests[i];
      sequences_.push_back({pages_[i], request.context_tokens, tokens_, request.query_count});
      tokens_ += request.query_count;
    }
    const auto rows = static_cast<size_t>(num_pages_ * problem_.kv_heads * problem_.page_tokens);
    const auto row = [&](int64_t dim) { return static_cast<size_t>(cache_row_bytes(problem_.dtype, dim)); };
    keys_.assign(rows * row(problem_.key_dim), std::byte{0xFF});  // NaN in every format
    values_.assign(rows * row(problem_.value_dim), std::byte{0xFF});
    return tokens_ * (problem_.heads * problem_.value_dim + 1);
  }

  void write_cache(Philox& random) {
    ThreadPool pool({.num_threads = 1});
    for (AttentionSequence sequence : sequences_) {
      sequence.query_begin = 0;
      sequence.query_count = sequence.context_tokens;
      std::vector<float> keys(
          static_cast<size_t>(sequence.context_tokens * problem_.kv_heads * problem_.key_dim));
      std::vector<float> values(
          static_cast<size_t>(sequence.context_tokens * problem_.kv_heads * problem_.value_dim));
      for (float& value : keys) value = random.next_normal();
      for (float& value : values) value = random.next_normal();
      write_kv({.keys = keys.data(),
                   .key_stride = problem_.kv_heads * problem_.key_dim,
                   .values = values.data(),
                   .value_stride = problem_.kv_heads * problem_.value_dim,
                   .kv = kv(),
                   .sequences = {&sequence, 1}},
          CpuContext{pool});
    }
  }

  PagedKv kv() {
    return {.dtype = problem_.dtype,
        .keys = keys_.data(),
        .values = problem_.latent ? nullptr : values_.data(),
        .page_tokens = problem_.page_tokens,
        .kv_heads = problem_.kv_heads,
        .key_dim = problem_.key_dim,
        .value_dim = problem_.value_dim};
  }

  Problem problem_;
  int64_t num_pages_ = 0, tokens_ = 0;
  std::vector<std::vector<int32_t>> pages_;
  std::vector<AttentionSequence> sequences_;
  std::vector<float> q_, sinks_;
  std::vector<std::byte> keys_, values_;
  Guarded out_;
};

std::vector<Problem> problems() {
  return {
      {.requests = {}},
      {.requests = {{1, 1}}, .heads = 1, .kv_heads = 1, .key_dim = 1, .value_dim = 1, .page_tokens = 1},
      {.requests = {{5, 5}, {7, 0}, {1, 1}, {64, 1}, {65, 2}, {63, 63}}},
      {.requests = {{130, 67}, {512, 3}, {513, 2}},
          .heads = 6,
          .kv_heads = 6,
          .key_dim = 64,
          .value_dim = 64},
      {.requests = {{200, 1}, {90, 9}},
          .heads = 14,
          .kv_heads = 2,
          .key_dim = 65,
          .value_dim = 37,
          .page_tokens = 7},
      {.requests = {{100, 30}},
          .heads = 8,
          .kv_heads = 2,
          .key_dim = 40,
          .value_dim = 96,
          .dtype = DType::kF16},
      {.requests = {{77, 77}},
          .heads = 3,
          .kv_heads = 1,
          .key_dim = 33,
          .value_dim = 18,
          .page_tokens = 5,
          .dtype = DType::kBF16},
      {.requests = {{150, 2}, {40, 40}},
          .heads = 60,
          .kv_heads = 1,
          .key_dim = 72,
          .value_dim = 64,
          .dtype = DType::kF16,
          .latent = true},
      {.requests = {{300, 200}}, .soft_cap = 5.f},
      {.requests = {{300, 290}, {1500, 1}, {20, 20}}, .window = 10},
      {.requests = {{1400, 70}},
          .key_dim = 32,
          .value_dim = 32,
          .dtype = DType::kF16,
          .window = 200,
          .sinks = true},
      {.requests = {{1200, 1}, {33, 33}}, .heads = 5, .kv_heads = 5, .page_tokens = 64, .sinks = true},
      {.requests = {{128, 128}}, .window = 1},
      {.requests = {{200, 1}, {90, 90}},
          .key_dim = 40,
          .value_dim = 37,
          .page_tokens = 7,
          .dtype = DType::kI8},
      {.requests = {{700, 3}, {90, 90}},
          .key_dim = 64,
          .value_dim = 64,
          .dtype = DType::kF8E4M3,
          .sinks = true},
      {.requests = {{150, 2}},
          .heads = 6,
          .kv_heads = 1,
          .key_dim = 72,
          .value_dim = 64,
          .dtype = DType::kI8,
          .latent = true},
  };
}

TEST(Attention, EveryTargetEqualsTheReference) {
  ThreadPool pool({.num_threads = 2, .pin = false});
  const std::vector<Problem> all = problems();
  for (size_t which = 0; which < all.size(); ++which) {
    SCOPED_TRACE(testing::Message() << "problem " << which);
    Case expected(all[which]);
    attention_reference(expected.args());
    for_every_target([&] {
      Case actual(all[which]);
      attention(actual.args(), CpuContext{pool});
      actual.out().expect_guards_whole();
      const int64_t row = all[which].heads * all[which].value_dim;
      for (int64_t at = 0; at < actual.out().size(); at += row + 1) {
        // A score is a chain of at most 96 products; its error, some 1e-5 of |q||k|, is a weight's relative
        // error. The output is a mean of values of order one under those weights.
        expect_close(actual.out().data() + at, expected.out().data() + at, row, 2e-5, 2e-5);
        EXPECT_TRUE(std::isnan(actual.out().data()[at + row]));
      }
    });
  }
}

TEST(Attention, EqualsTheReferenceOnAnyShape) {
  ThreadPool pool({.num_threads = 2, .pin = false});
  EXPECT_TRUE(rc::check("attention equals the reference", [&] {
    const auto between = [](int64_t low, int64_t high) { return *rc::gen::inRange<int64_t>(low, high + 1); };
    Problem problem;
    problem.kv_heads = between(1, 3);
    problem.heads = problem.kv_heads * between(1, 9);
    problem.value_dim = between(1, 70);
    problem.latent = between(0, 3) == 0;
    problem.key_dim = problem.latent ? problem.value_dim + between(0, 9) : between(1, 70);
    problem.page_tokens = between(1, 40);
    problem.dtype = *rc::gen::element(DType::kF32, DType::kF16, DType::kBF16, DType::kI8, DType::kF8E4M3);
    problem.window = between(0, 1) * between(1, 150);
    problem.soft_cap = between(0, 3) == 0 ? 3.f : 0.f;
    problem.sinks = between(0, 1) == 1;
    for (int64_t left = between(1, 3); left > 0; --left) {
      const int64_t context = between(1, left == 1 ? 700 : 130);
      problem.requests.push_back({context, between(0, std::min<int64_t>(context, 60))});
    }
    Case actual(problem), expected(problem);
    attention(actual.args(), CpuContext{pool});
    attention_reference(expected.args());
    actual.out().expect_guards_whole();
    const int64_t row = problem.heads * problem.value_dim;
    // As above, with room for the worst of many draws: 70 roundings of a sum of 70 products.
    for (int64_t at = 0; at < actual.out().size(); at += row + 1)
      expect_close(actual.out().data() + at, expected.out().data() + at, row, 6e-5, 6e-5);
    RC_ASSERT(!testing::Test::HasFailure());
  }));
}

// The same prompt whole, in two chunks, token by token, beside others and on more threads.
TEST(Attention, BitsDoNotDependOnChunksBatchOrThreads) {
  ThreadPool one({.num_threads = 1}), three({.num_threads = 3, .pin = false});
  for (const Problem& problem : problems()) {
    if (problem.requests.empty()) continue;
    Case whole(problem), apart(problem), threaded(problem);
    attention(whole.args(), CpuContext{one});
    attention(threaded.args(), CpuContext{three});
    for (const AttentionSequence& sequence : whole.args().sequences)
      for (int64_t done = 0; done < sequence.query_count;) {
        const int64_t count = std::min<int64_t>(done % 3 == 0 ? 1 : 50, sequence.query_count - done);
        const AttentionSequence chunk{sequence.pages,
            sequence.context_tokens - sequence.query_count + done + count, sequence.query_begin + done,
            count};
        AttentionArgs args = apart.args();
        args.sequences = {&chunk, 1};
        attention(args, CpuContext{done % 2 ? three : one});
        done += count;
      }
    const auto bytes = static_cast<size_t>(whole.out().size()) * sizeof(float);
    EXPECT_EQ(std::memcmp(whole.out().data(), threaded.out().data(), bytes), 0);
    EXPECT_EQ(std::memcmp(whole.out().data(), apart.out().data(), bytes), 0);
  }
}

TEST(Attention, OneKeyIsItsValueAndASinkTakesItsShare) {
  ThreadPool pool({.num_threads = 1});
  Problem problem{.requests = {{1, 1}}, .heads = 1, .kv_heads = 1};
  Case plain(problem);
  attention(plain.args(), CpuContext{pool});
  problem.sinks = true;
  Case with_sink(problem);
  AttentionArgs args = with_sink.args();
  const std::vector<float> queries(16, 0.f);  // score zero
  const float sink = std::log(3.f);
  args.q = queries.data();
  args.sinks = &sink;
  attention(args, CpuContext{pool});
  for (int64_t i = 0; i < 16; ++i) EXPECT_NEAR(with_sink.out().data()[i], plain.out().data()[i] / 4, 1e-6f);
}

TEST(Attention, CostCountsVisiblePairsAndEachCachedNumberOnce) {
  Problem problem{.requests = {{10, 4}}, .heads = 4, .kv_heads = 2, .key_dim = 16, .value_dim = 8};
  Case c(problem);
  EXPECT_EQ(attention_cost(c.args()).flops, 2.0 * 4 * (7 + 8 + 9 + 10) * 24);
  EXPECT_EQ(attention_cost(c.args()).bytes, 4.0 * (10 * 2 * 24 + 4 * 4 * 24));
  problem.window = 3;
  Case windowed(problem);
  EXPECT_EQ(attention_cost(windowed.args()).flops, 2.0 * 4 * 12 * 24);
  EXPECT_EQ(attention_cost(windowed.args()).bytes, 4.0 * (6 * 2 * 24 + 4 * 4 * 24));
}

TEST(WriteKv, AnEightBitRowIsWithinHalfAStepOfItsNumbers) {
  Philox random(5);
  std::vector<float> row(70);
  for (const DType dtype : {DType::kI8, DType::kF8E4M3})
    for (const float size : {0.f, 1e-3f, 1.f, 300.f}) {
      float largest = 0;
      for (float& value : row) largest = std::max(largest, std::fabs(value = size * random.next_normal()));
      std::vector<std::byte> stored(static_cast<size_t>(cache_row_bytes(dtype, 70)));
      store_scaled_row(dtype, row.data(), 70, stored.data());
      for (size_t i = 0; i < row.size(); ++i) {
        const float back = code_value(dtype, stored[i]) * row_scale(stored.data(), 70);
        // Levels are largest / 127 apart; E4M3 has four bits of precision and steps of 2^-9 below 2^-6.
        const float step =
            dtype == DType::kI8 ? largest / 127 : std::max(std::fabs(row[i]) / 8, largest / 448 * 0x1p-9f);
        EXPECT_LE(std::fabs(back - row[i]), 0.501f * step) << row[i];
      }
    }
}

TEST(WriteKv, RoundsToTheCachesFormatAndTouchesOnlyItsSlots) {
  ThreadPool pool({.num_threads = 2, .pin = false});
  constexpr int64_t kPage = 4, kHeads = 2, kDim = 43, kTokens = 21;
  std::vector<int32_t> pages = {6, 2, 0, 5, 3, 1, 4};
  const AttentionSequence sequence{pages, 26, 3, kTokens};
  std::vector<float> keys((kTokens + 3) * kHeads * kDim);
  Philox random(2);
  for (float& value : keys)
    value = 1e-4f * random.next_normal() * std::exp2(static_cast<float>(random.next_u32() % 40) - 12);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16})
    for_every_target([&] {
      std::vector<std::byte> cache(7 * kHeads * kPage * kDim * 4, std::byte{0xAB});
      write_kv({.keys = keys.data(),
                   .key_stride = kHeads * kDim,
                   .kv = {.dtype = dtype,
                       .keys = cache.data(),
                       .page_tokens = kPage,
                       .kv_heads = kHeads,
                       .key_dim = kDim},
                   .sequences = {&sequence, 1}},
          CpuContext{pool});
      int64_t written = 0;
      for (int64_t token = 0; token < kTokens; ++token)
        for (int64_t head = 0; head < kHeads; ++head)
          for (int64_t i = 0; i < kDim; ++i, ++written) {
            const int64_t position = 5 + token;
            const int64_t slot =
                (pages[static_cast<size_t>(position / kPage)] * kHeads + head) * kPage + position % kPage;
            const float value = keys[static_cast<size_t>(((3 + token) * kHeads + head) * kDim + i)];
            const std::byte* at = cache.data() + (slot * kDim + i) * traits_of(dtype).block_bytes;
            if (dtype == DType::kF32) {
              ASSERT_EQ(*reinterpret_cast<const float*>(at), value);
            } else {
              const uint16_t right = dtype == DType::kF16 ? f32_to_f16(value) : f32_to_bf16(value);
              ASSERT_EQ(*reinterpret_cast<const uint16_t*>(at), right) << value;
            }
          }
      const auto touched = std::ranges::count_if(cache, [](std::byte b) { return b != std::byte{0xAB}; });
      EXPECT_LE(touched, written * traits_of(dtype).block_bytes);
    });
}

}  // namespace
}  // namespace cheetah
