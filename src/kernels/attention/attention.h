// SPDX-License-Identifier: MIT
#pragma once
// Causal attention over a paged KV cache: rows of many sequences, prompt chunks and single decode tokens, in
// one call.
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/context.h"
#include "tensor/dtype.h"

namespace cheetah {

// One layer's cache. A page holds page_tokens consecutive positions of one sequence, head by head:
// keys [pages, kv_heads, key_dim, page_tokens], values [pages, kv_heads, page_tokens, value_dim]. Keys lie by
// dimension because scores are computed many keys at a time.
// MLA keeps one latent row per token: values == nullptr, and a value is the first value_dim numbers of its key
// row. There, and where each row has a scale, keys lie as values do.
struct PagedKv {
  DType dtype = DType::kF32;  // F32, F16, BF16, or I8 and F8_E4M3 with a scale a row (scaled_row.h)
  std::byte* keys = nullptr;
  std::byte* values = nullptr;
  int64_t page_tokens = 16;
  int64_t kv_heads = 0;
  int64_t key_dim = 0;
  int64_t value_dim = 0;
};

// One sequence's share of the batch. Its tokens' positions are context_tokens - query_count .. context_tokens
// - 1; their keys and values are already in the cache.
struct AttentionSequence {
  std::span<const int32_t> pages;  // page index of positions [i * page_tokens, (i + 1) * page_tokens)
  int64_t context_tokens = 0;      // cached tokens, this step's included
  int64_t query_begin = 0;         // first row of q and out
  int64_t query_count = 0;
};

struct AttentionArgs {
  const float* q = nullptr;  // [tokens, heads, key_dim] f32; heads is a multiple of kv.kv_heads
  int64_t q_stride = 0;      // elements between tokens
  float* out = nullptr;      // [tokens, heads, value_dim] f32
  int64_t out_stride = 0;
  int64_t heads = 0;
  PagedKv kv;
  std::span<const AttentionSequence> sequences;
  float scale = 1.f;
  float soft_cap = 0.f;          // 0: none; else score = cap * tanh(score / cap)
  int64_t window = 0;            // 0: all; else position p sees (p - window, p]
  const float* sinks = nullptr;  // [heads] f32: an extra logit in the softmax's sum, with no value
};
// A query row's result does not depend on the other rows of the batch or on the number of threads.
void attention(const AttentionArgs& args, const CpuContext& context);
void attention_reference(const AttentionArgs& args);
Cost attention_cost(const AttentionArgs& args);

// Stores keys [tokens, kv_heads, key_dim] and values [tokens, kv_heads, value_dim] (none for MLA) of the same
// sequences.
struct KvWriteArgs {
  const float* keys = nullptr;
  int64_t key_stride = 0;  // elements between tokens
  const float* values = nullptr;
  int64_t value_stride = 0;
  PagedKv kv;
  std::span<const AttentionSequence> sequences;
};
void write_kv(const KvWriteArgs& args, const CpuContext& context);

}  // namespace cheetah
