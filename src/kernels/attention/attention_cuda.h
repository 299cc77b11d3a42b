// SPDX-License-Identifier: MIT
#pragma once
// Attention and the cache of attention.h on the device. T is float or Bf16; sums are float. Here keys always
// lie as values do, [pages, kv_heads, page_tokens, key_dim]: rows are what tensor cores and the copy engine
// read.
#include <cstdint>
#include <span>

#include "gpu/stream.h"
#include "kernels/attention/attention.h"
#include "tensor/bf16.h"

namespace cheetah::gpu {

// One sequence's share of the batch, as AttentionSequence.
struct SequenceEntry {
  int32_t context_tokens = 0;
  int32_t query_begin = 0;
  int32_t query_count = 0;
  int32_t first_page = 0;  // index into AttentionBatch::pages
};

// A step's sequences. The arrays are the device's; the host knows their sizes. A row at position -1 only
// fills up the batch: nothing is cached for it, its output means nothing, and its sequence has no queries.
struct AttentionBatch {
  const SequenceEntry* sequences = nullptr;
  const int32_t* pages = nullptr;         // of all sequences, one after another
  const int32_t* row_sequence = nullptr;  // [rows]: which sequence a row belongs to
  const int32_t* positions = nullptr;     // [rows]: its place in that sequence
  int64_t num_sequences = 0;
  int64_t rows = 0;
  int64_t max_context = 0;  // over the sequences
  int64_t max_queries = 0;
};

// Where blocks that share a long sequence leave their parts. None: a sequence is never shared.
struct AttentionScratch {
  uint32_t* counters = nullptr;  // [sequences * heads] of the largest batch; zero before the first use
  float* parts = nullptr;        // num_parts() floats for the largest batch

  static constexpr int64_t kMaxSplits = 32;
  // Sequences are shared to fill the card: the more there are, the fewer blocks share one, so that beyond
  // this many no more parts are needed.
  static constexpr int64_t kMaxSharedSequences = 64;
  static constexpr int64_t num_parts(int64_t sequences, int64_t heads, int64_t value_dim) {
    return (sequences < kMaxSharedSequences ? sequences : kMaxSharedSequences) * heads * kMaxSplits *
           (value_dim + 2);
  }
};

template <class T>
struct AttentionArgs {
  const T* q = nullptr;  // [rows, heads, key_dim]
  int64_t q_stride = 0;
  T* out = nullptr;  // [rows, heads, value_dim]
  int64_t out_stride = 0;
  int64_t heads = 0;
  PagedKv kv;  // on the device
  AttentionBatch batch;
  float scale = 1.f;
  float soft_cap = 0.f;
  int64_t window = 0;
  const float* sinks = nullptr;  // [heads] on the device
  AttentionScratch scratch = {};
};

template <class T>
struct KvWriteArgs {
  const T* keys = nullptr;  // [rows, kv_heads, key_dim]
  int64_t key_stride = 0;
  const T* values = nullptr;  // none for MLA
  int64_t value_stride = 0;
  PagedKv kv;
  AttentionBatch batch;
};

// One way to attend. The table lists the plainest first, which takes every shape.
template <class T>
struct AttentionVariant {
  const char* name;
  bool (*fits)(const AttentionArgs<T>& args, const DeviceInfo& device);
  void (*run)(const AttentionArgs<T>& args, Stream& stream);
};
template <class T>
std::span<const AttentionVariant<T>> attention_variants();

// The last variant of the table that fits.
template <class T>
void attention(const AttentionArgs<T>& args, Stream& stream);
template <class T>
void write_kv(const KvWriteArgs<T>& args, Stream& stream);

}  // namespace cheetah::gpu
