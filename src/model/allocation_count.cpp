// SPDX-License-Identifier: MIT
// For tests: replaces operator new by one that counts. Sanitizers bring their own, which must stay: there the
// count is always 0.
#include "model/allocation_count.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> num_allocations{0};

}  // namespace

#ifndef CHEETAH_SANITIZED
namespace {

void* counted(size_t size, size_t alignment) {
  num_allocations.fetch_add(1, std::memory_order_relaxed);
  const size_t least = size ? size : 1;
  void* memory = std::aligned_alloc(alignment, (least + alignment - 1) / alignment * alignment);
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t size) { return counted(size, alignof(std::max_align_t)); }
void* operator new(size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
#endif

namespace cheetah {

int64_t allocation_count() { return num_allocations.load(); }

}  // namespace cheetah
