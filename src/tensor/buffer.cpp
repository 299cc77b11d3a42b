#include <sys/mman.h>

#include <cstring>
#include <new>

#include "tensor/tensor.h"

namespace cheetah {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;

std::align_val_t alignment_of(int64_t bytes) {
  return std::align_val_t(bytes >= 2 * kHugePage ? kHugePage : 64);
}

}  // namespace

Buffer::Buffer(int64_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  const auto size = static_cast<size_t>(bytes);
  data_ = static_cast<std::byte*>(::operator new(size, alignment_of(bytes)));
  // Best effort: without huge pages the same bytes are only slower.
  if (bytes >= 2 * kHugePage)
    madvise(data_, static_cast<size_t>(bytes / kHugePage * kHugePage), MADV_HUGEPAGE);
  std::memset(data_, 0, size);
}

Buffer::~Buffer() { ::operator delete(data_, alignment_of(size_)); }

}  // namespace cheetah
