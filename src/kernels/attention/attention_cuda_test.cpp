// SPDX-License-Identifier: MIT
#include "kernels/attention/attention_cuda.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string_view>

#include "kernels/attention/scaled_row.h"
#include "kernels/cuda/device_case.h"

namespace cheetah::gpu {
namespace {

struct Problem {
  std::vector<std::pair<int64_t, int64_t>> requests;  // context tokens, queries
  int64_t heads = 4, kv_heads = 2, key_dim = 16, value_dim = 16, page_tokens = 16;
  DType dtype = DType::kF32;
  bool latent = false;
  float soft_cap = 0.f;
  int64_t window = 0;
  bool sinks = false;
};

// A cache filled through the CPU's write_kv over scattered pages (all else is NaN), the same cache on the
// device, and the batch in both forms.
template <class T>
class AttentionCase {
 public:
  explicit AttentionCase(const Problem& problem) : p_(problem) {
    place_pages();
    make_cache();
    q_ = rounded_to<T>(normal_numbers(rows_ * p_.heads * p_.key_dim, 21, 1.5f));
    sinks_ = normal_numbers(p_.heads, 22, 2.f);
  }

  void check_every_variant() {
    std::vector<float> expected(static_cast<size_t>(rows_ * out_stride()), std::nanf(""));
    const float scale = 1.f / std::sqrt(static_cast<float>(p_.key_dim));
    attention_reference({.q = q_.data(),
        .q_stride = p_.heads * p_.key_dim,
        .out = expected.data(),
        .out_stride = out_stride(),
        .heads = p_.heads,
        .kv = host_kv(),
        .sequences = sequences_,
        .scale = scale,
        .soft_cap = p_.soft_cap,
        .window = p_.window,
        .sinks = p_.sinks ? sinks_.data() : nullptr});
    AttentionArgs<T> args{.q = device_.upload(numbers_as<T>(q_)),
        .q_stride = p_.heads * p_.key_dim,
        .out = nullptr,
        .out_stride = out_stride(),
        .heads = p_.heads,
        .kv = device_kv(by_token()),
        .batch = batch(),
        .scale = scale,
        .soft_cap = p_.soft_cap,
        .window = p_.window,
        .sinks = p_.sinks ? device_.upload(sinks_) : nullptr,
        .scratch = scratch()};
    for (const AttentionVariant<T>& variant : attention_variants<T>()) {
      if (!variant.fits(args, device_.stream().device())) continue;
      SCOPED_TRACE(variant.name);
      // Tensor cores take the weights of the values in 8 bits of mantissa.
      const double tolerance = std::string_view(variant.name) == "portable" ? 3e-5 : 0.02;
      args.out = device_.template poisoned<T>(rows_ * out_stride());
      variant.run(args, device_.stream());
      const std::vector<float> actual = device_.take(args.out, rows_ * out_stride());
      for (int64_t row = 0; row < rows_; ++row)
        expect_close(actual.data() + row * out_stride(), expected.data() + row * out_stride(),
            p_.heads * p_.value_dim, tolerance, rounding_of<T>());
    }
  }

  // The device's write into a fresh cache gives the CPU's bytes.
  void check_write() {
    const std::vector<std::byte> empty(cache_.size(), std::byte{0xFF});
    const PagedKv kv = device_kv(empty);
    write_kv<T>({.keys = device_.upload(numbers_as<T>(keys_)),
                    .key_stride = p_.kv_heads * p_.key_dim,
                    .values = p_.latent ? nullptr : device_.upload(numbers_as<T>(values_)),
                    .value_stride = p_.kv_heads * p_.value_dim,
                    .kv = kv,
                    .batch = write_batch()},
        device_.stream());
    EXPECT_EQ(device_.download(kv.keys, std::ssize(cache_)), by_token());
  }

 private:
  AttentionScratch scratch() {
    const int64_t sequences = std::ssize(sequences_);
    const auto parts = static_cast<size_t>(AttentionScratch::num_parts(sequences, p_.heads, p_.value_dim));
    return {.counters = device_.upload(std::vector<uint32_t>(static_cast<size_t>(sequences * p_.heads))),
        .parts = device_.upload(std::vector<float>(parts))};
  }
  int64_t out_stride() const { return p_.heads * p_.value_dim + 8; }

  void place_pages() {
    for (const auto& [context, queries] : p_.requests) {
      std::vector<int32_t>& pages = pages_.emplace_back();
      for (int64_t at = 0; at < context; at += p_.page_tokens)
        pages.push_back(static_cast<int32_t>(num_pages_++));
      tokens_ += context;
    }
    for (auto& pages : pages_)
      for (int32_t& page : pages) page = static_cast<int32_t>(num_pages_ - 1 - page);
    int64_t token = 0;
    for (size_t i = 0; i < pages_.size(); ++i) {
      const auto& [context, queries] = p_.requests[i];
      whole_.push_back({pages_[i], context, token, context});
      sequences_.push_back({pages_[i], context, rows_, queries});
      token += context;
      rows_ += queries;
    }
  }

