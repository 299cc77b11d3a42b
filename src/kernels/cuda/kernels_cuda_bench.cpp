// kernels_cuda_bench: what the memory-bound kernels of a step reach on this card, beside a plain copy of as
// many bytes, and the products and attention of random:llama-8b's layers. Medians of seven runs of 20
// launches.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/memory.h"
#include "kernels/attention/attention_cuda.h"
#include "kernels/gemm/gemm_cuda.h"
#include "kernels/norm/norm_cuda.h"
#include "kernels/rope/finish_qkv_cuda.h"
#include "kernels/sample/sample_cuda.h"
#include "kernels/softmax/softmax_cuda.h"

namespace cheetah::gpu {
namespace {

class Bench {
 public:
  DeviceInfo device = query_device();
  DeviceMemory memory{device};
  Stream stream{device};

  double median_us(const std::function<void()>& work) {
    constexpr int kLaunches = 20, kRuns = 7;
    double runs[kRuns];
    for (double& run : runs) {
      Event begin(Event::Timing::kTimed), end(Event::Timing::kTimed);
      work();
      begin.record(stream);
      for (int i = 0; i < kLaunches; ++i) work();
      end.record(stream);
      end.wait();
      run = milliseconds_between(begin, end) * 1e3 / kLaunches;
    }
    std::ranges::sort(runs);
    return runs[kRuns / 2];
  }
  DeviceBuffer zeros(int64_t bytes) {
    DeviceBuffer buffer = memory.allocate(ArenaKind::kWorkspace, bytes, stream);
    fill_bytes(buffer.data(), 0, bytes, stream);
    return buffer;
  }
  template <class Item>
  DeviceBuffer upload(const std::vector<Item>& items) {
    const auto bytes = static_cast<int64_t>(items.size() * sizeof(Item));
    DeviceBuffer buffer = memory.allocate(ArenaKind::kWorkspace, bytes, stream);
    copy_to_device(buffer.data(), items.data(), bytes, stream);
    stream.wait();
    return buffer;
  }
};

void print(const char* name, double us, double bytes, double copy_rate) {
  std::printf("%-34s %9.1f us %8.0f GB/s  %.2f of a copy\n", name, us, bytes / us * 1e-3,
              bytes / us / copy_rate);
}

void rows(Bench& bench, int64_t count, int64_t cols) {
  const int64_t bytes = count * cols * 2;
  const DeviceBuffer x = bench.zeros(bytes), y = bench.zeros(bytes), weight = bench.zeros(cols * 4),
                     branch = bench.zeros(bytes);
  const double copy_us = bench.median_us([&] { copy_on_device(y.data(), x.data(), bytes, bench.stream); });
  const double moved = 2.0 * static_cast<double>(bytes), rate = moved / copy_us;
  std::printf("%ld x %ld BF16\n", static_cast<long>(count), static_cast<long>(cols));
  print("copy", copy_us, moved, rate);
  print("rms_norm", bench.median_us([&] {
    rms_norm<Bf16>({.x = x.as<Bf16>(),
                    .x_stride = cols,
                    .y = y.as<Bf16>(),
                    .y_stride = cols,
                    .rows = count,
                    .cols = cols,
                    .weight = weight.as<float>()},
                   bench.stream);
  }),
        moved, rate);
  print("softmax", bench.median_us([&] {
    softmax<Bf16>({.x = x.as<Bf16>(),
                   .x_stride = cols,
                   .y = y.as<Bf16>(),
                   .y_stride = cols,
                   .rows = count,
                   .cols = cols},
                  bench.stream);
  }),
        moved, rate);
  print("add_and_norm", bench.median_us([&] {
    add_and_norm<Bf16>({.branch = branch.as<Bf16>(),
                        .x = x.as<Bf16>(),
                        .y = y.as<Bf16>(),
                        .rows = count,
                        .cols = cols,
                        .weight = weight.as<float>()},
                       bench.stream);
  }),
        2 * moved, rate);
}

void products(Bench& bench, int64_t m) {
  constexpr int64_t kHidden = 4096, kInner = 14336, kQkv = 6144;
  const DeviceBuffer w = bench.zeros(2 * kInner * kHidden * 2), x = bench.zeros(m * kInner * 2),
                     y = bench.zeros(m * kInner * 2);
  const auto product = [&](const char* name, int64_t n, int64_t k, bool gated, bool adds) {
    const int64_t outputs = gated ? n / 2 : n;
    const double us = bench.median_us([&] {
      gemm<Bf16, Bf16>({.x = x.as<Bf16>(),
                        .x_stride = k,
                        .m = m,
                        .w = {.dtype = DType::kBF16, .rows = n, .cols = k, .data = w.data()},
                        .gated = gated,
                        .residual = adds ? y.as<Bf16>() : nullptr,
                        .residual_stride = outputs,
                        .y = y.as<Bf16>(),
                        .y_stride = outputs},
                       bench.stream);
    });
    const auto flops = 2.0 * static_cast<double>(m * n) * static_cast<double>(k);
    std::printf("%5ld x %5ld x %5ld %-14s %9.1f us %8.0f GB/s of W %7.0f TFLOP/s\n", static_cast<long>(m),
                static_cast<long>(n), static_cast<long>(k), name, us,
                static_cast<double>(n * k * 2) / us * 1e-3, flops / us * 1e-6);
  };
  product("qkv", kQkv, kHidden, false, false);
  product("o, added", kHidden, kHidden, false, true);
  product("gate up, gated", 2 * kInner, kHidden, true, false);
  product("down, added", kHidden, kInner, false, true);
}

// Queries, keys and values of `count` sequences with `queries` new tokens each behind `context` in all.
void attend(Bench& bench, int64_t count, int64_t context, int64_t queries) {
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
                      .turns = {.inv_freq = inv_freq.as<float>(), .half = kDim / 2}},
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
              2.0 * static_cast<double>(cache_bytes) / attention_us * 1e-3,
              4.0 * kDim * pairs / attention_us * 1e-6);
}

