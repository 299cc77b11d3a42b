// SPDX-License-Identifier: MIT
#pragma once
// Attention over the paged cache on Hopper's tensor cores: BF16 q, out and cache, sums in F32, heads of 64 or
// 128 numbers.
#include "kernels/attention/attention_cuda.h"

namespace cheetah::gpu {

bool hopper_attention_fits(const AttentionArgs<Bf16>& args, const DeviceInfo& device);

// Sequences with several query rows go to the prefill kernel, those with one to the decode kernel.
void hopper_attention(const AttentionArgs<Bf16>& args, Stream& stream);

// 4 * head_dim FLOP a visible (query, key) pair and head. Skips sequences of one row when asked to.
void hopper_prefill_attention(const AttentionArgs<Bf16>& args, bool skip_single_rows, Stream& stream);

// The cache is read once: 4 * head_dim bytes per token and key head. Skips sequences of several rows. With
// scratch a long sequence is split over `splits` blocks a key head.
void hopper_decode_attention(const AttentionArgs<Bf16>& args, int splits, Stream& stream);

// How many blocks share a sequence and key head, so that the card is full but none reads too little.
int decode_splits(int64_t num_sequences, int64_t kv_heads, int64_t longest_context, int num_multiprocessors);

}  // namespace cheetah::gpu
