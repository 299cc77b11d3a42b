// SPDX-License-Identifier: MIT
#include "model/first_touch.h"

#include <algorithm>

#include "kernels/attention/scaled_row.h"

namespace cheetah {
namespace {

constexpr int64_t kAheadTokens = 2048;
constexpr int64_t kHugePage = int64_t{2} << 20, kPage = 4096;
constexpr int64_t kTokensPerTouch = 64;  // of a step: long ones go through the cache faster

// One more than the last page this step wrote.
int64_t written_pages(const ForwardBatch& batch, int64_t page_tokens) {
  int32_t last = -1;
  for (const auto sequences : {batch.sequences, batch.further_groups})
    for (const AttentionSequence& sequence : sequences)
      for (int64_t at = sequence.context_tokens - sequence.query_count; at < sequence.context_tokens;
           at += page_tokens - at % page_tokens)
        last = std::max(last, sequence.pages[static_cast<size_t>(at / page_tokens)]);
  return last + 1;
}

}  // namespace

void FirstTouch::run(const ForwardBatch& batch, KvPool& pool, ThreadPool& threads) {
  const int64_t num_slots = pool.layout().slots;
  if (num_slots == 0) return;
  if (cache_ != pool.slot(0).keys) {
    cache_ = pool.slot(0).keys;
    touched_.assign(static_cast<size_t>(2 * num_slots), 0);
  }
  const int64_t wanted = written_pages(batch, pool.page_tokens()) + pool.pages_for(kAheadTokens);
  const int64_t rounds = 1 + std::ssize(batch.tokens) / kTokensPerTouch;
  const Limits limits{.wanted_pages = std::min(pool.num_pages(), wanted),
      .all_pages = pool.num_pages(),
      .num_regions = static_cast<size_t>(threads.num_threads() * rounds)};
  regions_.clear();
  for (int64_t i = 0; i < num_slots; ++i) {
    const PagedKv slot = pool.slot(i);
    const int64_t rows = slot.kv_heads * slot.page_tokens;
    int64_t* const touched = touched_.data() + 2 * i;
    add_plane(slot.keys, rows * cache_row_bytes(slot.dtype, slot.key_dim), limits, touched[0]);
    if (!slot.values) continue;
    add_plane(slot.values, rows * cache_row_bytes(slot.dtype, slot.value_dim), limits, touched[1]);
  }
  threads.parallel_for(std::ssize(regions_), 1, [this](int64_t begin, int64_t, int) {
    const Region& region = regions_[static_cast<size_t>(begin)];
    for (std::byte* at = region.begin; at < region.end; at += kPage) {
      volatile std::byte& byte = *at;
      byte = byte;  // a write: reading alone would map the page of zeros all share
    }
  });
}

// The rest of the huge page after what has been touched, where more than that is wanted.
void FirstTouch::add_plane(std::byte* data, int64_t page_bytes, const Limits& limits, int64_t& touched) {
  if (regions_.size() >= limits.num_regions || touched >= limits.wanted_pages * page_bytes) return;
  const auto into_page = static_cast<int64_t>(reinterpret_cast<uintptr_t>(data + touched) % kHugePage);
  const int64_t end = std::min(limits.all_pages * page_bytes, touched + kHugePage - into_page);
  regions_.push_back({data + touched, data + end});
  touched = end;
}

}  // namespace cheetah
