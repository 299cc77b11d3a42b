#include "kernels/cuda/attention_cuda_bench.h"

#include <cstdio>
#include <string_view>
#include <vector>

#include "kernels/attention/attention_cuda.h"

namespace cheetah::gpu {
namespace {

struct HeadShape {
  int64_t heads, kv_heads, key_dim, value_dim;
  bool latent = false;
};

// Attention alone, of any head shape: `queries` new tokens behind `context` in all, pages in scattered order.
void attend_heads(DeviceBench& bench, const HeadShape& shape, int64_t count, int64_t context,
                  int64_t queries) {
  constexpr int64_t kPage = 16;
  const int64_t pages_each = (context + kPage - 1) / kPage, pages_in_all = count * pages_each;
  std::vector<SequenceEntry> entries;
  std::vector<int32_t> pages, row_sequence, positions;
  for (int64_t s = 0; s < count; ++s) {
    entries.push_back({static_cast<int32_t>(context), static_cast<int32_t>(s * queries),
                       static_cast<int32_t>(queries), static_cast<int32_t>(s * pages_each)});
    for (int64_t i = 0; i < pages_each; ++i)
      pages.push_back(static_cast<int32_t>(((s * pages_each + i) * 7919) % pages_in_all));
    for (int64_t i = 0; i < queries; ++i) {
      row_sequence.push_back(static_cast<int32_t>(s));
      positions.push_back(static_cast<int32_t>(context - queries + i));
    }
  }
  const int64_t tokens = pages_in_all * kPage * shape.kv_heads, rows_in_all = count * queries;
  const DeviceBuffer d_entries = bench.upload(entries), d_pages = bench.upload(pages),
                     d_rows = bench.upload(row_sequence), d_positions = bench.upload(positions),
                     keys = bench.random_numbers(tokens * shape.key_dim * 2),
                     values = bench.random_numbers(tokens * (shape.latent ? 8 : shape.value_dim) * 2),
                     q = bench.random_numbers(rows_in_all * shape.heads * shape.key_dim * 2),
                     out = bench.zeros(rows_in_all * shape.heads * shape.value_dim * 2),
                     counters = bench.zeros(count * shape.heads * 4),
                     parts =
                         bench.zeros(AttentionScratch::num_parts(count, shape.heads, shape.value_dim) * 4);
  const AttentionArgs<Bf16> args{.q = q.as<Bf16>(),
                                 .q_stride = shape.heads * shape.key_dim,
                                 .out = out.as<Bf16>(),
                                 .out_stride = shape.heads * shape.value_dim,
                                 .heads = shape.heads,
                                 .kv = {.dtype = DType::kBF16,
                                        .keys = keys.data(),
                                        .values = shape.latent ? nullptr : values.data(),
                                        .page_tokens = kPage,
                                        .kv_heads = shape.kv_heads,
                                        .key_dim = shape.key_dim,
                                        .value_dim = shape.value_dim},
                                 .batch = {.sequences = d_entries.as<SequenceEntry>(),
                                           .pages = d_pages.as<int32_t>(),
                                           .row_sequence = d_rows.as<int32_t>(),
                                           .positions = d_positions.as<int32_t>(),
                                           .num_sequences = count,
                                           .rows = rows_in_all,
                                           .max_context = context,
                                           .max_queries = queries},
                                 .scale = 1.f / 16,
                                 .scratch = {counters.as<uint32_t>(), parts.as<float>()}};
  const auto pairs = static_cast<double>(count * shape.heads) * static_cast<double>(queries) *
                     (static_cast<double>(context) - 0.5 * static_cast<double>(queries - 1));
  const auto bytes = static_cast<double>(tokens * (shape.key_dim + (shape.latent ? 0 : shape.value_dim)) * 2);
  for (const AttentionVariant<Bf16>& variant : attention_variants<Bf16>()) {
    const bool slow = std::string_view(variant.name) == "portable" && pairs > 1e7;
    if (slow || !variant.fits(args, bench.device)) continue;
    const double us = bench.median_us([&] { variant.run(args, bench.stream); });
    std::printf(
        "%3ld/%ld heads of %ld/%ld, %3ld x %5ld, %4ld queries %-9s %9.1f us %6.0f GB/s %6.0f TFLOP/s\n",
        static_cast<long>(shape.heads), static_cast<long>(shape.kv_heads), static_cast<long>(shape.key_dim),
        static_cast<long>(shape.value_dim), static_cast<long>(count), static_cast<long>(context),
        static_cast<long>(queries), variant.name, us, bytes / us * 1e-3,
        2.0 * static_cast<double>(shape.key_dim + shape.value_dim) * pairs / us * 1e-6);
  }
}

}  // namespace

void bench_attention(DeviceBench& bench) {
  constexpr HeadShape kLatent16{16, 1, 576, 512, true}, kLatent128{128, 1, 576, 512, true},
      kHeads256{16, 8, 256, 256}, kHeads96{32, 32, 96, 96}, kHeads128{32, 8, 128, 128};
  for (const HeadShape& shape : {kLatent16, kLatent128}) {
    attend_heads(bench, shape, 64, 4096, 1);
    attend_heads(bench, shape, 1, 4096, 1);
    attend_heads(bench, shape, 1, 32768, 1);
    attend_heads(bench, shape, 1, 2048, 2048);
  }
  for (const HeadShape& shape : {kHeads256, kHeads96, kHeads128}) {
    attend_heads(bench, shape, 64, 4096, 1);
    attend_heads(bench, shape, 4, 4096, 4096);
  }
}

}  // namespace cheetah::gpu
