// SPDX-License-Identifier: MIT
#include <sys/mman.h>

#include <cstring>
#include <new>

#include "tensor/tensor.h"

namespace cheetah {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr std::align_val_t kAlignment{64};

bool is_mapped(int64_t bytes) { return bytes >= 2 * kHugePage; }

size_t mapped_size(int64_t bytes) {
  return static_cast<size_t>((bytes + kHugePage - 1) / kHugePage * kHugePage);
}

// Whole huge pages straight from the system, which zeroes each when it is first touched: a cache of many
// gigabytes is ready at once, and what is never used costs nothing.
std::byte* map_zeroed(int64_t bytes) {
  const size_t size = mapped_size(bytes), total = size + static_cast<size_t>(kHugePage);
  void* mapped = mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* begin = static_cast<std::byte*>(mapped);
  const size_t before =
      (static_cast<size_t>(kHugePage) - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  if (before > 0) munmap(begin, before);
  if (before < static_cast<size_t>(kHugePage))
    munmap(begin + before + size, static_cast<size_t>(kHugePage) - before);
  // Best effort: without huge pages the same bytes are only slower.
  madvise(begin + before, size, MADV_HUGEPAGE);
  return begin + before;
}

}  // namespace

Buffer::Buffer(int64_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  if (is_mapped(bytes)) {
    data_ = map_zeroed(bytes);
    return;
  }
  data_ = static_cast<std::byte*>(::operator new(static_cast<size_t>(bytes), kAlignment));
  std::memset(data_, 0, static_cast<size_t>(bytes));
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  if (is_mapped(size_))
    munmap(data_, mapped_size(size_));
  else
    ::operator delete(data_, kAlignment);
}

}  // namespace cheetah