  void make_cache() {
    const int64_t cached_rows = num_pages_ * p_.page_tokens * p_.kv_heads;
    key_bytes_ = cached_rows * cache_row_bytes(p_.dtype, p_.key_dim);
    const int64_t value_bytes = p_.latent ? 0 : cached_rows * cache_row_bytes(p_.dtype, p_.value_dim);
    cache_.assign(static_cast<size_t>(key_bytes_ + value_bytes), std::byte{0xFF});
    keys_ = rounded_to<T>(normal_numbers(tokens_ * p_.kv_heads * p_.key_dim, 23));
    values_ = rounded_to<T>(normal_numbers(tokens_ * p_.kv_heads * p_.value_dim, 24));
    ThreadPool threads({.num_threads = 1});
    cheetah::write_kv({.keys = keys_.data(),
                          .key_stride = p_.kv_heads * p_.key_dim,
                          .values = p_.latent ? nullptr : values_.data(),
                          .value_stride = p_.kv_heads * p_.value_dim,
                          .kv = host_kv(),
                          .sequences = whole_},
        CpuContext{threads});
  }

  // The cache as the device has it: the CPU's may hold keys by dimension.
  std::vector<std::byte> by_token() {
    std::vector<std::byte> bytes = cache_;
    if (!keys_lie_by_dimension(host_kv())) return bytes;
    const int64_t size = row_bytes(p_.dtype, 1), head = p_.key_dim * p_.page_tokens;
    for (int64_t at = 0; at < key_bytes_ / size; ++at) {
      const int64_t token = at % head / p_.key_dim, dim = at % p_.key_dim;
      std::memcpy(bytes.data() + at * size,
          cache_.data() + (at / head * head + dim * p_.page_tokens + token) * size,
          static_cast<size_t>(size));
    }
    return bytes;
  }

  PagedKv kv_at(std::byte* data) const {
    return {.dtype = p_.dtype,
        .keys = data,
        .values = p_.latent ? nullptr : data + key_bytes_,
        .page_tokens = p_.page_tokens,
        .kv_heads = p_.kv_heads,
        .key_dim = p_.key_dim,
        .value_dim = p_.value_dim};
  }
  PagedKv host_kv() { return kv_at(cache_.data()); }
  PagedKv device_kv(const std::vector<std::byte>& bytes) { return kv_at(device_.upload(bytes)); }

  AttentionBatch batch_of(const std::vector<AttentionSequence>& sequences) {
    std::vector<SequenceEntry> entries;
    std::vector<int32_t> pages, row_sequence, positions;
    AttentionBatch batch{.num_sequences = std::ssize(sequences)};
    for (const AttentionSequence& sequence : sequences) {
      entries.push_back(
          {static_cast<int32_t>(sequence.context_tokens), static_cast<int32_t>(sequence.query_begin),
              static_cast<int32_t>(sequence.query_count), static_cast<int32_t>(pages.size())});
      pages.insert(pages.end(), sequence.pages.begin(), sequence.pages.end());
      for (int64_t i = 0; i < sequence.query_count; ++i) {
        row_sequence.push_back(static_cast<int32_t>(entries.size()) - 1);
        positions.push_back(static_cast<int32_t>(sequence.context_tokens - sequence.query_count + i));
      }
      batch.max_context = std::max(batch.max_context, sequence.context_tokens);
      batch.max_queries = std::max(batch.max_queries, sequence.query_count);
    }
    batch.sequences = device_.upload(entries);
    batch.pages = device_.upload(pages);
    batch.row_sequence = device_.upload(row_sequence);
    batch.positions = device_.upload(positions);
    batch.rows = std::ssize(positions);
    return batch;
  }
  AttentionBatch batch() { return batch_of(sequences_); }
  AttentionBatch write_batch() { return batch_of(whole_); }

