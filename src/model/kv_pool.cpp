#include "kernels/attention/scaled_row.h"
#include "model/model.h"

namespace cheetah {

KvPool::KvPool(const ModelTraits& traits, DType dtype, int64_t num_pages, int64_t page_tokens)
    : num_pages_(num_pages), page_tokens_(page_tokens) {
  shape_ = {.dtype = dtype,
            .page_tokens = page_tokens,
            .kv_heads = traits.cache_heads(),
            .key_dim = traits.cache_key_dim(),
            .value_dim = traits.cache_value_dim()};
  const int64_t rows = num_pages * page_tokens * shape_.kv_heads;
  value_offset_ = traits.has_mla ? -1 : rows * cache_row_bytes(dtype, shape_.key_dim);
  const int64_t layer_bytes = num_pages * page_tokens * kv_bytes_per_token(traits, dtype) /
                              static_cast<int64_t>(traits.layers.size());
  for (size_t i = 0; i < traits.layers.size(); ++i) layers_.emplace_back(layer_bytes);
}

PagedKv KvPool::layer(int64_t index) {
  PagedKv kv = shape_;
  kv.keys = layers_[static_cast<size_t>(index)].data();
  kv.values = value_offset_ < 0 ? nullptr : kv.keys + value_offset_;
  return kv;
}

int64_t kv_bytes_per_token(const ModelTraits& traits, DType dtype) {
  const int64_t values = traits.has_mla ? 0 : cache_row_bytes(dtype, traits.cache_value_dim());
  return static_cast<int64_t>(traits.layers.size()) * traits.cache_heads() *
         (cache_row_bytes(dtype, traits.cache_key_dim()) + values);
}

}  // namespace cheetah
