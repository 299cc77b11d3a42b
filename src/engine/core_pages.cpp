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

// Gives the sequence what the cache has of its tokens and, in groups without a window, pages for the rest;
// windowed groups get theirs chunk by chunk. False: it has to wait after all.
bool EngineCore::admit(Sequence& sequence, EngineTime now) {
  if (sequence.swapped_pages > 0) return swap_in(sequence);
  sequence.long_factors = turns_long(std::ssize(sequence.tokens));
  PrefixMatch match;
  if (reuses(sequence)) {
    match = cache_.match(salt_of(sequence), reusable_tokens(sequence), sequence.lists);
    if (match.in_flight()) {
      for (PageList& list : sequence.lists) list.clear();
      return false;
    }
  }
  sequence.for_each_held_page([this](PageIndex page) { pool_.hold(page); });
  if (!grow(sequence, pool_.pages_for(std::ssize(sequence.tokens)), 0)) {
    release_pages(sequence);
    return false;
  }
  sequence.set_computed(match.ready_tokens);
  if (reuses(sequence)) promise(sequence, match);
  if (sequence.num_generated == sequence.num_resumed) {
    const int64_t cached = std::min(match.ready_tokens, sequence.request->num_prompt());
    sequence.request->cached_tokens = cached;
    stats_.cached_prompt_tokens += static_cast<uint64_t>(cached);
  }
  unpin(sequence.request->request.id);
  note(DecisionKind::kAdmitted, sequence, now, {.cached = match.ready_tokens});
  return true;
}

// Where the cache lacks only windows, the sequence fills them in passing. It adds nothing below: whoever
// holds a page of the tree must hold those above, and it has copies of them.
void EngineCore::promise(Sequence& sequence, const PrefixMatch& match) {
  stats_.prefix_queries += sequence.tokens.size();
  stats_.prefix_hits += static_cast<uint64_t>(match.ready_tokens);
  sequence.copies_from.reset();
  if (match.lacks_windows())
    sequence.copies_from = match.ready_tokens / pool_.page_tokens();
  else
    cache_.insert(salt_of(sequence), sequence.tokens, sequence.lists, sequence.computed, writer_of(sequence));
  sequence.in_flight = std::ssize(sequence.tokens);
}

// Pages up to `full` in groups without a window and up to `windowed` in the others. All or none.
bool EngineCore::grow(Sequence& sequence, int64_t full, int64_t windowed) {
  const auto missing = [&](size_t group) {
    const int64_t wanted = layout_.windows[group] == 0 ? full : windowed;
    return std::max<int64_t>(0, wanted - sequence.lists[group].size());
  };
  int64_t count = 0;
  for (size_t group = 0; group < sequence.lists.size(); ++group) count += missing(group);
  if (!make_free(count)) return false;
  for (size_t group = 0; group < sequence.lists.size(); ++group)
    for (int64_t i = missing(group); i > 0; --i) sequence.lists[group].pages.push_back(*pool_.allocate());
  return true;
}

bool EngineCore::make_free(int64_t count) {
  if (count > pool_.num_free()) cache_.evict(count - pool_.num_free());
  return count <= pool_.num_free();
}

// How many pages of each group a sequence with so many tokens computed has, and from which on.
int64_t EngineCore::first_held(size_t group, int64_t computed) const {
  return first_seen_page(layout_.windows[group], computed, pool_.page_tokens());
}

bool EngineCore::swap_in(Sequence& sequence) {
  const int64_t stored = pool_.pages_for(sequence.computed);
  for (size_t group = 0; group < sequence.lists.size(); ++group) {
    PageList& list = sequence.lists[group];
    list.first = first_held(group, sequence.computed);
    list.pages.assign(static_cast<size_t>(list.first), 0);
  }
  if (!grow(sequence, std::max(stored, pool_.pages_for(std::ssize(sequence.tokens))), stored)) {
    for (PageList& list : sequence.lists) list.clear();
    return false;
  }
  auto bytes = std::span<const std::byte>(sequence.swapped);
  const auto size = static_cast<size_t>(bytes_.page_bytes());
  for (const PageList& list : sequence.lists)
    for (int64_t i = list.first; i < stored; ++i, bytes = bytes.subspan(size))
      bytes_.load(bytes.first(size), list.at(i));
  sequence.swapped = {};
  sequence.swapped_pages = 0;
  sequence.set_computed(sequence.computed);
  return true;
}

