// SPDX-License-Identifier: MIT
// Which attention kernel takes what, and how its work is cut: plain decisions, tested without a GPU.
#include <algorithm>

#include "kernels/attention/cuda/hopper.h"

namespace cheetah::gpu {
namespace {
constexpr int kBlocksPerMultiprocessor = 2;
constexpr int64_t kLeastTokensASplit = 256;  // below this a block's start costs more than it reads
}  // namespace

bool hopper_attention_fits(const AttentionArgs<Bf16>& args, const DeviceInfo& device) {
  const PagedKv& kv = args.kv;
  const int64_t pages_a_block = 128 / std::max<int64_t>(1, kv.page_tokens);
  const bool cache_fits = kv.dtype == DType::kBF16 || (kv.dtype == DType::kF8E4M3 && kv.page_tokens % 4 == 0);
  return device.is_hopper() && cache_fits && kv.values && kv.key_dim == kv.value_dim &&
         (kv.key_dim == 64 || kv.key_dim == 128) && kv.page_tokens >= 8 &&
         pages_a_block * kv.page_tokens == 128 && args.heads / kv.kv_heads <= 16 && args.q_stride % 8 == 0 &&
         args.out_stride % 2 == 0;
}

int decode_splits(int64_t num_sequences, int64_t kv_heads, int64_t longest_context, int num_multiprocessors) {
  const int64_t places = int64_t{kBlocksPerMultiprocessor} * num_multiprocessors;
  const int64_t blocks = std::max<int64_t>(1, num_sequences * kv_heads);
  const int64_t by_length = std::max<int64_t>(1, longest_context / kLeastTokensASplit);
  return static_cast<int>(
      std::clamp<int64_t>(places / blocks, 1, std::min<int64_t>(by_length, AttentionScratch::kMaxSplits)));
}

void hopper_attention(const AttentionArgs<Bf16>& args, Stream& stream) {
  const AttentionBatch& batch = args.batch;
  const bool has_single_rows = batch.rows < batch.num_sequences * batch.max_queries || batch.max_queries == 1;
  if (batch.max_queries > 1) hopper_prefill_attention(args, has_single_rows, stream);
  if (!has_single_rows) return;
  const int splits = args.scratch.counters ? decode_splits(batch.num_sequences, args.kv.kv_heads,
                                                 batch.max_context, stream.device().num_sms)
                                           : 1;
  hopper_decode_attention(args, splits, stream);
}

}  // namespace cheetah::gpu
