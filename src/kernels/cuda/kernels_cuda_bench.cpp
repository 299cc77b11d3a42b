// SPDX-License-Identifier: MIT
// kernels_cuda_bench: what the memory-bound kernels of a step reach on this card, beside a plain copy of as
// many bytes; products beside NVIDIA's library and beside the memory's read bandwidth; attention of
// random:llama-8b's layers. Medians of seven rounds of 20 launches on random numbers.
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/attention/attention_cuda.h"
#include "kernels/cuda/attention_cuda_bench.h"
#include "kernels/cuda/products_cuda_bench.h"
#include "kernels/norm/norm_cuda.h"
#include "kernels/rope/finish_qkv_cuda.h"
#include "kernels/sample/sample_cuda.h"
#include "kernels/softmax/softmax_cuda.h"

namespace cheetah::gpu {
namespace {

void print(const char* name, double us, double bytes, double copy_rate) {
  std::printf(
      "%-34s %9.1f us %8.0f GB/s  %.2f of a copy\n", name, us, bytes / us * 1e-3, bytes / us / copy_rate);
}

void rows(DeviceBench& bench, int64_t count, int64_t cols) {
  const int64_t bytes = count * cols * 2;
  const DeviceBuffer x = bench.random_numbers(bytes), y = bench.zeros(bytes), weight = bench.zeros(cols * 4),
                     branch = bench.random_numbers(bytes);
  const std::function<void()> candidates[] = {
      [&] { copy_on_device(y.data(), x.data(), bytes, bench.stream); },
      [&] {
        rms_norm<Bf16>({.x = x.as<Bf16>(),
                           .x_stride = cols,
                           .y = y.as<Bf16>(),
                           .y_stride = cols,
                           .rows = count,
                           .cols = cols,
                           .weight = weight.as<float>()},
            bench.stream);
      },
      [&] {
        softmax<Bf16>({.x = x.as<Bf16>(),
                          .x_stride = cols,
                          .y = y.as<Bf16>(),
                          .y_stride = cols,
                          .rows = count,
                          .cols = cols},
            bench.stream);
      },
      [&] {
        add_and_norm<Bf16>({.branch = branch.as<Bf16>(),
                               .x = x.as<Bf16>(),
                               .y = y.as<Bf16>(),
                               .rows = count,
                               .cols = cols,
                               .weight = weight.as<float>()},
            bench.stream);
      }};
  const std::vector<double> us = bench.medians_us(candidates);
  const double moved = 2.0 * static_cast<double>(bytes), rate = moved / us[0];
  std::printf("%ld x %ld BF16\n", static_cast<long>(count), static_cast<long>(cols));
  print("copy", us[0], moved, rate);
  print("rms_norm", us[1], moved, rate);
  print("softmax", us[2], moved, rate);
  print("add_and_norm", us[3], 2 * moved, rate);
}

// Queries, keys and values of `count` sequences with `queries` new tokens each behind `context` in all.
void attend(DeviceBench& bench, int64_t count, int64_t context, int64_t queries) {
  constexpr int64_t kHeads = 32, kKvHeads = 8, kDim = 128, kPage = 16,
                    kWidth = (kHeads + 2 * kKvHeads) * kDim;
  const int64_t rows_in_all = count * queries, pages_each = (context + kPage - 1) / kPage;
  std::vector<SequenceEntry> entries;
  std::vector<int32_t> pages, row_sequence, positions;
  for (int64_t s = 0; s < count; ++s) {
    entries.push_back({static_cast<int32_t>(context), static_cast<int32_t>(s * queries),
        static_cast<int32_t>(queries), static_cast<int32_t>(pages.size())});
    for (int64_t i = 0; i < pages_each; ++i) pages.push_back(static_cast<int32_t>(s * pages_each + i));
    for (int64_t i = 0; i < queries; ++i) {
      row_sequence.push_back(static_cast<int32_t>(s));
      positions.push_back(static_cast<int32_t>(context - queries + i));
    }
  }
  const DeviceBuffer d_entries = bench.upload(entries), d_pages = bench.upload(pages),
                     d_rows = bench.upload(row_sequence), d_positions = bench.upload(positions);
  const int64_t cache_bytes = count * pages_each * kPage * kKvHeads * kDim * 2;
  const DeviceBuffer keys = bench.zeros(cache_bytes), values = bench.zeros(cache_bytes),
                     qkv = bench.zeros(rows_in_all * kWidth * 2),
                     out = bench.zeros(rows_in_all * kHeads * kDim * 2),
                     counters = bench.zeros(count * kHeads * 4), inv_freq = bench.zeros(kDim / 2 * 4),
                     parts = bench.zeros(AttentionScratch::num_parts(count, kHeads, kDim) * 4);
  const PagedKv kv{.dtype = DType::kBF16,
      .keys = keys.data(),
      .values = values.data(),
      .page_tokens = kPage,
      .kv_heads = kKvHeads,
      .key_dim = kDim,
      .value_dim = kDim};
  const AttentionBatch batch{.sequences = d_entries.as<SequenceEntry>(),
      .pages = d_pages.as<int32_t>(),
      .row_sequence = d_rows.as<int32_t>(),
      .positions = d_positions.as<int32_t>(),
      .num_sequences = count,
      .rows = rows_in_all,
      .max_context = context,
      .max_queries = queries};
  auto* q = qkv.as<Bf16>();
  const double finish_us = bench.median_us([&] {
    finish_qkv<Bf16>({.q = q,
                         .q_stride = kWidth,
                         .heads = kHeads,
                         .write = {.keys = q + kHeads * kDim,
                             .key_stride = kWidth,
                             .values = q + (kHeads + kKvHeads) * kDim,
                             .value_stride = kWidth,
                             .kv = kv,
                             .batch = batch},
                         .angles = {.inv_freq = inv_freq.as<float>(), .half = kDim / 2}},
        bench.stream);
  });
  const double attention_us = bench.median_us([&] {
    attention<Bf16>({.q = q,
                        .q_stride = kWidth,
                        .out = out.as<Bf16>(),
                        .out_stride = kHeads * kDim,
                        .heads = kHeads,
                        .kv = kv,
                        .batch = batch,
                        .scale = 0.088f,
                        .scratch = {counters.as<uint32_t>(), parts.as<float>()}},
        bench.stream);
  });
  const auto pairs = static_cast<double>(count * kHeads) * static_cast<double>(queries) *
                     (static_cast<double>(context) - 0.5 * static_cast<double>(queries));
  std::printf("%ld sequences of %ld, %ld queries each\n", static_cast<long>(count),
      static_cast<long>(context), static_cast<long>(queries));
  std::printf("%-34s %9.1f us %8.0f GB/s\n", "finish_qkv", finish_us,
      static_cast<double>(rows_in_all * kWidth * 4) / finish_us * 1e-3);
  std::printf("%-34s %9.1f us %8.0f GB/s of cache %6.0f TFLOP/s\n", "attention", attention_us,
      2.0 * static_cast<double>(cache_bytes) / attention_us * 1e-3, 4.0 * kDim * pairs / attention_us * 1e-6);
}

void choose(DeviceBench& bench, const char* name, int64_t count, const SampleRow& rules) {
  constexpr int64_t kVocab = 128256;
  std::vector<float> values(static_cast<size_t>(count * kVocab));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 2654435761u % 1024) / 64.f;
  std::vector<SampleRow> wanted(static_cast<size_t>(count), rules);
  for (int64_t i = 0; i < count; ++i) wanted[static_cast<size_t>(i)].logits = i;
  SamplePlan plan;
  plan.assign(wanted, kVocab);
  const DeviceBuffer logits = bench.upload(values),
                     entries = bench.upload(std::vector(plan.entries().begin(), plan.entries().end())),
                     parts = bench.zeros(
                         count * sample_pieces(kVocab) * static_cast<int64_t>(sizeof(SamplePart))),
                     totals = bench.zeros(count * static_cast<int64_t>(sizeof(SampleTotal))),
                     arrivals = bench.zeros(count * 4), ids = bench.zeros(count * 4),
                     outcomes = bench.zeros(count * static_cast<int64_t>(sizeof(SampleOutcome)));
  const double us = bench.median_us([&] {
    sample_rows({.logits = logits.as<float>(),
                    .vocab = kVocab,
                    .num_rows = count,
                    .entries = entries.as<SampleEntry>(),
                    .parts = parts.as<SamplePart>(),
                    .totals = totals.as<SampleTotal>(),
                    .arrivals = arrivals.as<uint32_t>(),
                    .filters = plan.filters(),
                    .has_logprobs = plan.has_logprobs(),
                    .outcomes = outcomes.as<SampleOutcome>(),
                    .ids = ids.as<int32_t>()},
        bench.stream);
  });
  std::printf("%4ld rows, %-26s %9.1f us\n", static_cast<long>(count), name, us);
}

void sampling(DeviceBench& bench) {
  std::printf("choosing from %d tokens\n", 128256);
  for (const int64_t count : {1, 64, 256}) {
    SampleRow row;
    row.uniform = 0.5;
    choose(bench, "greedy", count, row);
    row.sampling.temperature = 0.8f;
    choose(bench, "temperature", count, row);
    row.sampling.top_k = 50;
    choose(bench, "top-k 50", count, row);
    row.sampling.top_k = 0;
    row.sampling.top_p = 0.9f;
    choose(bench, "top-p 0.9, flat", count, row);
    row.sampling = {};
    row.top_logprobs = 5;
    choose(bench, "greedy, 5 logprobs", count, row);
  }
}

void run(std::string_view what) {
  if (!cuda_available()) {
    std::printf("skipped: %s\n", cuda_available().reason.c_str());
    return;
  }
  DeviceBench bench;
  if (what == "tune") return tune_products(bench);
  if (what == "attention") return bench_attention(bench);
  std::printf("%s, CUDA %d\n", bench.device.name.c_str(), bench.device.runtime_version);
  rows(bench, 64, 4096);
  rows(bench, 8192, 4096);
  rows(bench, 16384, 8192);
  bench_products(bench);
  attend(bench, 1, 512, 1);
  attend(bench, 8, 512, 1);
  attend(bench, 64, 512, 1);
  attend(bench, 64, 4096, 1);
  attend(bench, 4, 2048, 2048);
  attend(bench, 2, 8192, 8192);
  bench_attention(bench);
  sampling(bench);
}

}  // namespace
}  // namespace cheetah::gpu

// Without arguments the numbers; with "attention" only those of every head shape; with "tune" the table of
// fastest variants.
int main(int argc, char** argv) { cheetah::gpu::run(argc == 2 ? argv[1] : ""); }