void EngineCore::swap_out(Sequence& sequence) {
  drop_unseen_pages(sequence);  // swap_in() counts on it
  const int64_t stored = pool_.pages_for(sequence.computed);
  for (const PageList& list : sequence.lists) sequence.swapped_pages += stored - list.first;
  const auto size = static_cast<size_t>(bytes_.page_bytes());
  sequence.swapped.resize(static_cast<size_t>(sequence.swapped_pages) * size);
  auto bytes = std::span(sequence.swapped);
  for (const PageList& list : sequence.lists)
    for (int64_t i = list.first; i < stored; ++i, bytes = bytes.subspan(size))
      bytes_.save(list.at(i), bytes.first(size));
}

// A page that another choice holds too is about to be written.
int64_t EngineCore::num_shared_next(const Sequence& sequence) const {
  const int64_t next = sequence.submitted / pool_.page_tokens();
  return std::ranges::count_if(sequence.lists, [&](const PageList& list) {
    return list.holds(next) && pool_.sequences(list.at(next)) > 1;
  });
}

// Pages that the next `count` tokens can be written to. False: there are none.
bool EngineCore::prepare_pages(Sequence& sequence, int64_t count) {
  if (const int64_t shared = num_shared_next(sequence); shared > 0) {
    if (!make_free(shared)) return false;
    const int64_t next = sequence.submitted / pool_.page_tokens();
    for (PageList& list : sequence.lists) {
      if (!list.holds(next) || pool_.sequences(list.at(next)) < 2) continue;
      PageIndex& page = list.pages[static_cast<size_t>(next)];
      const PageIndex before = std::exchange(page, pool_.make_writable(page)->page);
      bytes_.copy(before, page);
    }
  }
  const int64_t wanted = pool_.pages_for(sequence.submitted + count);
  return grow(sequence, wanted, wanted);
}

void EngineCore::preempt(Sequence& sequence, Preemption how) {
  CHEETAH_ASSERT(!sequence.in_step() && sequence.awaited == 0, "what is preempted is in no step");
  publish(sequence);
  withdraw_promise(sequence);
  const bool swaps = how == Preemption::kSwap;
  if (swaps)
    swap_out(sequence);
  else
    keep_in_cache(sequence);
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
  for (PageList& list : sequence.lists) list.clear();
}

// The computed tokens may begin another text. Another choice's hold on a copy would pin what is put below
// pages that it does not hold.
void EngineCore::keep_in_cache(Sequence& sequence) {
  if (!config_.prefix_cache || sequence.num_held_pages() == 0) return;
  if (sequence.copies_from)
    for (const PageList& list : sequence.lists)
      for (int64_t i = std::max(*sequence.copies_from, list.first); i < list.size(); ++i)
        if (pool_.sequences(list.at(i)) > 1) return;
  cache_.insert(salt_of(sequence), std::span(sequence.tokens).first(static_cast<size_t>(sequence.computed)),
                sequence.lists, sequence.computed);
}

void EngineCore::withdraw_promise(Sequence& sequence) {
  if (std::exchange(sequence.in_flight, 0) > 0)
    cache_.abandon(salt_of(sequence), sequence.tokens, writer_of(sequence));
}

void EngineCore::publish(Sequence& sequence) {
  if (sequence.in_flight == 0) return;
  cache_.publish(salt_of(sequence), sequence.tokens, sequence.lists, sequence.computed, writer_of(sequence));
  if (sequence.computed >= sequence.in_flight) sequence.in_flight = 0;
}

// Pages before a group's window are never read again by this sequence.
void EngineCore::drop_unseen_pages(Sequence& sequence) {
  for (size_t group = 0; group < sequence.lists.size(); ++group) {
    PageList& list = sequence.lists[group];
    for (const int64_t first = first_held(group, sequence.computed); list.first < first; ++list.first)
      pool_.release(list.at(list.first));
  }
}

}  // namespace cheetah
