// SPDX-License-Identifier: MIT
#include <algorithm>
#include <map>
#include <span>

#include "model/tokenizer/bpe.h"

namespace cheetah {

// Quadratic, but for a word it beats every queue: the ranks of all neighbours stand in one small array.
void merge_short(const MergeTable& merges, std::vector<int32_t>& symbols, size_t first) {
  size_t count = symbols.size() - first;
  if (count < 2) return;
  int32_t* at = symbols.data() + first;
  std::vector<MergeTable::Merge> heap_pairs;
  std::array<MergeTable::Merge, 128> stack_pairs;
  MergeTable::Merge* pairs = stack_pairs.data();
  if (count > stack_pairs.size()) {
    heap_pairs.resize(count);
    pairs = heap_pairs.data();
  }
  for (size_t i = 0; i + 1 < count; ++i) pairs[i] = merges.find(at[i], at[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i)
      if (pairs[i].rank < pairs[best].rank) best = i;
    if (pairs[best].rank == MergeTable::kNone) break;
    at[best] = pairs[best].result;
    std::copy(at + best + 2, at + count, at + best + 1);
    if (best + 2 < count) std::copy(pairs + best + 2, pairs + count - 1, pairs + best + 1);
    --count;
    if (best > 0) pairs[best - 1] = merges.find(at[best - 1], at[best]);
    if (best + 1 < count) pairs[best] = merges.find(at[best], at[best + 1]);
  }
  symbols.resize(first + count);
}

namespace {

// Positions where one rank may apply, smallest first.
struct Bucket {
  std::vector<int32_t> positions;
  size_t next = 0;
  bool sorted = true;

  void push(int32_t position) {
    if (!positions.empty() && position < positions.back()) sorted = false;
    positions.push_back(position);
  }
  int32_t pop() {
    if (!sorted) std::sort(positions.begin() + static_cast<std::ptrdiff_t>(next), positions.end());
    sorted = true;
    return positions[next++];
  }
};

class LongWord {
 public:
  LongWord(const MergeTable& merges, std::span<const int32_t> symbols)
      : merges_(merges), nodes_(symbols.size()) {
    const auto count = static_cast<int32_t>(symbols.size());
    for (int32_t i = 0; i < count; ++i)
      nodes_[static_cast<size_t>(i)] = {symbols[static_cast<size_t>(i)], i - 1, i + 1 < count ? i + 1 : kEnd};
    for (int32_t i = 0; i + 1 < count; ++i) offer(i);
  }

  void merge_all() {
    while (!buckets_.empty()) {
      const auto lowest = buckets_.begin();
      if (lowest->second.next == lowest->second.positions.size()) {
        buckets_.erase(lowest);
        continue;
      }
      merge_at(lowest->second.pop(), lowest->first);
    }
  }

  size_t write(int32_t* out) const {
    size_t count = 0;
    for (const Node& node : nodes_)
      if (node.id != kGone) out[count++] = node.id;
    return count;
  }

 private:
  static constexpr int32_t kEnd = -1, kGone = -1;
  struct Node {
    int32_t id, previous, next;
  };
  Node& node(int32_t position) { return nodes_[static_cast<size_t>(position)]; }

  void offer(int32_t position) {
    const Node& left = node(position);
    if (left.next == kEnd) return;
    const MergeTable::Merge merge = merges_.find(left.id, node(left.next).id);
    if (merge.rank != MergeTable::kNone) buckets_[merge.rank].push(position);
  }

  void merge_at(int32_t position, uint32_t rank) {
    Node& left = node(position);
    if (left.id == kGone || left.next == kEnd) return;
    Node& right = node(left.next);
    const MergeTable::Merge merge = merges_.find(left.id, right.id);
    if (merge.rank != rank) return;  // a neighbour changed since this was offered
    left.id = merge.result;
    left.next = right.next;
    right.id = kGone;
    if (left.next != kEnd) node(left.next).previous = position;
    if (left.previous != kEnd) offer(left.previous);
    offer(position);
  }

  const MergeTable& merges_;
  std::vector<Node> nodes_;
  std::map<uint32_t, Bucket> buckets_;  // by rank
};

}  // namespace

// One queue per rank instead of one heap over all pairs: megabytes of one letter then merge in linear time.
void merge_long(const MergeTable& merges, std::vector<int32_t>& symbols, size_t first) {
  LongWord word(merges, std::span(symbols).subspan(first));
  word.merge_all();
  symbols.resize(first + word.write(symbols.data() + first));
}

}  // namespace cheetah
