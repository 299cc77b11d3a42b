// SPDX-License-Identifier: MIT
#include "kernels/quant/quant.h"
#include "model/bind_weights.h"
#include "tensor/float16.h"

namespace cheetah {
namespace {

// One head's rows of q, k and v after another's, put apart.
Linear bind_parted(
    WeightLoader& loader, const ModelTraits& traits, const WeightNames& names, const std::string& name) {
  const HeadParts parts{.heads = traits.heads, .parts = 3, .rows = traits.head_dim};
  Linear linear;
  linear.w = loader.parted(name + ".weight", parts, traits.hidden);
  if (names.qkv_bias == Presence::kYes) linear.bias = loader.parted_vector(name + ".bias", parts);
  return linear;
}

void bind_projections(WeightLoader& loader, const ModelTraits& traits, const WeightNames& names,
    const std::string& root, AttentionWeights& into) {
  const int64_t q_rows = traits.heads * traits.head_dim, kv_rows = traits.kv_heads * traits.head_dim;
  const int64_t hidden = traits.hidden;
  if (!names.qkv.empty()) {
    into.qkv = names.qkv_by_head ? bind_parted(loader, traits, names, root + names.qkv)
                                 : bind_linear(loader, names, root + names.qkv, q_rows + 2 * kv_rows, hidden,
                                       names.qkv_bias);
    into.q = rows_of(into.qkv, 0, q_rows);
    into.k = rows_of(into.qkv, q_rows, kv_rows);
    into.v = rows_of(into.qkv, q_rows + kv_rows, kv_rows);
    return;
  }
  loader.keep_together(root + names.q + ".weight", (q_rows + 2 * kv_rows) * hidden);
  into.q = bind_linear(loader, names, root + names.q, q_rows, hidden, names.qkv_bias);
  into.k = bind_linear(loader, names, root + names.k, kv_rows, hidden, names.qkv_bias);
  into.v = bind_linear(loader, names, root + names.v, kv_rows, hidden, names.qkv_bias);
}

struct UpSplit {
  const TensorView& kv_b;  // [heads * (nope_dim + value_dim), kv_rank]
  const MlaTraits& mla;
  DType dtype;  // of the result
};

// Transposes one head's key rows: [nope_dim, kv_rank] becomes [kv_rank, nope_dim].
void transpose_keys(const UpSplit& split, int64_t first_row, std::byte* out) {
  const int64_t rank = split.mla.kv_rank, nope = split.mla.nope_dim;
  std::vector<float> row(static_cast<size_t>(rank)), turned(static_cast<size_t>(rank * nope));
  for (int64_t r = 0; r < nope; ++r) {
    dequantize_row(split.kv_b.dtype, split.kv_b.row(first_row + r), row.data(), rank);
    for (int64_t c = 0; c < rank; ++c)
      turned[static_cast<size_t>(c * nope + r)] = row[static_cast<size_t>(c)];
  }
  for (int64_t c = 0; c < rank; ++c)
    quantize_row(split.dtype, turned.data() + c * nope, out + c * row_bytes(split.dtype, nope), nope);
}

// Absorbed MLA needs W_uk transposed per head; W_uv is used as it lies.
void split_kv_b(
    WeightLoader& loader, const ModelTraits& traits, const std::string& name, AttentionWeights& into) {
  const MlaTraits& mla = traits.mla;
  const int64_t head_rows = mla.nope_dim + mla.value_dim;
  const WeightMatrix all = loader.unscaled(name, traits.heads * head_rows, mla.kv_rank);
  if (!all.data) return;
  const TensorView view{.dtype = all.dtype, .shape = {all.rows, all.cols}, .data = all.data};
  // A quantized row does not survive transposition exactly: its values are kept widened.
  const UpSplit split{.kv_b = view, .mla = mla, .dtype = is_quantized(all.dtype) ? DType::kF32 : all.dtype};
  const int64_t key_bytes = mla.kv_rank * row_bytes(split.dtype, mla.nope_dim);
  std::byte* keys = loader.own(traits.heads * key_bytes);
  loader.pool().parallel_for(traits.heads, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t h = begin; h < end; ++h) transpose_keys(split, h * head_rows, keys + h * key_bytes);
  });
  for (int64_t h = 0; h < traits.heads; ++h) {
    into.k_up.push_back(
        {.dtype = split.dtype, .rows = mla.kv_rank, .cols = mla.nope_dim, .data = keys + h * key_bytes});
    into.v_up.push_back({.dtype = all.dtype,
        .rows = mla.value_dim,
        .cols = mla.kv_rank,
        .data = view.row(h * head_rows + mla.nope_dim)});
  }
}

}  // namespace

void bind_attention(WeightLoader& loader, const ModelTraits& traits, const WeightNames& names,
    const std::string& root, AttentionWeights& into) {
  bind_projections(loader, traits, names, root, into);
  into.o =
      bind_linear(loader, names, root + names.o, traits.hidden, traits.heads * traits.head_dim, names.o_bias);
  if (traits.qk_norm || traits.qk_norm_whole) {
    const int64_t per_head = traits.head_dim;
    into.q_norm = bind_norm(
        loader, root + names.q_norm, traits.qk_norm_whole ? traits.heads * per_head : per_head, false);
    into.k_norm = bind_norm(
        loader, root + names.k_norm, traits.qk_norm_whole ? traits.kv_heads * per_head : per_head, false);
  }
  if (traits.attention_sinks) into.sinks = loader.vector(root + names.sinks, {traits.heads});
}

void bind_mla(WeightLoader& loader, const ModelTraits& traits, const WeightNames& names,
    const std::string& root, AttentionWeights& into) {
  const MlaTraits& mla = traits.mla;
  const int64_t q_rows = traits.heads * (mla.nope_dim + mla.rope_dim);
  if (mla.q_rank > 0) {
    into.q_a = bind_linear(loader, names, root + names.q_a, mla.q_rank, traits.hidden, names.qkv_bias);
    into.q_a_norm = bind_norm(loader, root + names.q_a_norm, mla.q_rank, false);
    into.q = bind_linear(loader, names, root + names.q_b, q_rows, mla.q_rank, Presence::kNo);
  } else {
    into.q = bind_linear(loader, names, root + names.q, q_rows, traits.hidden, Presence::kNo);
  }
  into.kv_a = bind_linear(
      loader, names, root + names.kv_a, mla.kv_rank + mla.rope_dim, traits.hidden, names.qkv_bias);
  into.kv_a_norm = bind_norm(loader, root + names.kv_a_norm, mla.kv_rank, false);
  const std::string kv_b = root + names.kv_b + ".weight";
  if (names.k_b.empty() || loader.has(kv_b)) {
    split_kv_b(loader, traits, kv_b, into);
  } else {
    into.k_up = loader.matrices(root + names.k_b + ".weight", traits.heads, mla.kv_rank, mla.nope_dim);
    into.v_up = loader.matrices(root + names.v_b + ".weight", traits.heads, mla.value_dim, mla.kv_rank);
  }
  into.o =
      bind_linear(loader, names, root + names.o, traits.hidden, traits.heads * mla.value_dim, names.o_bias);
}

}  // namespace cheetah