  Problem p_;
  DeviceCase device_;
  std::vector<std::vector<int32_t>> pages_;
  std::vector<AttentionSequence> sequences_, whole_;  // whole_: every token of a context is a query
  int64_t num_pages_ = 0, tokens_ = 0, rows_ = 0, key_bytes_ = 0;
  std::vector<std::byte> cache_;
  std::vector<float> q_, sinks_, keys_, values_;
};

// Head sizes the Hopper kernels leave to other tensor cores' tiles, and latent rows: few and many rows a
// sequence in one call, contexts long enough to be split.
std::vector<Problem> problems_of_any_size() {
  struct Heads {
    int64_t heads, kv_heads, key_dim, value_dim;
  };
  std::vector<Problem> out;
  for (const auto& [heads, kv_heads, key_dim, value_dim] : {Heads{4, 4, 40, 40}, Heads{8, 2, 96, 96},
           Heads{3, 1, 112, 80}, Heads{4, 2, 192, 128}, Heads{8, 4, 256, 256}, Heads{20, 1, 200, 200},
           Heads{40, 2, 64, 64}, Heads{2, 1, 288, 256}, Heads{16, 1, 576, 512}, Heads{70, 1, 576, 512}}) {
    out.push_back({.requests = {{1, 1}, {37, 5}, {16, 16}, {700, 1}, {50, 2}, {90, 70}, {2000, 1}, {3, 3}},
        .heads = heads,
        .kv_heads = kv_heads,
        .key_dim = key_dim,
        .value_dim = value_dim,
        .dtype = DType::kBF16,
        .latent = key_dim > 256});
    if (heads > 16) out.back().requests = {{33, 3}, {800, 1}};
    out.push_back(out.back());
    out.back().page_tokens = 5;
    out.back().window = 50;
    out.back().sinks = true;
    out.back().soft_cap = heads == 8 ? 4.f : 0.f;
  }
  return out;
}

std::vector<Problem> problems() {
  const std::vector<std::pair<int64_t, int64_t>> ragged = {{1, 1}, {37, 5}, {16, 16}, {300, 1}, {129, 129}};
  std::vector<Problem> out;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kI8, DType::kF8E4M3}) {
    out.push_back({.requests = ragged, .dtype = dtype});
    out.push_back({.requests = ragged,
        .heads = 4,
        .kv_heads = 1,
        .key_dim = 80,
        .value_dim = 64,
        .dtype = dtype,
        .latent = true});
  }
  out.push_back({.requests = {}});
  out.push_back(
      {.requests = ragged, .heads = 6, .kv_heads = 6, .key_dim = 33, .value_dim = 17, .page_tokens = 5});
  out.push_back({.requests = ragged, .soft_cap = 3.f});
  out.push_back({.requests = ragged, .window = 1});
  out.push_back({.requests = ragged, .window = 20, .sinks = true});
  out.push_back({.requests = ragged, .soft_cap = 5.f, .sinks = true});
  out.push_back({.requests = {{2000, 3}, {4097, 1}},
      .heads = 8,
      .key_dim = 128,
      .value_dim = 128,
      .dtype = DType::kBF16});
  out.push_back({.requests = {{700, 2}},
      .heads = 16,
      .kv_heads = 1,
      .key_dim = 576,
      .value_dim = 512,
      .dtype = DType::kBF16,
      .latent = true});
  out.push_back({.requests = {{64, 64}, {1, 1}},
      .heads = 8,
      .kv_heads = 8,
      .key_dim = 64,
      .value_dim = 64,
      .dtype = DType::kBF16});
  // What the tensor cores take: heads of 64 and 128, pages of 8 to 128, prompts, single tokens and both at
  // once.
  const std::vector<std::pair<int64_t, int64_t>> prompts = {
      {5, 5}, {128, 128}, {233, 100}, {400, 130}, {64, 64}};
  const std::vector<std::pair<int64_t, int64_t>> tokens = {
      {1, 1}, {15, 1}, {16, 1}, {17, 1}, {1000, 1}, {5000, 1}};
  for (const int64_t dim : {64, 128})
    for (const auto& requests : {ragged, prompts, tokens}) {
      const Problem plain{.requests = requests,
          .heads = 8,
          .kv_heads = 2,
          .key_dim = dim,
          .value_dim = dim,
          .dtype = DType::kBF16};
      for (const int64_t page_tokens : {8, 16, 64, 128}) {
        out.push_back(plain);
        out.back().page_tokens = page_tokens;
      }
      for (const int64_t window : {1, 16, 100, 128}) {
        out.push_back(plain);
        out.back().window = window;
        out.back().sinks = window == 100;
      }
      out.push_back(plain);
      out.back().soft_cap = 4.f;
      out.push_back(plain);
      out.back().heads = 16;
      out.back().kv_heads = 1;
    }
  for (Problem problem : std::vector<Problem>(out)) {  // the same of FP8
    if (problem.dtype != DType::kBF16 || problem.latent) continue;
    problem.dtype = DType::kF8E4M3;
    out.push_back(problem);
  }
  return out;
}

template <class T>
class AttentionCuda : public testing::Test {};
using Numbers = testing::Types<float, Bf16>;
TYPED_TEST_SUITE(AttentionCuda, Numbers);

TYPED_TEST(AttentionCuda, EveryVariantEqualsTheReference) {
  for (const Problem& problem : problems()) {
    SCOPED_TRACE(testing::Message() << name_of(problem.dtype) << " key_dim " << problem.key_dim << " window "
                                    << problem.window << " cap " << problem.soft_cap);
    AttentionCase<TypeParam>(problem).check_every_variant();
  }
}

TYPED_TEST(AttentionCuda, WritesTheBytesTheCpuWrites) {
  for (const Problem& problem : problems()) {
    if (problem.requests.empty()) continue;
    SCOPED_TRACE(testing::Message() << name_of(problem.dtype) << " key_dim " << problem.key_dim);
    AttentionCase<TypeParam>(problem).check_write();
  }
}

TEST(AttentionCudaTiles, EveryHeadSizeEqualsTheReference) {
  for (const Problem& problem : problems_of_any_size()) {
    SCOPED_TRACE(testing::Message() << problem.heads << "/" << problem.kv_heads << " heads of "
                                    << problem.key_dim << "/" << problem.value_dim << ", window "
                                    << problem.window << ", cap " << problem.soft_cap << ", "
                                    << problem.requests.size() << " sequences");
    AttentionCase<Bf16>(problem).check_every_variant();
  }
}

}  // namespace
}  // namespace cheetah::gpu
