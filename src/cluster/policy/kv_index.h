// SPDX-License-Identifier: MIT
#pragma once
// Which worker's prefix cache holds which blocks, as their KV events tell. A wrong answer costs time, never
// correctness: the worker looks into its own cache again.
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cluster/policy/view.h"

namespace cheetah::cluster {

// A block is named by the hash of all tokens up to its end (and the salt), so equal names mean equal
// prefixes.
using BlockHash = uint64_t;

struct KvChange {
  enum class Kind : uint8_t { kStored, kRemoved, kCleared };
  Kind kind = Kind::kStored;
  BlockHash block = 0;  // kCleared: unused

  bool operator==(const KvChange&) const = default;
};

// Rules: a worker's entries die with its id. Changes are numbered; a gap means that something was missed, so
// what was known before is dropped and only what came since is believed, until the worker has told everything
// again (resync, or a kCleared followed by all it holds). What came twice or late is ignored. So an entry is
// never one that the worker has already said to have removed. Memory is bounded: beyond the limit blocks are
// not recorded.
class KvIndex {
 public:
  explicit KvIndex(int64_t max_blocks = int64_t{4} << 20) : max_blocks_(max_blocks) {}

  // `first` is the number of changes[0]; the next batch starts at first + changes.size(). A new worker starts
  // at 0.
  void apply(WorkerId worker, uint64_t first, std::span<const KvChange> changes);
  // Everything the worker holds, as of just before change number `next`.
  void resync(WorkerId worker, uint64_t next, std::span<const BlockHash> blocks);
  void remove(WorkerId worker);

  // Leading blocks of the chain that the worker is known to hold.
  int64_t matched_blocks(WorkerId worker, std::span<const BlockHash> chain) const;
  // In tokens, workers with none left out, in ascending order of id.
  std::vector<KvMatch> matches(std::span<const BlockHash> chain, int64_t block_tokens) const;

  bool sure(WorkerId worker) const;
  std::vector<WorkerId> unsure() const;  // to be asked for everything, ascending
  int64_t num_blocks() const { return num_blocks_; }
  int64_t num_not_recorded() const { return num_not_recorded_; }
  void check_invariants() const;

 private:
  struct Holder {
    std::unordered_set<BlockHash> blocks;
    uint64_t next = 0;
    bool sure = true;
    // While unsure: the changes since the gap, for a resync that is older than they are.
    std::vector<KvChange> pending;
    uint64_t pending_first = 0;
  };
  void forget_blocks(Holder& holder);
  void store(Holder& holder, BlockHash block);
  void start_over(Holder& holder, uint64_t first);
  void apply_one(Holder& holder, const KvChange& change);

  std::unordered_map<WorkerId, Holder> holders_;
  int64_t max_blocks_;
  int64_t num_blocks_ = 0;
  int64_t num_not_recorded_ = 0;
};

}  // namespace cheetah::cluster
