#include "kernels/attention/scaled_row.h"
#include "model/model.h"

namespace cheetah {

KvPool::KvPool(const ModelTraits& traits, DType dtype, int64_t num_pages, int64_t page_tokens)
    : num_pages_(num_pages), page_tokens_(page_tokens) {
  set_shape(traits, dtype);
  for (size_t i = 0; i < traits.layers.size(); ++i) layers_.emplace_back(layer_bytes(traits));
}

KvPool::KvPool(const ModelTraits& traits, DType dtype, int64_t num_pages, int64_t page_tokens,
               const DevicePlace& place)
    : place_(place), num_pages_(num_pages), page_tokens_(page_tokens) {
  set_shape(traits, dtype);
  for (size_t i = 0; i < traits.layers.size(); ++i) {
    device_layers_.push_back(place.memory.allocate(gpu::ArenaKind::kKv, layer_bytes(traits), place.stream));
    // Kernels that load whole pages multiply what no token wrote by zero: it must not be NaN.
    gpu::fill_bytes(device_layers_.back().data(), 0, device_layers_.back().size(), place.stream);
  }
}

void KvPool::set_shape(const ModelTraits& traits, DType dtype) {
  shape_ = {.dtype = dtype,
            .page_tokens = page_tokens_,
            .kv_heads = traits.cache_heads(),
            .key_dim = traits.cache_key_dim(),
            .value_dim = traits.cache_value_dim()};
  const int64_t rows = num_pages_ * page_tokens_ * shape_.kv_heads;
  value_offset_ = traits.has_mla ? -1 : rows * cache_row_bytes(dtype, shape_.key_dim);
}

int64_t KvPool::layer_bytes(const ModelTraits& traits) const {
  return num_pages_ * page_tokens_ * kv_bytes_per_token(traits, shape_.dtype) /
         static_cast<int64_t>(traits.layers.size());
}

PagedKv KvPool::layer(int64_t index) {
  const auto at = static_cast<size_t>(index);
  PagedKv kv = shape_;
  kv.keys = device_layers_.empty() ? layers_[at].data() : device_layers_[at].data();
  kv.values = value_offset_ < 0 ? nullptr : kv.keys + value_offset_;
  return kv;
}

int64_t kv_bytes_per_token(const ModelTraits& traits, DType dtype) {
  const int64_t values = traits.has_mla ? 0 : cache_row_bytes(dtype, traits.cache_value_dim());
  return static_cast<int64_t>(traits.layers.size()) * traits.cache_heads() *
         (cache_row_bytes(dtype, traits.cache_key_dim()) + values);
}

}  // namespace cheetah
