// SPDX-License-Identifier: MIT
// Copies past the caches, with stores that read their line first and with stores that do not.
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

#if defined(__x86_64__)
// 16-byte aligned, whole vectors.
void copy_streaming(const float* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; i += 4) _mm_stream_ps(to + i, _mm_load_ps(from + i));
  _mm_sfence();
}
#endif

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", n);
  const auto y = trial->output<float>("y", n);
  trial->set_cost({.bytes = 8.0 * static_cast<double>(n), .roof = Roof::kCoreDram});
  trial->reference(
      [=](const HostArrays& host) { std::memcpy(host[y].data(), host[x].data(), host[x].size_bytes()); });
  trial->variant("loop", [=](const Launch& at) {
    const float* from = at[x];
    float* to = at[y];
    for (int64_t i = 0; i < n; ++i) {
      to[i] = from[i];
      asm volatile("" ::: "memory");  // or the compiler calls memcpy here
    }
  });
  trial->variant(
      "memcpy", [=](const Launch& at) { std::memcpy(at[y], at[x], static_cast<size_t>(n) * sizeof(float)); });
#if defined(__x86_64__)
  trial->variant("streaming stores", [=](const Launch& at) { copy_streaming(at[x], at[y], n); });
#else
  trial->refuse("streaming stores", "this processor's streaming stores are not written here");
#endif
  return trial;
}

const Registered kCopy({
    .id = "cpu/copy",
    .title = "Copies and streaming stores",
    .question = "What do non-temporal stores gain for a copy past the caches?",
    .mechanism =
        "A plain store fetches its line before writing it: three lines move for two. A streaming store "
        "writes "
        "whole lines without reading them, and leaves the caches to others. A good memcpy already knows.",
    .claim = {.text = "Data used once should bypass the cache."},
    .domain = Domain::kCpu,
    .variants = {{"loop", "one word at a time"}, {"memcpy", "the C library's"},
        {"streaming stores", "16-byte stores around the caches"}},
    .sizes = sizes_of({1 << 16, 1 << 22, 1 << 24}),
    .quick = sizes_of({1 << 23}),
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
