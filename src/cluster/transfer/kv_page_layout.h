// SPDX-License-Identifier: MIT
#pragma once
// Where in a page each number lies. A place has, layer after layer, the keys and then the values of all heads
// of the rank: head by head, keys [key_dim, tokens] or [tokens, key_dim] by the order, values [tokens,
// value_dim]. Rows of 8-bit caches end in their scale (kernels/attention/scaled_row.h); there, and in MLA's
// latents (value_dim 0), keys always lie by token.
#include <cstddef>
#include <string>

#include "cluster/transfer/kv_compat.h"

namespace cheetah::cluster::transfer {

class KvPageLayout {
 public:
  // Empty when pages of this description can be read; else one sentence.
  static std::string why_not(const KvDescriptor& kv);
  explicit KvPageLayout(const KvDescriptor& kv);  // one that why_not() has nothing against

  int64_t place_bytes() const { return num_layers_ * layer_bytes_; }
  DType dtype() const { return dtype_; }
  int64_t num_layers() const { return num_layers_; }

  // The rows of one layer's keys or values of one head of the model, in a place.
  struct Rows {
    int64_t offset = 0;        // of the first number in the place
    int64_t dim = 0;           // numbers per row
    int64_t token_stride = 0;  // bytes between tokens
    int64_t dim_stride = 0;    // bytes between numbers of a token
    bool contiguous() const { return dim_stride < token_stride || dim == 1; }
  };
  Rows keys(int64_t layer, int32_t head) const;
  Rows values(int64_t layer, int32_t head) const;  // dim 0: none
  int64_t place_of(int64_t token) const { return token / page_tokens_; }
  int64_t in_place(int64_t token) const { return token % page_tokens_; }
  int64_t left_in_place(int64_t token) const { return page_tokens_ - in_place(token); }

 private:
  DType dtype_;
  int64_t page_tokens_, num_layers_, key_dim_, value_dim_;
  HeadRange heads_;
  bool keys_by_dimension_;
  int64_t element_bytes_, key_row_bytes_, value_row_bytes_, layer_bytes_;
};

struct SourcePages {
  const KvPageLayout& layout;
  const std::byte* data;
  int64_t skip = 0;  // tokens of the first page that are left out
};
struct TargetPages {
  const KvPageLayout& layout;
  std::byte* data;
};
// All layers of one head of the model, `tokens` of them.
void copy_head(const SourcePages& from, const TargetPages& to, int32_t head, int64_t tokens);

}  // namespace cheetah::cluster::transfer
