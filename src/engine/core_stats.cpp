// SPDX-License-Identifier: MIT
// What stats() tells of the state between two steps, and what always holds.
#include <algorithm>

#include "base/error.h"
#include "engine/core.h"

namespace cheetah {
namespace {

double measure_fragmentation(const RequestTable& requests, int64_t page_tokens) {
  int64_t held = 0, stored = 0;  // shared pages count once per sequence
  for (const Sequence* sequence : requests.running()) {
    held += sequence->num_held_pages();
    for (const PageList& list : sequence->lists)
      stored += std::min(sequence->computed, list.size() * page_tokens) - list.first * page_tokens;
  }
  return fragmentation(held, page_tokens, stored);
}

void count_work_left(const Sequence& sequence, int64_t max_context, EngineStats& stats) {
  const RequestState& state = *sequence.request;
  const int64_t pending = sequence.pending();
  if (sequence.num_generated == 0 || pending > 1) stats.prefill_tokens_left += pending;
  if (state.embeds()) return;
  const int64_t left = std::min(
      state.request.max_tokens - sequence.num_generated, max_context + 1 - std::ssize(sequence.tokens));
  stats.decode_tokens_left += std::max<int64_t>(0, left) * (state.forked() ? 1 : state.request.best_of);
}

}  // namespace

EngineStats EngineCore::stats() const {
  EngineStats stats;
  copy_stats(stats);
  return stats;
}

void EngineCore::copy_stats(EngineStats& stats) const {
  const auto& running = requests_.running();
  const auto& waiting = requests_.waiting();
  stats = record_.stats();
  stats.running = std::ssize(running);
  stats.waiting = std::ssize(waiting);
  stats.swapped = std::ranges::count_if(waiting, [](const Sequence* s) { return s->swapped_pages > 0; });
  const auto is_paused = [](const Sequence* s) { return s->request->paused; };
  stats.paused = std::ranges::count_if(running, is_paused) + std::ranges::count_if(waiting, is_paused);
  const PageUse use = pages_.pool().use();
  stats.pages_total = use.total;
  stats.pages_free = use.free;
  stats.pages_cached = use.idle;
  stats.kv_occupancy = static_cast<double>(use.held() - use.idle) / static_cast<double>(use.total);
  stats.fragmentation = measure_fragmentation(requests_, pages_.pool().page_tokens());
  stats.graphs = runner_->graph_use();
  for (const auto* sequences : {&running, &waiting})
    for (const Sequence* sequence : *sequences) count_work_left(*sequence, config_.max_context, stats);
}

void EngineCore::check_invariants() const {
  const PagePool& pool = pages_.pool();
  pool.check_invariants();
  pages_.cache().check_invariants();
  int64_t held = flights_.num_held_pages() + exports_.num_held_pages() + imports_.num_held_pages();
  for (const auto& [id, request] : requests_.all())
    for (const auto& sequence : request->choices) {
      held += sequence->num_held_pages();
      CHEETAH_ASSERT(sequence->status == SequenceStatus::kRunning || sequence->num_held_pages() == 0,
          "only a running sequence holds pages");
    }
  int64_t holders = 0;
  for (PageIndex page = 0; page < pool.num_pages(); ++page) holders += pool.sequences(page);
  CHEETAH_ASSERT(held == holders, "every holder is a sequence, a step, an export, a pin or the cache");
}

}  // namespace cheetah
