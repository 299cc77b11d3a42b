// SPDX-License-Identifier: MIT
// Rows gathered from a table larger than the caches: does asking for them early help?
#include <algorithm>

#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

constexpr int64_t kWidth = 64;         // floats a row: four lines
constexpr int64_t kRowsOut = 1 << 18;  // 64 MiB of them: more than a cache keeps until the next launch

template <int kAhead>
void gather(const float* table, const int32_t* rows, float* out) {
  std::fill_n(out, kWidth, 0.f);
  for (int64_t i = 0; i < kRowsOut; ++i) {
    if constexpr (kAhead > 0)
      if (i + kAhead < kRowsOut)
        for (int64_t line = 0; line < kWidth; line += 16)
          __builtin_prefetch(table + rows[i + kAhead] * kWidth + line, 0, 0);
    const float* row = table + rows[i] * kWidth;
    for (int64_t j = 0; j < kWidth; ++j) out[j] += row[j];
  }
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t rows = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto table = trial->input<float>("table", rows * kWidth);
  const auto picked = trial->input<int32_t>("picked", kRowsOut, 0, static_cast<double>(rows));
  const auto out = trial->output<float>("out", kWidth);
  trial->set_cost({.flops = kWidth * kRowsOut, .bytes = 4.0 * kWidth * kRowsOut, .roof = Roof::kCoreDram});
  trial->reference([=](const HostArrays& host) {
    for (size_t j = 0; j < kWidth; ++j) {
      double sum = 0;
      for (const int32_t row : host[picked]) sum += host[table][static_cast<size_t>(row) * kWidth + j];
      host[out][j] = static_cast<float>(sum);
    }
  });
  trial->variant("no hint", [=](const Launch& at) { gather<0>(at[table], at[picked], at[out]); });
  trial->variant("4 rows ahead", [=](const Launch& at) { gather<4>(at[table], at[picked], at[out]); });
  trial->variant("16 rows ahead", [=](const Launch& at) { gather<16>(at[table], at[picked], at[out]); });
  return trial;
}

const Registered kPrefetch({
    .id = "cpu/prefetch",
    .title = "Software prefetch",
    .question = "Does it help to ask for an embedding's rows before they are needed?",
    .mechanism =
        "The addresses are known ahead but the hardware prefetcher cannot guess them. A hint some rows early "
        "puts more misses in flight than the reorder buffer reaches by itself.",
    .claim = {.text = "Prefetching data before its use hides memory latency behind work."},
    .domain = Domain::kCpu,
    .variants = {{"no hint", "the processor finds what it can"},
        {"4 rows ahead", "one prefetch a line, four rows early"}, {"16 rows ahead", "sixteen rows early"}},
    .sizes = {{"8K rows", {8 << 10}}, {"512K rows", {512 << 10}}},
    .quick = {{"512K rows", {512 << 10}}},
    .tolerance = {.relative = 1e-3, .absolute = 0.1},
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
