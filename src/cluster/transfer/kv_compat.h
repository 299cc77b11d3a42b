// SPDX-License-Identifier: MIT
#pragma once
// Whether the pages of one worker can be used by another, and how they change on the way.
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "cluster/types.h"
#include "tensor/dtype.h"

namespace cheetah::cluster {

enum class KvCompatibility : uint8_t { kEqual, kTransform, kRefuse };
struct KvComparison {
  KvCompatibility verdict = KvCompatibility::kRefuse;
  std::string why;  // one sentence when not equal
};
// Equal: bytes as they are. Transform: the same numbers in another shard, page size, element order or dtype
// (KvTransform). Refuse: another model or shape, or a pair without a transform.
KvComparison match_kv(const KvDescriptor& from, const KvDescriptor& to);
// The same for one worker that sends all by itself: refused too where its shard lacks heads of the other's.
KvComparison match_sender(const KvDescriptor& from, const KvDescriptor& to);

// What travels when numbers are made smaller for the way: the same pages with another dtype. Throws Error for
// a dtype that a cache cannot have.
KvDescriptor with_dtype(const KvDescriptor& kv, DType dtype);

// The heads of the model that a rank keeps. Where there are more ranks than heads, ranks share heads.
struct HeadRange {
  int32_t first = 0, count = 0;
  bool operator==(const HeadRange&) const = default;
};
HeadRange heads_of_rank(int32_t num_kv_heads, int32_t tp_rank, int32_t tp_size);
bool keeps_all_heads_of(const KvDescriptor& shard, const KvDescriptor& other);

// One piece of a change from tp_src to tp_dst shards: these heads of the model, from a source rank to a
// destination rank. Every head of every destination rank comes from exactly one piece; where several source
// ranks keep the same head, destinations take turns. MLA keeps one latent for all heads: one head here.
struct ReshardPiece {
  int32_t from_rank = 0, to_rank = 0;
  HeadRange heads;
  bool operator==(const ReshardPiece&) const = default;
};
std::vector<ReshardPiece> plan_reshard(int32_t num_kv_heads, int32_t tp_src, int32_t tp_dst);

// Copies pages of one shard into pages of another: all heads wanted where the source keeps them, else those
// that plan_reshard() gives this pair, in the destination's order, page size and dtype. Numbers of the same
// dtype stay the same bits.
class KvTransform {
 public:
  KvTransform(const KvDescriptor& from, const KvDescriptor& to);  // throws Error with match_kv()'s sentence

  // Bytes of `tokens` on either side, all groups of layers, in whole pages.
  int64_t from_bytes(int64_t tokens) const;
  int64_t to_bytes(int64_t tokens) const;
  // Pages one after another. `to` holds `tokens` in whole pages; `from` begins `skip` tokens earlier, less
  // than a page of it. Heads of other ranks are left as they are in `to`.
  void apply(
      std::span<const std::byte> from, std::span<std::byte> to, int64_t tokens, int64_t skip = 0) const;

 private:
  KvDescriptor from_, to_;
  std::vector<ReshardPiece> pieces_;
};

}  // namespace cheetah::cluster
