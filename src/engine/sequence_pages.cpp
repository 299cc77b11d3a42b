// SPDX-License-Identifier: MIT
#include "engine/sequence_pages.h"

#include <algorithm>

#include "base/error.h"
#include "engine/kv/chain_hash.h"
#include "model/rope_scaling.h"

namespace cheetah {

SequencePages::SequencePages(const Setting& setting, KvPool& kv)
    : traits_(setting.traits),
      layout_(setting.layout),
      prefix_cache_(setting.prefix_cache),
      bytes_(kv),
      pool_(setting.num_pages, setting.page_tokens),
      cache_(pool_, setting.layout.windows) {}

bool SequencePages::turns_long(int64_t tokens) const { return rope_changes(traits_, 1, tokens); }

const std::string& SequencePages::salt_of(const Sequence& sequence) {
  return sequence.request->salts[sequence.long_factors];
}

bool SequencePages::reuses(const Sequence& sequence) const {
  return prefix_cache_ && !sequence.request->needs_all_rows();
}

// The last token is computed in any case, for its logits.
std::span<const int32_t> SequencePages::reusable_tokens(const Sequence& sequence) {
  return std::span(sequence.tokens).first(sequence.tokens.size() - 1);
}

std::optional<SequencePages::Admission> SequencePages::admit(Sequence& sequence) {
  if (sequence.swapped_pages > 0) {
    if (!swap_in(sequence)) return std::nullopt;
    return Admission{.ready_tokens = sequence.computed, .swapped_in = true};
  }
  sequence.long_factors = turns_long(std::ssize(sequence.tokens));
  PrefixMatch match;
  if (reuses(sequence)) {
    match = cache_.match(salt_of(sequence), reusable_tokens(sequence), sequence.lists);
    if (match.in_flight()) {
      for (PageList& list : sequence.lists) list.clear();
      return std::nullopt;
    }
  }
  sequence.for_each_held_page([this](PageIndex page) { pool_.hold(page); });
  if (!grow(sequence, pool_.pages_for(std::ssize(sequence.tokens)), 0)) {
    release(sequence);
    return std::nullopt;
  }
  sequence.set_computed(match.ready_tokens);
  if (reuses(sequence)) promise(sequence, match);
  return Admission{.ready_tokens = match.ready_tokens, .looked_up = reuses(sequence)};
}

// Where the cache lacks only windows, the sequence fills them in passing. It adds nothing below: a sequence that
// holds a page of the tree must hold those above, and it has copies of them.
void SequencePages::promise(Sequence& sequence, const PrefixMatch& match) {
  sequence.copies_from.reset();
  if (match.lacks_windows())
    sequence.copies_from = match.ready_tokens / pool_.page_tokens();
  else
    cache_.insert(salt_of(sequence), sequence.tokens, sequence.lists, sequence.computed, writer_of(sequence));
  sequence.in_flight = std::ssize(sequence.tokens);
}

// Pages up to `full` in groups without a window and up to `windowed` in the others. All or none.
bool SequencePages::grow(Sequence& sequence, int64_t full, int64_t windowed) {
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

bool SequencePages::make_free(int64_t count) {
  if (count > pool_.num_free()) cache_.evict(count - pool_.num_free());
  return count <= pool_.num_free();
}

// How many pages of each group a sequence with so many tokens computed has, and from which on.
int64_t SequencePages::first_held(size_t group, int64_t computed) const {
  return first_seen_page(layout_.windows[group], computed, pool_.page_tokens());
}

bool SequencePages::swap_in(Sequence& sequence) {
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

void SequencePages::swap_out(Sequence& sequence) {
  drop_unseen(sequence);  // swap_in() counts on it
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
int64_t SequencePages::num_shared_next(const Sequence& sequence) const {
  const int64_t next = sequence.submitted / pool_.page_tokens();
  return std::ranges::count_if(sequence.lists,
      [&](const PageList& list) { return list.holds(next) && pool_.sequences(list.at(next)) > 1; });
}

// Pages that the next `count` tokens can be written to. False: there are none.
bool SequencePages::prepare(Sequence& sequence, int64_t count) {
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

void SequencePages::give_up(Sequence& sequence, Preemption how) {
  CHEETAH_ASSERT(!sequence.in_step() && sequence.awaited == 0, "what is preempted is in no step");
  publish(sequence);
  withdraw_promise(sequence);
  if (how == Preemption::kSwap)
    swap_out(sequence);
  else
    keep_in_cache(sequence);
  release(sequence);
  if (how == Preemption::kSwap) return;
  sequence.set_computed(0);
  RequestState& request = *sequence.request;
  if (request.needs_all_rows()) {  // collected again from the beginning
    request.prompt_logprobs.clear();
    request.pooled.clear();
  }
}

void SequencePages::finish(Sequence& sequence, std::vector<PageIndex>* parked) {
  publish(sequence);
  withdraw_promise(sequence);
  keep_in_cache(sequence);
  if (parked && sequence.in_step()) {
    sequence.for_each_held_page([&](PageIndex page) { parked->push_back(page); });
    for (PageList& list : sequence.lists) list.clear();
  }
  release(sequence);
  sequence.swapped = {};
  sequence.swapped_pages = 0;
}

void SequencePages::abandon(Sequence& sequence) {
  withdraw_promise(sequence);
  release(sequence);
}

void SequencePages::release(Sequence& sequence) {
  sequence.for_each_held_page([this](PageIndex page) { pool_.release(page); });
  for (PageList& list : sequence.lists) list.clear();
}

void SequencePages::share(const Sequence& from, Sequence& to) {
  to.computed = from.computed;
  to.submitted = from.submitted;
  to.lists = from.lists;
  to.copies_from = from.copies_from;
  to.long_factors = from.long_factors;
  to.for_each_held_page([this](PageIndex page) { pool_.hold(page); });
}

PrefixMatch SequencePages::peek(const Sequence& sequence) const {
  const bool is_long = turns_long(std::ssize(sequence.tokens));
  return cache_.peek(sequence.request->salts[is_long], reusable_tokens(sequence));
}

int64_t SequencePages::cached_tokens(std::string_view cache_salt, std::span<const int32_t> text) const {
  if (text.empty() || !prefix_cache_) return 0;
  const std::string salt = prefix_salt(cache_salt, turns_long(std::ssize(text)));
  return cache_.peek(salt, text.first(text.size() - 1)).ready_tokens;
}

// The computed tokens may begin another text. Another choice's hold on a copy would pin what is put below
// pages that it does not hold.
void SequencePages::keep_in_cache(Sequence& sequence) {
  if (!prefix_cache_ || sequence.num_held_pages() == 0) return;
  if (sequence.copies_from)
    for (const PageList& list : sequence.lists)
      for (int64_t i = std::max(*sequence.copies_from, list.first); i < list.size(); ++i)
        if (pool_.sequences(list.at(i)) > 1) return;
  cache_.insert(salt_of(sequence), std::span(sequence.tokens).first(static_cast<size_t>(sequence.computed)),
      sequence.lists, sequence.computed);
}

void SequencePages::withdraw_promise(Sequence& sequence) {
  if (std::exchange(sequence.in_flight, 0) > 0)
    cache_.abandon(salt_of(sequence), sequence.tokens, writer_of(sequence));
}

void SequencePages::publish(Sequence& sequence) {
  if (sequence.in_flight == 0) return;
  cache_.publish(salt_of(sequence), sequence.tokens, sequence.lists, sequence.computed, writer_of(sequence));
  if (sequence.computed >= sequence.in_flight) sequence.in_flight = 0;
}

// Pages before a group's window are never read again by this sequence.
void SequencePages::drop_unseen(Sequence& sequence) {
  for (size_t group = 0; group < sequence.lists.size(); ++group) {
    PageList& list = sequence.lists[group];
    for (const int64_t first = first_held(group, sequence.computed); list.first < first; ++list.first)
      pool_.release(list.at(list.first));
  }
}

}  // namespace cheetah
