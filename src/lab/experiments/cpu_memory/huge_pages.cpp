// SPDX-License-Identifier: MIT
// Random reads over much memory in small and in huge pages.
#include <sys/mman.h>

#include <new>

#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

constexpr int64_t kReads = 1 << 14;

// A table of its own pages; word i holds 3 i.
class Region {
 public:
  Region(int64_t words, int advice) : bytes_(static_cast<size_t>(words) * sizeof(uint32_t)) {
    constexpr uintptr_t kHuge = uintptr_t{2} << 20;
    taken_ = mmap(nullptr, bytes_ + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (taken_ == MAP_FAILED) throw std::bad_alloc();
    words_ = reinterpret_cast<uint32_t*>((reinterpret_cast<uintptr_t>(taken_) + kHuge - 1) / kHuge * kHuge);
    madvise(words_, bytes_, advice);
    for (int64_t i = 0; i < words; ++i) words_[i] = 3 * static_cast<uint32_t>(i);
  }
  ~Region() { munmap(taken_, bytes_ + (size_t{2} << 20)); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  const uint32_t* words() const { return words_; }

 private:
  size_t bytes_;
  void* taken_ = nullptr;
  uint32_t* words_ = nullptr;
};

uint32_t sum_at(const uint32_t* words, const int32_t* indices) {
  uint32_t sum = 0;
  for (int64_t i = 0; i < kReads; ++i) sum += words[indices[i]];
  return sum;
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t words = setup.dim(0) / 4;
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto indices = trial->input<int32_t>("indices", kReads, 0, static_cast<double>(words));
  const auto sum = trial->output<uint32_t>("sum", 1);
  trial->set_cost({.roof = Roof::kNone, .items = static_cast<double>(kReads), .item = "read"});
  trial->reference([=](const HostArrays& host) {
    for (const int32_t index : host[indices]) host[sum][0] += 3 * static_cast<uint32_t>(index);
  });
  const auto add = [&](std::string_view name, int advice) {
    const auto region = std::make_shared<Region>(words, advice);
    trial->variant(name, [=](const Launch& at) { *at[sum] = sum_at(region->words(), at[indices]); });
  };
  add("4 KiB pages", MADV_NOHUGEPAGE);
  add("huge pages", MADV_HUGEPAGE);
  return trial;
}

const Registered kHugePages({
    .id = "cpu/huge-pages",
    .title = "Huge pages",
    .question = "What do 2 MiB pages gain where reads are random?",
    .mechanism =
        "The TLB holds a few thousand pages: 4 KiB pages cover megabytes, huge pages gigabytes. A read "
        "whose page is not there waits for a walk through the page table first.",
    .claim = {.text = "Transparent huge pages cut TLB misses for large allocations."},
    .domain = Domain::kCpu,
    .variants = {{"4 KiB pages", "what the kernel gives without advice"},
        {"huge pages", "madvise(MADV_HUGEPAGE)"}},
    .sizes = {{"64 MiB", {64 << 20}}, {"512 MiB", {512 << 20}}},
    .quick = {{"128 MiB", {128 << 20}}},
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
