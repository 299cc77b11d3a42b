// SPDX-License-Identifier: MIT
#include "cluster/transfer/page_slab.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/format.h"
#include "cluster/transfer/kv_page_layout.h"

namespace cheetah::cluster {
namespace {

using transfer::KvPageLayout;

// As another shard of the same model.
KvDescriptor as_shard(KvDescriptor kv, int32_t rank, int32_t size) {
  kv.tp_rank = rank;
  kv.tp_size = size;
  kv.page_bytes = 0;
  if (const std::string why = KvPageLayout::why_not(kv); !why.empty()) throw Error(why);
  kv.page_bytes = KvPageLayout(kv).place_bytes();
  return kv;
}

}  // namespace

KvDescriptor travelling(const KvDescriptor& mine, const KvDescriptor& wanted) {
  if (mine == wanted) return wanted;
  const KvComparison match = match_kv(mine, wanted);
  if (match.verdict == KvCompatibility::kRefuse) throw Error(match.why);
  const bool whole = keeps_all_heads_of(mine, wanted);
  const KvDescriptor shard = whole ? wanted : as_shard(wanted, mine.tp_rank, mine.tp_size);
  const KvDescriptor narrow = with_dtype(shard, *dtype_from_name(mine.dtype));
  return narrow.page_bytes < shard.page_bytes ? narrow : shard;
}

SlabWriter::SlabWriter(const KvDescriptor& mine, const KvDescriptor& wanted)
    : mine_(mine), wire_(travelling(mine, wanted)) {
  if (mine_ != wire_) transform_.emplace(mine_, wire_);
}

SlabWriter::Source SlabWriter::source_of(const Label& label) const {
  const int64_t page = mine_.page_tokens, first = label.first_token / page,
                end = (label.first_token + label.num_tokens + page - 1) / page;
  return {first * page, end * page, (end - first) * mine_.page_bytes};
}

int64_t SlabWriter::slab_bytes(int64_t num_tokens) const {
  return cluster::slab_bytes(num_tokens / wire_.page_tokens, wire_.page_bytes);
}

void SlabWriter::write_header(const Label& label, std::span<std::byte> slab) const {
  SlabHeader header;
  header.uid = static_cast<uint64_t>(label.key.uid);
  header.attempt = static_cast<uint32_t>(label.key.attempt);
  header.index = label.index;
  header.first_token = label.first_token;
  header.page_tokens = wire_.page_tokens;
  header.num_pages = static_cast<int32_t>(label.num_tokens / wire_.page_tokens);
  header.page_bytes = wire_.page_bytes;
  std::copy_n(wire_.dtype.begin(), std::min(wire_.dtype.size(), sizeof header.dtype), header.dtype);
  header.tp_rank = static_cast<uint16_t>(wire_.tp_rank);
  header.tp_size = static_cast<uint16_t>(wire_.tp_size);
  std::memcpy(slab.data(), &header, sizeof header);
}

void SlabWriter::write(
    const Label& label, std::span<const std::byte> source, std::span<std::byte> slab) const {
  write_header(label, slab);
  transform_->apply(source, body(slab), label.num_tokens, label.first_token % mine_.page_tokens);
}

KvDescriptor SlabReader::wire_of(const SlabHeader& header) const {
  const std::string_view name(header.dtype, strnlen(header.dtype, sizeof header.dtype));
  const auto dtype = dtype_from_name(name);
  if (!dtype) throw Error(format("slab: numbers of the dtype {}, expected one of a cache", printable(name)));
  const bool same_shard = header.tp_rank == mine_.tp_rank && header.tp_size == mine_.tp_size;
  const KvDescriptor shard = same_shard ? mine_ : as_shard(mine_, header.tp_rank, header.tp_size);
  KvDescriptor wire = name == mine_.dtype ? shard : with_dtype(shard, *dtype);
  if (header.page_tokens != wire.page_tokens || header.page_bytes != wire.page_bytes)
    throw Error(format("slab: pages of {} tokens and {} bytes, expected {} and {}", header.page_tokens,
        header.page_bytes, wire.page_tokens, wire.page_bytes));
  return wire;
}

bool SlabReader::as_they_are(const SlabHeader& header) const { return wire_of(header) == mine_; }

int64_t SlabReader::page_bytes(const SlabView& slab) const {
  return slab.header.num_pages * mine_.page_bytes;
}

void SlabReader::read(const SlabView& slab, std::span<std::byte> pages) const {
  const KvTransform transform(wire_of(slab.header), mine_);
  transform.apply(slab.pages, pages, int64_t{slab.header.num_pages} * slab.header.page_tokens);
}

}  // namespace cheetah::cluster