void choose(Bench& bench, const char* name, int64_t count, const SampleRow& rules) {
  constexpr int64_t kVocab = 128256;
  std::vector<float> values(static_cast<size_t>(count * kVocab));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 2654435761u % 1024) / 64.f;
  std::vector<SampleRow> wanted(static_cast<size_t>(count), rules);
  for (int64_t i = 0; i < count; ++i) wanted[static_cast<size_t>(i)].logits = i;
  SamplePlan plan;
  plan.assign(wanted, kVocab);
  const DeviceBuffer logits = bench.upload(values),
                     entries = bench.upload(std::vector(plan.entries().begin(), plan.entries().end())),
                     parts = bench.zeros(count * sample_pieces(kVocab) *
                                         static_cast<int64_t>(sizeof(SamplePart))),
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

void sampling(Bench& bench) {
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

// The fastest variant of each shape, as the table in gemm/cuda/tuned.cpp has it: one line for as many rows of
// x as it holds.
class Tuner {
 public:
  explicit Tuner(Bench& bench) : bench_(bench) {}

  void shape(DType dtype, int64_t n, int64_t k) {
    const int64_t bytes = n * row_bytes(dtype, k), copies = std::max<int64_t>(1, w_.size() / bytes);
    std::string_view held;
    int64_t most = 0;
    for (const int64_t m : {1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 512}) {
      const std::string_view best = fastest(dtype, n, k, m, bytes, copies);
      if (!held.empty() && best != held) print_line(dtype, n, k, most, held);
      held = best;
      most = m;
    }
    print_line(dtype, n, k, most, held);
  }

 private:
  static void print_line(DType dtype, int64_t n, int64_t k, int64_t most, std::string_view variant) {
    std::printf("    Tuned{DType::k%s, %ld, %ld, %ld, \"%s\"},\n",
                std::string(dtype == DType::kF8E4M3 ? "F8E4M3" : name_of(dtype)).c_str(),
                static_cast<long>(n), static_cast<long>(k), static_cast<long>(most),
                std::string(variant).c_str());
  }
  std::string_view fastest(DType dtype, int64_t n, int64_t k, int64_t m, int64_t bytes, int64_t copies) {
    std::string_view best;
    double best_us = 0;
    int64_t turn = 0;
    GemmArgs<Bf16, Bf16> args{.x = x_.as<Bf16>(),
                              .x_stride = k,
                              .m = m,
                              .w = {.dtype = dtype, .rows = n, .cols = k, .data = w_.data()},
                              .y = y_.as<Bf16>(),
                              .y_stride = n,
                              .widened = wide_.as<Bf16>(),
                              .widened_numbers = n * k,
                              .narrowed = narrow_.data(),
                              .narrowed_bytes = narrow_.size()};
    for (const auto& variant : gemm_variants<Bf16, Bf16>().subspan(1)) {
      if (!variant.fits(args, bench_.device)) continue;
      const double us = bench_.median_us([&] {
        args.w.data = w_.data() + turn++ % copies * bytes / 16 * 16;  // never from the cache
        variant.run(args, bench_.stream);
      });
      if (best.empty() || us < best_us) {
        best = variant.name;
        best_us = us;
      }
    }
    return best;
  }

  static constexpr int64_t kMostRows = 512, kMostN = 28672, kMostK = 14336;
  Bench& bench_;
  DeviceBuffer w_ = bench_.zeros(int64_t{1} << 30), x_ = bench_.zeros(kMostRows * kMostK * 2),
               y_ = bench_.zeros(kMostRows * kMostN * 2), wide_ = bench_.zeros(kMostN * 4096 * 2),
               narrow_ = bench_.zeros(narrowed_x_bytes(kMostRows, kMostK));
};

void tune() {
  Bench bench;
  Tuner tuner(bench);
  for (const DType dtype :
       {DType::kBF16, DType::kF8E4M3, DType::kQ8_0, DType::kQ4_0, DType::kQ4_K, DType::kQ6_K}) {
    tuner.shape(dtype, 6144, 4096);
    tuner.shape(dtype, 4096, 4096);
    tuner.shape(dtype, 28672, 4096);
    tuner.shape(dtype, 4096, 14336);
  }
}

void run() {
  if (!cuda_available()) {
    std::printf("skipped: %s\n", cuda_available().reason.c_str());
    return;
  }
  Bench bench;
  std::printf("%s, CUDA %d\n", bench.device.name.c_str(), bench.device.runtime_version);
  rows(bench, 64, 4096);
  rows(bench, 8192, 4096);
  rows(bench, 16384, 8192);
  for (const int64_t m : {1, 8, 16, 32, 64, 128, 256, 8192}) products(bench, m);
  attend(bench, 1, 512, 1);
  attend(bench, 8, 512, 1);
  attend(bench, 64, 512, 1);
  attend(bench, 64, 4096, 1);
  attend(bench, 4, 2048, 2048);
  attend(bench, 2, 8192, 8192);
  sampling(bench);
}

}  // namespace
}  // namespace cheetah::gpu

// Without arguments the numbers; with "tune" the table of fastest variants.
int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "tune")
    cheetah::gpu::tune();
  else
    cheetah::gpu::run();
}
