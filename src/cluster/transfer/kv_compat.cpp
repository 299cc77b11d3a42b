// SPDX-License-Identifier: MIT
#include "cluster/transfer/kv_compat.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/format.h"
#include "cluster/transfer/kv_page_layout.h"

namespace cheetah::cluster {
namespace {

using transfer::KvPageLayout;

// What both sides must agree on, and what to call it.
std::string other_shape(const KvDescriptor& from, const KvDescriptor& to) {
  const auto differ = [](const char* what, int64_t a, int64_t b) {
    return format("KV pages: {} {} there and {} here, expected the same", what, a, b);
  };
  if (from.model != to.model)
    return format("KV pages: of model {} there and {} here, expected the same", printable(from.model),
        printable(to.model));
  if (from.num_layers != to.num_layers) return differ("layers", from.num_layers, to.num_layers);
  if (from.num_kv_heads != to.num_kv_heads) return differ("KV heads", from.num_kv_heads, to.num_kv_heads);
  if (from.key_dim != to.key_dim) return differ("numbers a key", from.key_dim, to.key_dim);
  if (from.value_dim != to.value_dim) return differ("numbers per value", from.value_dim, to.value_dim);
  if (from.windows != to.windows)
    return "KV pages: other attention windows there than here, expected the same";
  return {};
}

std::string differences(const KvDescriptor& from, const KvDescriptor& to) {
  std::string text;
  const auto add = [&](const std::string& what) { text += (text.empty() ? "" : ", ") + what; };
  if (from.dtype != to.dtype) add(format("{} to {}", from.dtype, to.dtype));
  if (from.order != to.order) add(format("{} to {}", from.order, to.order));
  if (from.page_tokens != to.page_tokens)
    add(format("pages of {} to {} tokens", from.page_tokens, to.page_tokens));
  if (from.tp_size != to.tp_size || from.tp_rank != to.tp_rank)
    add(format("shard {}/{} to {}/{}", from.tp_rank, from.tp_size, to.tp_rank, to.tp_size));
  return "KV pages change on the way: " + text;
}

}  // namespace

KvComparison match_kv(const KvDescriptor& from, const KvDescriptor& to) {
  if (from == to) return {KvCompatibility::kEqual, {}};
  if (std::string why = other_shape(from, to); !why.empty())
    return {KvCompatibility::kRefuse, std::move(why)};
  for (const KvDescriptor* side : {&from, &to})
    if (std::string why = KvPageLayout::why_not(*side); !why.empty())
      return {KvCompatibility::kRefuse, std::move(why)};
  if (from.page_tokens % to.page_tokens != 0 && to.page_tokens % from.page_tokens != 0)
    return {KvCompatibility::kRefuse,
        format("KV pages: {} tokens there and {} here, expected one to be a multiple of the other",
            from.page_tokens, to.page_tokens)};
  return {KvCompatibility::kTransform, differences(from, to)};
}

KvComparison match_sender(const KvDescriptor& from, const KvDescriptor& to) {
  KvComparison match = match_kv(from, to);
  if (match.verdict != KvCompatibility::kTransform || keeps_all_heads_of(from, to)) return match;
  return {KvCompatibility::kRefuse,
      format("KV pages: shard {}/{} lacks heads of shard {}/{}, expected a sender that keeps them all",
          from.tp_rank, from.tp_size, to.tp_rank, to.tp_size)};
}

KvDescriptor with_dtype(const KvDescriptor& kv, DType dtype) {
  KvDescriptor changed = kv;
  changed.dtype = name_of(dtype);
  changed.page_bytes = 0;  // not known yet: why_not() takes that for right
  if (const std::string why = KvPageLayout::why_not(changed); !why.empty()) throw Error(why);
  const auto groups = std::max<int64_t>(std::ssize(kv.windows), 1);
  const bool by_group = kv.page_bytes * groups == KvPageLayout(kv).place_bytes();
  changed.page_bytes = KvPageLayout(changed).place_bytes() / (by_group ? groups : 1);
  return changed;
}

HeadRange heads_of_rank(int32_t num_kv_heads, int32_t tp_rank, int32_t tp_size) {
  const int64_t heads = num_kv_heads, first = heads * tp_rank / tp_size,
                end = heads * (tp_rank + 1) / tp_size;
  return {static_cast<int32_t>(first), static_cast<int32_t>(std::max<int64_t>(end - first, 1))};
}

bool keeps_all_heads_of(const KvDescriptor& shard, const KvDescriptor& other) {
  const HeadRange kept = heads_of_rank(shard.num_kv_heads, shard.tp_rank, shard.tp_size);
  const HeadRange wanted = heads_of_rank(other.num_kv_heads, other.tp_rank, other.tp_size);
  return kept.first <= wanted.first && wanted.first + wanted.count <= kept.first + kept.count;
}

std::vector<ReshardPiece> plan_reshard(int32_t num_kv_heads, int32_t tp_src, int32_t tp_dst) {
  if (num_kv_heads < 1 || tp_src < 1 || tp_dst < 1)
    throw Error(format("KV shards: {} heads from {} to {} ranks, expected at least one of each", num_kv_heads,
        tp_src, tp_dst));
  std::vector<ReshardPiece> pieces;
  for (int32_t to = 0; to < tp_dst; ++to) {
    const HeadRange wanted = heads_of_rank(num_kv_heads, to, tp_dst);
    for (int32_t head = wanted.first; head < wanted.first + wanted.count; ++head) {
      std::vector<int32_t> keepers;
      for (int32_t rank = 0; rank < tp_src; ++rank) {
        const HeadRange kept = heads_of_rank(num_kv_heads, rank, tp_src);
        if (head >= kept.first && head < kept.first + kept.count) keepers.push_back(rank);
      }
      const int32_t from = keepers[static_cast<size_t>(to) % keepers.size()];
      ReshardPiece* last = pieces.empty() ? nullptr : &pieces.back();
      if (last && last->to_rank == to && last->from_rank == from &&
          last->heads.first + last->heads.count == head)
        ++last->heads.count;
      else
        pieces.push_back({from, to, {head, 1}});
    }
  }
  return pieces;
}

KvTransform::KvTransform(const KvDescriptor& from, const KvDescriptor& to) : from_(from), to_(to) {
  const KvComparison match = match_kv(from, to);
  if (match.verdict == KvCompatibility::kRefuse) throw Error(match.why);
  for (const KvDescriptor* side : {&from, &to})
    if (const std::string why = KvPageLayout::why_not(*side); !why.empty()) throw Error(why);
  if (keeps_all_heads_of(from, to)) {  // nobody else is needed
    pieces_ = {{from.tp_rank, to.tp_rank, heads_of_rank(to.num_kv_heads, to.tp_rank, to.tp_size)}};
    return;
  }
  for (const ReshardPiece& piece : plan_reshard(from.num_kv_heads, from.tp_size, to.tp_size))
    if (piece.from_rank == from.tp_rank && piece.to_rank == to.tp_rank) pieces_.push_back(piece);
}

int64_t KvTransform::from_bytes(int64_t tokens) const {
  return KvPageLayout(from_).place_bytes() * ((tokens + from_.page_tokens - 1) / from_.page_tokens);
}
int64_t KvTransform::to_bytes(int64_t tokens) const {
  return KvPageLayout(to_).place_bytes() * ((tokens + to_.page_tokens - 1) / to_.page_tokens);
}

void KvTransform::apply(
    std::span<const std::byte> from, std::span<std::byte> to, int64_t tokens, int64_t skip) const {
  if (tokens < 0 || tokens % to_.page_tokens != 0 || skip < 0 || skip >= from_.page_tokens ||
      std::ssize(from) != from_bytes(skip + tokens) || std::ssize(to) != to_bytes(tokens))
    throw Error(format(
        "KV pages: {} bytes of {} tokens after {} into {} bytes, expected {} into {} and pages of {} tokens",
        from.size(), tokens, skip, to.size(), from_bytes(skip + std::max<int64_t>(tokens, 0)),
        to_bytes(std::max<int64_t>(tokens, 0)), to_.page_tokens));
  const KvPageLayout source(from_), target(to_);
  for (const ReshardPiece& piece : pieces_)
    for (int32_t head = piece.heads.first; head < piece.heads.first + piece.heads.count; ++head)
      transfer::copy_head({source, from.data(), skip}, {target, to.data()}, head, tokens);
}

}  // namespace cheetah::cluster
