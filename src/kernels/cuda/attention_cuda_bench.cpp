// SPDX-License-Identifier: MIT
#include "kernels/cuda/attention_cuda_bench.h"

#include <cstdio>
#include <string_view>
#include <vector>

#include "gpu/ceilings.h"
#include "kernels/attention/attention_cuda.h"

namespace cheetah::gpu {
namespace {

constexpr int64_t kPage = 16;

struct HeadShape {
  int64_t heads, kv_heads, key_dim, value_dim;
  bool latent = false;
};

// `count` sequences with `queries` new tokens each behind `context` in all, pages in scattered order.
struct SequencesOnDevice {
  SequencesOnDevice(DeviceBench& bench, int64_t num_sequences, int64_t context_tokens, int64_t num_queries)
      : count(num_sequences), context(context_tokens), queries(num_queries) {
    std::vector<SequenceEntry> entries;
    std::vector<int32_t> page_numbers, row_sequence, row_positions;
    for (int64_t s = 0; s < count; ++s) {
      entries.push_back({static_cast<int32_t>(context), static_cast<int32_t>(s * queries),
          static_cast<int32_t>(queries), static_cast<int32_t>(s * pages_each())});
      for (int64_t i = 0; i < pages_each(); ++i)
        page_numbers.push_back(
            static_cast<int32_t>(((s * pages_each() + i) * 7919) % (count * pages_each())));
      for (int64_t i = 0; i < queries; ++i) {
        row_sequence.push_back(static_cast<int32_t>(s));
        row_positions.push_back(static_cast<int32_t>(context - queries + i));
      }
    }
    sequences = bench.upload(entries);
    pages = bench.upload(page_numbers);
    rows = bench.upload(row_sequence);
    positions = bench.upload(row_positions);
  }
  int64_t pages_each() const { return (context + kPage - 1) / kPage; }
  AttentionBatch batch() const {
    return {.sequences = sequences.as<SequenceEntry>(),
        .pages = pages.as<int32_t>(),
        .row_sequence = rows.as<int32_t>(),
        .positions = positions.as<int32_t>(),
        .num_sequences = count,
        .rows = count * queries,
        .max_context = context,
        .max_queries = queries};
  }

  int64_t count, context, queries;
  DeviceBuffer sequences, pages, rows, positions;
};

class AttentionBench {
 public:
  explicit AttentionBench(DeviceBench& bench)
      : bench_(bench), read_rate_(measure_read_bandwidth(bench.memory, bench.stream)) {}

  // Attention alone, by every variant that takes the shape.
  void attend(const HeadShape& shape, int64_t count, int64_t context, int64_t queries) {
    const SequencesOnDevice on_device(bench_, count, context, queries);
    const int64_t tokens = count * on_device.pages_each() * kPage * shape.kv_heads, rows = count * queries;
    const int64_t value_dim = shape.latent ? 0 : shape.value_dim;
    const DeviceBuffer keys = bench_.random_numbers(tokens * shape.key_dim * 2),
                       values = bench_.random_numbers(tokens * (value_dim + 1) * 2),
                       q = bench_.random_numbers(rows * shape.heads * shape.key_dim * 2),
                       out = bench_.zeros(rows * shape.heads * shape.value_dim * 2),
                       counters = bench_.zeros(count * shape.heads * 4),
                       parts =
                           bench_.zeros(AttentionScratch::num_parts(count, shape.heads, shape.value_dim) * 4);
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
        .batch = on_device.batch(),
        .scale = 1.f / 16,
        .scratch = {counters.as<uint32_t>(), parts.as<float>()}};
    const auto pairs = static_cast<double>(rows * shape.heads) *
                       (static_cast<double>(context) - 0.5 * static_cast<double>(queries - 1));
    std::printf("%ld/%ld heads of %ld/%ld, %ld sequences of %ld, %ld queries each\n",
        static_cast<long>(shape.heads), static_cast<long>(shape.kv_heads), static_cast<long>(shape.key_dim),
        static_cast<long>(shape.value_dim), static_cast<long>(count), static_cast<long>(context),
        static_cast<long>(queries));
    time_variants(args, pairs, static_cast<double>(tokens * (shape.key_dim + value_dim) * 2));
  }

 private:
  void time_variants(const AttentionArgs<Bf16>& args, double pairs, double cache_bytes) {
    for (const AttentionVariant<Bf16>& variant : attention_variants<Bf16>()) {
      const bool slow = std::string_view(variant.name) == "portable" && pairs > 1e6;
      if (slow || !variant.fits(args, bench_.device)) continue;
      const double us = bench_.median_us([&] { variant.run(args, bench_.stream); });
      const double rate = cache_bytes / us * 1e6;
      std::printf("%-34s %9.1f us %8.0f GB/s of cache, %.2f of the read roof %6.0f TFLOP/s\n", variant.name,
          us, rate * 1e-9, rate / read_rate_,
          2.0 * static_cast<double>(args.kv.key_dim + args.kv.value_dim) * pairs / us * 1e-6);
    }
  }

  DeviceBench& bench_;
  double read_rate_;
};

}  // namespace

void bench_attention(DeviceBench& device) {
  AttentionBench bench(device);
  constexpr HeadShape kLatent16{16, 1, 576, 512, true}, kLatent128{128, 1, 576, 512, true},
      kHeads256{16, 8, 256, 256}, kHeads96{32, 32, 96, 96}, kHeads128{32, 8, 128, 128};
  for (const HeadShape& shape : {kLatent16, kLatent128}) {
    bench.attend(shape, 64, 4096, 1);
    bench.attend(shape, 1, 4096, 1);
    bench.attend(shape, 1, 32768, 1);
    bench.attend(shape, 1, 2048, 2048);
  }
  for (const HeadShape& shape : {kHeads256, kHeads96, kHeads128}) {
    bench.attend(shape, 64, 4096, 1);
    bench.attend(shape, 4, 4096, 4096);
  }
}

}  // namespace cheetah::gpu
