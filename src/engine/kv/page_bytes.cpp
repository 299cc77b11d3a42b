// SPDX-License-Identifier: MIT
#include "engine/kv/page_bytes.h"

#include <cstring>

#include "base/error.h"
#include "kernels/attention/scaled_row.h"

namespace cheetah {

PageBytes::PageBytes(KvPool& pool) : place_(pool.place()) {
  for (int64_t i = 0; i < pool.layout().slots; ++i) {
    const PagedKv slot = pool.slot(i);
    const int64_t rows = slot.kv_heads * slot.page_tokens;
    planes_.push_back({slot.keys, rows * cache_row_bytes(slot.dtype, slot.key_dim)});
    if (slot.values) planes_.push_back({slot.values, rows * cache_row_bytes(slot.dtype, slot.value_dim)});
  }
  for (const Plane& plane : planes_) page_bytes_ += plane.bytes;
}

void PageBytes::copy(PageIndex from, PageIndex to) {
  for (const Plane& plane : planes_) {
    if (place_)
      gpu::copy_on_device(plane.at(to), plane.at(from), plane.bytes, place_->stream);
    else
      std::memcpy(plane.at(to), plane.at(from), static_cast<size_t>(plane.bytes));
  }
}

std::byte* PageBytes::staging() {
  if (staging_.size() < page_bytes_) staging_ = gpu::PinnedBuffer(page_bytes_);
  return staging_.data();
}

void PageBytes::save(PageIndex page, std::span<std::byte> bytes) {
  CHEETAH_ASSERT(std::ssize(bytes) == page_bytes_, "room for one page");
  if (place_) {
    std::byte* at = staging();
    for (const Plane& plane : planes_) {
      gpu::copy_to_host(at, plane.at(page), plane.bytes, place_->stream);
      at += plane.bytes;
    }
    place_->stream.wait();
    std::memcpy(bytes.data(), staging(), bytes.size());
    return;
  }
  copy_out(page, bytes);
}

void PageBytes::copy_out(PageIndex page, std::span<std::byte> bytes) const {
  CHEETAH_ASSERT(on_host() && std::ssize(bytes) == page_bytes_, "room for one page of the host");
  std::byte* to = bytes.data();
  for (const Plane& plane : planes_) {
    std::memcpy(to, plane.at(page), static_cast<size_t>(plane.bytes));
    to += plane.bytes;
  }
}

void PageBytes::load(std::span<const std::byte> bytes, PageIndex page) {
  CHEETAH_ASSERT(std::ssize(bytes) == page_bytes_, "the bytes of one page");
  const std::byte* from = bytes.data();
  if (place_) {
    std::memcpy(staging(), from, bytes.size());
    from = staging();
    for (const Plane& plane : planes_) {
      gpu::copy_to_device(plane.at(page), from, plane.bytes, place_->stream);
      from += plane.bytes;
    }
    place_->stream.wait();  // the staging memory is used again
    return;
  }
  for (const Plane& plane : planes_) {
    std::memcpy(plane.at(page), from, static_cast<size_t>(plane.bytes));
    from += plane.bytes;
  }
}

}  // namespace cheetah
