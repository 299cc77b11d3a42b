// SPDX-License-Identifier: MIT
#include "kernels/attention/scaled_row.h"
#include "model/model.h"

namespace cheetah {

KvPool::KvPool(const ModelTraits& traits, DType dtype, int64_t num_pages, int64_t page_tokens)
    : KvPool(traits, KvShape{.dtype = dtype, .num_pages = num_pages, .page_tokens = page_tokens}) {}

KvPool::KvPool(const ModelTraits& traits, const KvShape& shape)
    : num_pages_(shape.num_pages), page_tokens_(shape.page_tokens) {
  set_shape(traits, shape);
  for (int64_t i = 0; i < layout_.slots; ++i) slots_.emplace_back(slot_bytes_);
}

KvPool::KvPool(const ModelTraits& traits, const KvShape& shape, const DevicePlace& place)
    : place_(place), num_pages_(shape.num_pages), page_tokens_(shape.page_tokens) {
  set_shape(traits, shape);
  for (int64_t i = 0; i < layout_.slots; ++i) {
    device_slots_.push_back(place.memory.allocate(gpu::ArenaKind::kKv, slot_bytes_, place.stream));
    // Kernels that load whole pages multiply what no token wrote by zero: it must not be NaN.
    gpu::fill_bytes(device_slots_.back().data(), 0, device_slots_.back().size(), place.stream);
  }
}

void KvPool::set_shape(const ModelTraits& traits, const KvShape& shape) {
  layout_ = shape.layout.layers.empty() ? one_group(traits) : shape.layout;
  shape_ = {.dtype = shape.dtype,
      .page_tokens = page_tokens_,
      .kv_heads = cache_heads(traits),
      .key_dim = cache_key_dim(traits),
      .value_dim = cache_value_dim(traits)};
  const int64_t rows = num_pages_ * page_tokens_ * shape_.kv_heads;
  slot_bytes_ = num_pages_ * page_tokens_ * kv_bytes_per_layer(traits, shape.dtype);
  value_offset_ = traits.has_mla ? -1 : rows * cache_row_bytes(shape.dtype, shape_.key_dim);
}

PagedKv KvPool::slot(int64_t index) {
  const auto at = static_cast<size_t>(index);
  PagedKv kv = shape_;
  kv.keys = device_slots_.empty() ? slots_[at].data() : device_slots_[at].data();
  kv.values = value_offset_ < 0 ? nullptr : kv.keys + value_offset_;
  return kv;
}

int64_t kv_bytes_per_layer(const ModelTraits& traits, DType dtype) {
  const int64_t values = traits.has_mla ? 0 : cache_row_bytes(dtype, cache_value_dim(traits));
  return cache_heads(traits) * (cache_row_bytes(dtype, cache_key_dim(traits)) + values);
}

int64_t kv_bytes_per_token(const ModelTraits& traits, DType dtype) {
  return std::ssize(traits.layers) * kv_bytes_per_layer(traits, dtype);
}

}  // namespace cheetah
