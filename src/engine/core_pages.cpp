// Which pages a sequence has: admission, growth, preemption and what stays for others.
#include <algorithm>

#include "base/error.h"
#include "engine/core.h"
#include "model/rope_scaling.h"

namespace cheetah {

bool EngineCore::turns_long(int64_t tokens) const { return rope_changes(model_->traits(), 1, tokens); }

const std::string& EngineCore::salt_of(const Sequence& sequence) const {
  return sequence.request->salts[sequence.long_factors];
}

bool EngineCore::reuses(const Sequence& sequence) const {
  return config_.prefix_cache && !sequence.request->needs_all_rows();
}

// The last token is computed in any case, for its logits.
std::span<const int32_t> EngineCore::reusable_tokens(const Sequence& sequence) const {
  return std::span(sequence.tokens).first(sequence.tokens.size() - 1);
}

// Gives the sequence pages for all of its tokens. False: it has to wait after all.
bool EngineCore::admit(Sequence& sequence, EngineTime now) {
  if (sequence.swapped_pages > 0) return swap_in(sequence);
  sequence.long_factors = turns_long(std::ssize(sequence.tokens));
  PrefixMatch match;
  if (reuses(sequence)) {
    match = cache_.match(salt_of(sequence), reusable_tokens(sequence), sequence.pages);
    if (match.in_flight()) {
      sequence.pages.clear();
      return false;
    }
  }
  for (const PageIndex page : sequence.pages) pool_.hold(page);
  if (!take_pages(pool_.pages_for(std::ssize(sequence.tokens)) - std::ssize(sequence.pages),
                  sequence.pages)) {
    release_pages(sequence);
    return false;
  }
  sequence.set_computed(match.ready_tokens);
  if (reuses(sequence)) {
    stats_.prefix_queries += sequence.tokens.size();
    stats_.prefix_hits += static_cast<uint64_t>(match.ready_tokens);
    cache_.insert(salt_of(sequence), sequence.tokens, sequence.pages, sequence.computed);
    sequence.in_flight = std::ssize(sequence.tokens);
  }
  if (sequence.num_generated == 0) {
    sequence.request->cached_tokens = match.ready_tokens;
    stats_.cached_prompt_tokens += static_cast<uint64_t>(match.ready_tokens);
  }
  note(DecisionKind::kAdmitted, sequence, now, {.cached = match.ready_tokens});
  return true;
}

bool EngineCore::swap_in(Sequence& sequence) {
  if (!take_pages(std::max(sequence.swapped_pages, pool_.pages_for(std::ssize(sequence.tokens))),
                  sequence.pages))
    return false;
  const auto size = static_cast<size_t>(bytes_.page_bytes());
  for (int64_t i = 0; i < sequence.swapped_pages; ++i)
    bytes_.load(std::span(sequence.swapped).subspan(static_cast<size_t>(i) * size, size),
                sequence.pages[static_cast<size_t>(i)]);
  sequence.swapped = {};
  sequence.swapped_pages = 0;
  sequence.set_computed(sequence.computed);
  return true;
}

// All or none.
bool EngineCore::take_pages(int64_t count, std::vector<PageIndex>& pages) {
  if (count > pool_.num_free()) cache_.evict(count - pool_.num_free());
  if (count > pool_.num_free()) return false;
  for (int64_t i = 0; i < count; ++i) pages.push_back(*pool_.allocate());
  return true;
}

// Pages that the next `count` tokens can be written to. False: there are none.
bool EngineCore::prepare_pages(Sequence& sequence, int64_t count) {
  const auto next = static_cast<size_t>(sequence.submitted / pool_.page_tokens());
  const int64_t missing = pool_.pages_for(sequence.submitted + count) - std::ssize(sequence.pages);
  const bool shared = next < sequence.pages.size() && pool_.sequences(sequence.pages[next]) > 1;
  if (shared && pool_.num_free() == 0) cache_.evict(1);
  if (shared) {
    const PageIndex before = sequence.pages[next];
    const auto writable = pool_.make_writable(before);
    if (!writable) return false;
    if (writable->copy_needed) bytes_.copy(before, writable->page);
    sequence.pages[next] = writable->page;
  }
  return missing <= 0 || take_pages(missing, sequence.pages);
}

void EngineCore::preempt(Sequence& sequence, Preemption how) {
  CHEETAH_ASSERT(!sequence.in_step() && sequence.awaited == 0, "what is preempted is in no step");
  publish(sequence);
  withdraw_promise(sequence);
  const bool swaps = how == Preemption::kSwap && sequence.num_dropped() == 0;
  if (swaps) {
    sequence.swapped_pages = pool_.pages_for(sequence.computed);
    const auto size = static_cast<size_t>(bytes_.page_bytes());
    sequence.swapped.resize(static_cast<size_t>(sequence.swapped_pages) * size);
    for (int64_t i = 0; i < sequence.swapped_pages; ++i)
      bytes_.save(sequence.pages[static_cast<size_t>(i)],
                  std::span(sequence.swapped).subspan(static_cast<size_t>(i) * size, size));
  } else {
    keep_in_cache(sequence);
  }
  release_pages(sequence);
  enqueue(sequence);
  if (swaps) return;
  sequence.set_computed(0);
  RequestState& request = *sequence.request;
  if (request.needs_all_rows()) {  // collected again from the beginning
    request.prompt_logprobs.clear();
    request.pooled.clear();
  }
}

// A step in flight may still write to them: then they are free when it is done.
void EngineCore::release_pages(Sequence& sequence) {
  Flight* const flight = sequence.in_step() ? newest_flight() : nullptr;
  sequence.for_each_held_page([&](PageIndex page) {
    if (flight)
      flight->pages.push_back(page);
    else
      pool_.release(page);
  });
  sequence.pages.clear();
  sequence.dropped_begin = sequence.dropped_end = 0;
}

// The computed tokens may begin another text.
void EngineCore::keep_in_cache(Sequence& sequence) {
  if (!config_.prefix_cache || sequence.num_dropped() > 0 || sequence.pages.empty()) return;
  cache_.insert(salt_of(sequence), std::span(sequence.tokens).first(static_cast<size_t>(sequence.computed)),
                sequence.pages, sequence.computed);
}

void EngineCore::withdraw_promise(Sequence& sequence) {
  if (std::exchange(sequence.in_flight, 0) > 0)
    cache_.abandon(salt_of(sequence), sequence.tokens, sequence.pages);
}

void EngineCore::publish(Sequence& sequence) {
  if (sequence.in_flight == 0) return;
  cache_.publish(salt_of(sequence), sequence.tokens, sequence.pages, sequence.computed);
  if (sequence.computed >= sequence.in_flight) sequence.in_flight = 0;
}

// With a window in every layer, pages before the widest one are never read again. The first ones, as long as
// the prefix cache or another choice has them too, stay held: what is above a held page must be.
void EngineCore::drop_unseen_pages(Sequence& sequence) {
  if (window_ == 0) return;
  const int64_t unseen =
      std::min((sequence.computed + 1 - window_) / pool_.page_tokens(), std::ssize(sequence.pages));
  while (sequence.dropped_end < unseen) {
    const PageIndex page = sequence.pages[static_cast<size_t>(sequence.dropped_end)];
    const bool shared = pool_.holders(page) > 1;
    if (shared && sequence.num_dropped() > 0) return;
    ++sequence.dropped_end;
    if (shared)
      sequence.dropped_begin = sequence.dropped_end;
    else
      pool_.release(page);
  }
}

}  // namespace cheetah
