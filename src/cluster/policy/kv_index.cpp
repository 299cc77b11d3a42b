#include "cluster/policy/kv_index.h"

#include <algorithm>

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
    case KvChange::Kind::kCleared:
      forget_blocks(holder);
      break;
  }
}

// A second gap makes the older changes useless, and so would a backlog without end.
void KvIndex::keep(Holder& holder, uint64_t first, std::span<const KvChange> changes) {
  const uint64_t end = holder.pending_first + holder.pending.size();
  const bool follows = !holder.pending.empty() && first <= end && first >= holder.pending_first;
  if (!follows || holder.pending.size() + changes.size() > kMaxPending) {
    if (!holder.pending.empty() && first < holder.pending_first) return;  // late
    holder.pending.clear();
    holder.pending_first = first;
  } else if (end - first >= changes.size()) {
    return;
  } else {
    changes = changes.subspan(end - first);
  }
  if (changes.size() <= kMaxPending)
    holder.pending.insert(holder.pending.end(), changes.begin(), changes.end());
}

void KvIndex::apply(WorkerId worker, uint64_t first, std::span<const KvChange> changes) {
  Holder& holder = holders_[worker];
  if (!holder.sure) return keep(holder, first, changes);
  if (first > holder.next) {
    forget_blocks(holder);
    holder.sure = false;
    return keep(holder, first, changes);
  }
  const uint64_t known = holder.next - first;  // of these changes
  if (known >= changes.size()) return;
  for (const KvChange& change : changes.subspan(known)) apply_one(holder, change);
  holder.next = first + changes.size();
}

void KvIndex::resync(WorkerId worker, uint64_t next, std::span<const BlockHash> blocks) {
  Holder& holder = holders_[worker];
  if (holder.sure && next < holder.next) return;  // older than what is known
  forget_blocks(holder);
  for (const BlockHash block : blocks) store(holder, block);
  holder.next = next;
  holder.sure = true;
  const std::vector<KvChange> pending = std::move(holder.pending);
  holder.pending = {};
  if (!pending.empty()) apply(worker, holder.pending_first, pending);
}

void KvIndex::remove(WorkerId worker) {
  const auto found = holders_.find(worker);
  if (found == holders_.end()) return;
  forget_blocks(found->second);
  holders_.erase(found);
}

int64_t KvIndex::matched_blocks(WorkerId worker, std::span<const BlockHash> chain) const {
  const auto found = holders_.find(worker);
  if (found == holders_.end() || !found->second.sure) return 0;
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
    CHEETAH_ASSERT(holder.sure || holder.blocks.empty(), "nothing is believed of an unsure worker");
  }
  CHEETAH_ASSERT(blocks == num_blocks_ && blocks <= max_blocks_, "the index counts what it holds");
}

}  // namespace cheetah::cluster
