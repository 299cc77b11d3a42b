#include <cstring>

#include "kernels/attention/attention.h"
#include "tensor/float16.h"

namespace cheetah {
namespace {

void store_row(DType dtype, const float* row, std::byte* data, int64_t count) {
  auto* half = reinterpret_cast<uint16_t*>(data);
  if (dtype == DType::kF32)
    std::memcpy(data, row, static_cast<size_t>(count) * sizeof(float));
  else if (dtype == DType::kF16)
    for (int64_t i = 0; i < count; ++i) half[i] = f32_to_f16(row[i]);
  else
    for (int64_t i = 0; i < count; ++i) half[i] = f32_to_bf16(row[i]);
}

// One token's rows of all heads, into its page slot.
void store_token(const PagedKv& kv, int64_t page, int64_t slot, const float* rows, std::byte* cache,
                 int64_t dim) {
  const int64_t bytes = dim * traits_of(kv.dtype).block_bytes;
  for (int64_t head = 0; head < kv.kv_heads; ++head)
    store_row(kv.dtype, rows + head * dim,
              cache + ((page * kv.kv_heads + head) * kv.page_tokens + slot) * bytes, dim);
}

}  // namespace

void write_kv(const KvWriteArgs& args, const CpuContext& context) {
  const PagedKv& kv = args.kv;
  constexpr int64_t kTokensAtOnce = 8;
  for (const AttentionSequence& sequence : args.sequences)
    context.pool.parallel_for(sequence.query_count, kTokensAtOnce, [&](int64_t begin, int64_t end, int) {
      for (int64_t query = begin; query < end; ++query) {
        const int64_t position = sequence.context_tokens - sequence.query_count + query;
        const int64_t page = sequence.pages[static_cast<size_t>(position / kv.page_tokens)];
        const int64_t slot = position % kv.page_tokens, row = sequence.query_begin + query;
        store_token(kv, page, slot, args.keys + row * args.key_stride, kv.keys, kv.key_dim);
        if (kv.values)
          store_token(kv, page, slot, args.values + row * args.value_stride, kv.values, kv.value_dim);
      }
    });
}

}  // namespace cheetah
