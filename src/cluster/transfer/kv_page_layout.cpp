// SPDX-License-Identifier: MIT
#include "cluster/transfer/kv_page_layout.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "base/format.h"
#include "kernels/attention/scaled_row.h"
#include "tensor/float16.h"

namespace cheetah::cluster::transfer {
namespace {

constexpr std::string_view kByDimension = "keys_by_dimension", kByToken = "keys_by_token";

bool is_cache_dtype(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 || has_row_scale(dtype);
}

float load_number(DType dtype, const std::byte* at) {
  if (dtype == DType::kF32) {
    float value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return dtype == DType::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

void store_number(DType dtype, float value, std::byte* at) {
  if (dtype == DType::kF32) {
    std::memcpy(at, &value, sizeof value);
    return;
  }
  const uint16_t bits = dtype == DType::kF16 ? f32_to_f16(value) : f32_to_bf16(value);
  std::memcpy(at, &bits, sizeof bits);
}

void load_row(DType dtype, const std::byte* at, const KvPageLayout::Rows& rows, float* out) {
  const float scale = has_row_scale(dtype) ? row_scale(at, rows.dim) : 1.f;
  for (int64_t i = 0; i < rows.dim; ++i) {
    const std::byte* number = at + i * rows.dim_stride;
    out[i] = has_row_scale(dtype) ? code_value(dtype, *number) * scale : load_number(dtype, number);
  }
}

void store_row(DType dtype, const float* row, const KvPageLayout::Rows& rows, std::byte* at) {
  if (has_row_scale(dtype)) return store_scaled_row(dtype, row, rows.dim, at);
  for (int64_t i = 0; i < rows.dim; ++i) store_number(dtype, row[i], at + i * rows.dim_stride);
}

// A stretch of tokens that lies in one page on either side.
struct Run {
  const std::byte* from;
  std::byte* to;
  int64_t tokens;
};

template <class Number>
void transpose(const Run& run, const KvPageLayout::Rows& source, const KvPageLayout::Rows& target) {
  for (int64_t token = 0; token < run.tokens; ++token)
    for (int64_t i = 0; i < source.dim; ++i)
      std::memcpy(run.to + token * target.token_stride + i * target.dim_stride,
          run.from + token * source.token_stride + i * source.dim_stride, sizeof(Number));
}

// Numbers of one dtype keep their bits, whatever their order. Rows with a scale never lie by dimension.
void move_run(
    DType dtype, const Run& run, const KvPageLayout::Rows& source, const KvPageLayout::Rows& target) {
  const auto number = static_cast<size_t>(row_bytes(dtype, 1));
  const auto tokens = static_cast<size_t>(run.tokens);
  if (source.contiguous() && target.contiguous()) {
    std::memcpy(run.to, run.from, static_cast<size_t>(source.token_stride) * tokens);
  } else if (!source.contiguous() && !target.contiguous()) {
    for (int64_t i = 0; i < source.dim; ++i)
      std::memcpy(run.to + i * target.dim_stride, run.from + i * source.dim_stride, number * tokens);
  } else {
    if (number == 4)
      transpose<uint32_t>(run, source, target);
    else
      transpose<uint16_t>(run, source, target);
  }
}

void convert_run(
    DType in, DType out, const Run& run, const KvPageLayout::Rows& source, const KvPageLayout::Rows& target) {
  std::vector<float> numbers(static_cast<size_t>(source.dim));
  for (int64_t token = 0; token < run.tokens; ++token) {
    load_row(in, run.from + token * source.token_stride, source, numbers.data());
    store_row(out, numbers.data(), target, run.to + token * target.token_stride);
  }
}

void copy_rows(const SourcePages& from, const KvPageLayout::Rows& source, const TargetPages& to,
    const KvPageLayout::Rows& target, int64_t tokens) {
  const KvPageLayout &in = from.layout, &out = to.layout;
  for (int64_t done = 0; done < tokens;) {
    const int64_t there = from.skip + done;
    const Run run{.from = from.data + in.place_of(there) * in.place_bytes() + source.offset +
                          in.in_place(there) * source.token_stride,
        .to = to.data + out.place_of(done) * out.place_bytes() + target.offset +
              out.in_place(done) * target.token_stride,
        .tokens = std::min({tokens - done, in.left_in_place(there), out.left_in_place(done)})};
    if (in.dtype() == out.dtype())
      move_run(in.dtype(), run, source, target);
    else
      convert_run(in.dtype(), out.dtype(), run, source, target);
    done += run.tokens;
  }
}

}  // namespace

std::string KvPageLayout::why_not(const KvDescriptor& kv) {
  constexpr int32_t kMost = 1 << 24;
  const auto dtype = dtype_from_name(kv.dtype);
  if (!dtype || !is_cache_dtype(*dtype))
    return format("KV pages: dtype {}, expected F32, F16, BF16, F8_E4M3 or I8", printable(kv.dtype));
  if (kv.order != kByDimension && kv.order != kByToken)
    return format("KV pages: order {}, expected {} or {}", printable(kv.order), kByDimension, kByToken);
  for (const int32_t size : {kv.page_tokens, kv.num_layers, kv.num_kv_heads, kv.key_dim, kv.tp_size})
    if (size < 1 || size > kMost) return format("KV pages: a size of {}, expected 1 to {}", size, kMost);
  if (kv.value_dim < 0 || kv.value_dim > kMost || kv.tp_rank < 0 || kv.tp_rank >= kv.tp_size)
    return format("KV pages: values of {} numbers in shard {} of {}, expected a shard below their number",
        kv.value_dim, kv.tp_rank, kv.tp_size);
  try {
    const int64_t place = KvPageLayout(kv).place_bytes();
    const auto groups = std::max<int64_t>(std::ssize(kv.windows), 1);
    if (kv.page_bytes != 0 && kv.page_bytes != place && kv.page_bytes * groups != place)
      return format("KV pages: {} bytes, expected {} of their shape", kv.page_bytes, place);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

KvPageLayout::KvPageLayout(const KvDescriptor& kv)
    : dtype_(*dtype_from_name(kv.dtype)),
      page_tokens_(kv.page_tokens),
      num_layers_(kv.num_layers),
      key_dim_(kv.key_dim),
      value_dim_(kv.value_dim),
      heads_(heads_of_rank(kv.num_kv_heads, kv.tp_rank, kv.tp_size)),
      keys_by_dimension_(kv.order == kByDimension && kv.value_dim > 0 && !has_row_scale(dtype_)),
      element_bytes_(row_bytes(dtype_, 1)),
      key_row_bytes_(cache_row_bytes(dtype_, key_dim_)),
      value_row_bytes_(value_dim_ > 0 ? cache_row_bytes(dtype_, value_dim_) : 0) {
  using Size = Checked<int64_t>;
  const Size row = Size(key_row_bytes_) + Size(value_row_bytes_);
  layer_bytes_ = (Size(heads_.count) * Size(page_tokens_) * row).get();
  static_cast<void>((Size(layer_bytes_) * Size(num_layers_)).get());
}

KvPageLayout::Rows KvPageLayout::keys(int64_t layer, int32_t head) const {
  const int64_t plane = key_row_bytes_ * page_tokens_;
  Rows rows{.offset = layer * layer_bytes_ + (head - heads_.first) * plane, .dim = key_dim_};
  rows.token_stride = keys_by_dimension_ ? element_bytes_ : key_row_bytes_;
  rows.dim_stride = keys_by_dimension_ ? element_bytes_ * page_tokens_ : element_bytes_;
  return rows;
}

KvPageLayout::Rows KvPageLayout::values(int64_t layer, int32_t head) const {
  const int64_t keys_bytes = heads_.count * key_row_bytes_ * page_tokens_;
  const int64_t plane = value_row_bytes_ * page_tokens_;
  return {.offset = layer * layer_bytes_ + keys_bytes + (head - heads_.first) * plane,
      .dim = value_dim_,
      .token_stride = value_row_bytes_,
      .dim_stride = element_bytes_};
}

void copy_head(const SourcePages& from, const TargetPages& to, int32_t head, int64_t tokens) {
  for (int64_t layer = 0; layer < from.layout.num_layers(); ++layer) {
    copy_rows(from, from.layout.keys(layer, head), to, to.layout.keys(layer, head), tokens);
    const KvPageLayout::Rows values = from.layout.values(layer, head);
    if (values.dim > 0) copy_rows(from, values, to, to.layout.values(layer, head), tokens);
  }
}

}  // namespace cheetah::cluster::transfer
