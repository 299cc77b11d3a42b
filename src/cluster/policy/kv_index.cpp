// SPDX-License-Identifier: MIT
#include "cluster/policy/kv_index.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace cheetah::cluster {
namespace {

constexpr size_t kMaxPending = 65'536;

}  // namespace

void KvIndex::forget_blocks(Holder& holder) {
  num_blocks_ -= static_cast<int64_t>(holder.blocks.size());
  holder.blocks = {};
}

void KvIndex::store(Holder& holder, BlockHash block) {
  if (num_blocks_ >= max_blocks_) {
    ++num_not_recorded_;
    return;
  }
  if (holder.blocks.insert(block).second) ++num_blocks_;
}

void KvIndex::apply_one(Holder& holder, const KvChange& change) {
  switch (change.kind) {
    case KvChange::Kind::kStored:
      store(holder, change.block);
      break;
    case KvChange::Kind::kRemoved:
      num_blocks_ -= static_cast<int64_t>(holder.blocks.erase(change.block));
      break;
    case KvChange::Kind::kCleared:  // it holds nothing: that is certain again
      forget_blocks(holder);
      holder.sure = true;
      holder.pending = {};
      break;
  }
}

void KvIndex::start_over(Holder& holder, uint64_t first) {
  forget_blocks(holder);
  holder.sure = false;
  holder.next = holder.pending_first = first;
  holder.pending.clear();
}

void KvIndex::apply(WorkerId worker, uint64_t first, std::span<const KvChange> changes) {
  Holder& holder = holders_[worker];
  if (first > holder.next) start_over(holder, first);
  const uint64_t known = holder.next - first;  // of these changes
  if (known >= changes.size()) return;
  changes = changes.subspan(known);
  holder.next += changes.size();
  for (const KvChange& change : changes) {
    apply_one(holder, change);
    if (!holder.sure) holder.pending.push_back(change);
  }
  if (holder.pending.size() > kMaxPending) {
    holder.pending = {};
    holder.pending_first = holder.next;
  }
}

void KvIndex::resync(WorkerId worker, uint64_t next, std::span<const BlockHash> blocks) {
  Holder& holder = holders_[worker];
  // Older than what is known, and what came since is known no more: the next one will do.
  if (next < (holder.sure ? holder.next : holder.pending_first)) return;
  forget_blocks(holder);
  for (const BlockHash block : blocks) store(holder, block);
  holder.next = next;
  holder.sure = true;
  const std::vector<KvChange> pending = std::exchange(holder.pending, {});
  apply(worker, holder.pending_first, pending);
}

void KvIndex::remove(WorkerId worker) {
  const auto found = holders_.find(worker);
  if (found == holders_.end()) return;
  forget_blocks(found->second);
  holders_.erase(found);
}

int64_t KvIndex::matched_blocks(WorkerId worker, std::span<const BlockHash> chain) const {
  const auto found = holders_.find(worker);
  if (found == holders_.end()) return 0;
  const auto& blocks = found->second.blocks;
  const auto missing = std::ranges::find_if(chain, [&](BlockHash block) { return !blocks.contains(block); });
  return missing - chain.begin();
}

std::vector<KvMatch> KvIndex::matches(std::span<const BlockHash> chain, int64_t block_tokens) const {
  std::vector<KvMatch> found;
  for (const auto& [worker, holder] : holders_)
    if (const int64_t blocks = matched_blocks(worker, chain))
      found.push_back({.worker = worker, .tokens = blocks * block_tokens});
  std::ranges::sort(found, {}, &KvMatch::worker);
  return found;
}

bool KvIndex::sure(WorkerId worker) const {
  const auto found = holders_.find(worker);
  return found != holders_.end() && found->second.sure;
}

std::vector<WorkerId> KvIndex::unsure() const {
  std::vector<WorkerId> workers;
  for (const auto& [worker, holder] : holders_)
    if (!holder.sure) workers.push_back(worker);
  std::ranges::sort(workers);
  return workers;
}

void KvIndex::check_invariants() const {
  int64_t blocks = 0;
  for (const auto& [worker, holder] : holders_) {
    blocks += static_cast<int64_t>(holder.blocks.size());
    CHEETAH_ASSERT(!holder.sure || holder.pending.empty(), "changes are kept for a resync only");
  }
  CHEETAH_ASSERT(blocks == num_blocks_ && blocks <= max_blocks_, "the index counts what it holds");
}

}  // namespace cheetah::cluster
