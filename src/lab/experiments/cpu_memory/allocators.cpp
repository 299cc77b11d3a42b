// SPDX-License-Identifier: MIT
// Many short-lived blocks: from malloc, from a free list, from an arena.
#include <cstdlib>
#include <memory_resource>

#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

constexpr int64_t kBlocks = 4096;
constexpr int64_t kAlive = 64;  // blocks alive at once

// Takes a block of each size, writes its ends, gives the one taken kAlive before back.
template <class Take, class Give>
uint32_t churn(const int32_t* sizes, Take&& take, Give&& give) {
  struct Block {
    unsigned char* data = nullptr;
    size_t size = 0;
  };
  Block alive[kAlive];
  uint32_t sum = 0;
  for (int64_t i = 0; i < kBlocks + kAlive; ++i) {
    Block& slot = alive[i % kAlive];
    if (slot.data != nullptr) {
      sum += slot.data[0] + slot.data[slot.size - 1];
      give(slot.data, slot.size);
      slot = {};
    }
    if (i >= kBlocks) continue;
    slot.size = static_cast<size_t>(sizes[i]);
    slot.data = static_cast<unsigned char*>(take(slot.size));
    slot.data[0] = static_cast<unsigned char>(i);
    slot.data[slot.size - 1] = static_cast<unsigned char>(i >> 4);
  }
  return sum;
}

uint32_t churn_in(std::pmr::memory_resource& memory, const int32_t* sizes) {
  return churn(
      sizes, [&](size_t size) { return memory.allocate(size); },
      [&](void* data, size_t size) { memory.deallocate(data, size); });
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const auto most = static_cast<double>(setup.dim(0));
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto sizes = trial->input<int32_t>("sizes", kBlocks, 2, most);
  const auto sum = trial->output<uint32_t>("sum", 1);
  trial->set_cost({.roof = Roof::kNone, .items = static_cast<double>(kBlocks), .item = "block"});
  trial->reference([=](const HostArrays& host) {
    for (int64_t i = 0; i < kBlocks; ++i) host[sum][0] += static_cast<uint32_t>((i & 255) + ((i >> 4) & 255));
  });
  trial->variant("malloc", [=](const Launch& at) {
    *at[sum] = churn(
        at[sizes], [](size_t size) { return std::malloc(size); },
        [](void* data, size_t) { std::free(data); });
  });
  const auto pool = std::make_shared<std::pmr::unsynchronized_pool_resource>();
  trial->variant("pool", [=](const Launch& at) { *at[sum] = churn_in(*pool, at[sizes]); });
  const auto space =
      std::make_shared<std::vector<std::byte>>(static_cast<size_t>(setup.dim(0) + 16) * kBlocks);
  trial->variant("arena", [=](const Launch& at) {
    std::pmr::monotonic_buffer_resource arena(space->data(), space->size());
    *at[sum] = churn_in(arena, at[sizes]);
  });
  return trial;
}

const Registered kAllocators({
    .id = "cpu/allocators",
    .title = "Allocators",
    .question = "What does a pool or an arena save over malloc for short-lived blocks?",
    .mechanism = "malloc keeps blocks of all sizes and merges them; a pool takes the next of a list a size; "
                 "an arena only "
                 "moves a pointer and gives everything back at once, but touches new memory each time.",
    .claim = {.text = "Stream-ordered pools avoid the cost of an allocation from the system each time."},
    .domain = Domain::kCpu,
    .rotation = Rotation::kHot,
    .variants = {{"malloc", "the C library's"}, {"pool", "free lists by size, kept warm"},
        {"arena", "a moving pointer, all given back at the end"}},
    .sizes = {{"to 256 B", {256}}, {"to 16 KiB", {16 << 10}}},
    .quick = {{"to 1 KiB", {1 << 10}}},
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
