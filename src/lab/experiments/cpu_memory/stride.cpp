// SPDX-License-Identifier: MIT
// The same additions in another order: lines fetched once, or again and again.
#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

// Visits every element once: those `stride` apart first.
uint32_t sum_strided(const uint32_t* x, int64_t n, int64_t stride) {
  uint32_t sum = 0;
  for (int64_t begin = 0; begin < stride; ++begin)
    for (int64_t i = begin; i < n; i += stride) sum += x[i];
  return sum;
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<uint32_t>("x", n, 0, 1000);
  const auto sum = trial->output<uint32_t>("sum", 1);
  trial->set_cost({.bytes = 4.0 * static_cast<double>(n), .roof = Roof::kCoreDram});
  trial->reference([=](const HostArrays& host) {
    for (const uint32_t value : host[x]) host[sum][0] += value;
  });
  const auto add = [&](std::string_view name, int64_t stride) {
    trial->variant(name, [=](const Launch& at) { *at[sum] = sum_strided(at[x], n, stride); });
  };
  add("in order", 1);
  add("stride 2", 2);
  add("stride 16", 16);
  add("stride 1024", 1024);
  return trial;
}

const Registered kStride({
    .id = "cpu/cache-stride",
    .title = "Strides through memory",
    .question = "What does it cost to visit memory with a stride?",
    .mechanism =
        "Memory moves in lines of 64 bytes. With a stride of 16 words or more each line serves one addition "
        "and is fetched again later; at 4 KiB strides the TLB and the prefetcher give up as well. The "
        "processor's twin of an uncoalesced load.",
    .claim = {.text =
                  "Uncoalesced access wastes most of each transaction: stride 2 halves the useful share."},
    .domain = Domain::kCpu,
    .variants = {{"in order", "neighbours one after the other"},
        {"stride 2", "every second word, twice over the array"}, {"stride 16", "one word a cache line"},
        {"stride 1024", "one word a page"}},
    .sizes = sizes_of({1 << 18, 1 << 22, 1 << 25}),
    .quick = sizes_of({1 << 22}),
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
