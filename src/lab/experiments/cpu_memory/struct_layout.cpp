// SPDX-License-Identifier: MIT
// One field of eight, summed from three layouts of the same records.
#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

constexpr int64_t kFields = 8;
constexpr int64_t kBlock = 16;  // records a block: one cache line a field

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0);  // records, whole blocks
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto structs = trial->input<int32_t>("structs", n * kFields, -1000, 1000);
  const auto arrays =
      trial->derived<int32_t>("arrays", n * kFields, [=](std::span<int32_t> to, const HostArrays& from) {
        for (int64_t i = 0; i < n * kFields; ++i)
          to[static_cast<size_t>(i % kFields * n + i / kFields)] = from[structs][static_cast<size_t>(i)];
      });
  const auto blocks =
      trial->derived<int32_t>("blocks", n * kFields, [=](std::span<int32_t> to, const HostArrays& from) {
        for (int64_t i = 0; i < n * kFields; ++i) {
          const int64_t record = i / kFields, field = i % kFields;
          to[static_cast<size_t>((record / kBlock * kFields + field) * kBlock + record % kBlock)] =
              from[structs][static_cast<size_t>(i)];
        }
      });
  const auto sum = trial->output<int32_t>("sum", 1);
  trial->set_cost({.bytes = 4.0 * static_cast<double>(n), .roof = Roof::kCoreDram});
  trial->reference([=](const HostArrays& host) {
    for (int64_t i = 0; i < n; ++i) host[sum][0] += host[structs][static_cast<size_t>(i * kFields)];
  });
  trial->variant("array of structs", [=](const Launch& at) {
    int32_t total = 0;
    for (int64_t i = 0; i < n; ++i) total += at[structs][i * kFields];
    *at[sum] = total;
  });
  trial->variant("struct of arrays", [=](const Launch& at) {
    int32_t total = 0;
    for (int64_t i = 0; i < n; ++i) total += at[arrays][i];
    *at[sum] = total;
  });
  trial->variant("blocks", [=](const Launch& at) {
    int32_t total = 0;
    for (int64_t block = 0; block < n / kBlock; ++block)
      for (int64_t i = 0; i < kBlock; ++i) total += at[blocks][block * kFields * kBlock + i];
    *at[sum] = total;
  });
  return trial;
}

const Registered kStructLayout({
    .id = "cpu/struct-layout",
    .title = "Array of structs, struct of arrays",
    .question = "How much faster is one field of many records when fields lie together?",
    .mechanism =
        "With 32-byte records a line holds two of them: seven eighths of what moves is not used, and "
        "the loads of one field do not fill a vector. Together, every byte is used; blocks keep both records "
        "and fields close.",
    .claim = {.text =
                  "Structs of arrays make accesses contiguous; arrays of structs waste most of each line."},
    .domain = Domain::kCpu,
    .variants = {{"array of structs", "eight fields of a record side by side"},
        {"struct of arrays", "each field in an array of its own"},
        {"blocks", "16 records a block, fields together within it"}},
    .sizes = sizes_of({1 << 16, 1 << 20, 1 << 22}),
    .quick = sizes_of({1 << 20}),
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
