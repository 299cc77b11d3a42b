#include "engine/kv/page_bytes.h"

#include <cstring>

#include "base/error.h"
#include "kernels/attention/scaled_row.h"

namespace cheetah {

PageBytes::PageBytes(KvPool& pool, int64_t num_layers) {
  for (int64_t i = 0; i < num_layers; ++i) {
    const PagedKv layer = pool.layer(i);
    const int64_t rows = layer.kv_heads * layer.page_tokens;
    planes_.push_back({layer.keys, rows * cache_row_bytes(layer.dtype, layer.key_dim)});
    if (layer.values) planes_.push_back({layer.values, rows * cache_row_bytes(layer.dtype, layer.value_dim)});
  }
  for (const Plane& plane : planes_) page_bytes_ += plane.bytes;
}

void PageBytes::copy(PageIndex from, PageIndex to) {
  for (const Plane& plane : planes_)
    std::memcpy(plane.at(to), plane.at(from), static_cast<size_t>(plane.bytes));
}

void PageBytes::save(PageIndex page, std::span<std::byte> bytes) const {
  CHEETAH_ASSERT(std::ssize(bytes) == page_bytes_, "room for one page");
  std::byte* to = bytes.data();
  for (const Plane& plane : planes_) {
    std::memcpy(to, plane.at(page), static_cast<size_t>(plane.bytes));
    to += plane.bytes;
  }
}

void PageBytes::load(std::span<const std::byte> bytes, PageIndex page) {
  CHEETAH_ASSERT(std::ssize(bytes) == page_bytes_, "the bytes of one page");
  const std::byte* from = bytes.data();
  for (const Plane& plane : planes_) {
    std::memcpy(plane.at(page), from, static_cast<size_t>(plane.bytes));
    from += plane.bytes;
  }
}

}  // namespace cheetah
