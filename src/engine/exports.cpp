// SPDX-License-Identifier: MIT
#include "engine/exports.h"

#include <algorithm>
#include <utility>

namespace cheetah {

Exports::Number Exports::open(RequestId request, int64_t end_token, Sink sink) {
  exports_.push_back({.number = ++num_opened_,
      .request = request,
      .end_token = end_token,
      .sink = std::move(sink),
      .pages = {.lists = std::vector<PageList>(pages_.layout().windows.size())}});
  return num_opened_;
}

void Exports::close(Number number) {
  const auto found = std::ranges::find(exports_, number, &Export::number);
  if (found == exports_.end()) return;
  for (const PageList& list : found->pages.lists)
    list.for_each_held([this](PageIndex page) { pages_.pool().release(page); });
  exports_.erase(found);
}

bool Exports::has(const RequestState& request) const {
  return std::ranges::any_of(exports_,
      [&](const Export& exported) { return exported.request == request.request.id && !exported.ended; });
}

void Exports::advance(const Sequence& sequence) {
  for (Export& exported : exports_)
    if (exported.request == sequence.request->request.id && !exported.ended) advance(exported, sequence);
}

// Holds all pages of groups without a window from the beginning, as a sequence does: the prefix cache relies
// on it. Of the others it holds what a text that goes on after the end reads.
void Exports::advance(Export& exported, const Sequence& sequence) {
  const int64_t end = std::min(exported.end_token, sequence.request->num_prompt()) / page_tokens();
  const int64_t ready = std::min(sequence.computed / page_tokens(), end);
  Pages& pages = exported.pages;
  if (ready == pages.ready && ready < end) return;
  if (!holds_window_before(sequence, end)) {
    exported.ended = true;
    return report(exported, {.tokens_ready = pages.ready * page_tokens(),
                                .failed = true,
                                .why = "the windows before the end of the export are gone"});
  }
  for (size_t group = 0; group < pages.lists.size(); ++group) {
    PageList& list = pages.lists[group];
    list.first = pages_.first_held(group, end * page_tokens());
    for (int64_t i = pages.ready; i < ready; ++i) {
      const bool held = i >= list.first;
      list.pages.push_back(held ? sequence.lists[group].at(i) : 0);
      if (held) pages_.pool().hold(list.pages.back());
    }
    list.first = std::min(list.first, ready);
  }
  pages.ready = ready;
  exported.ended = ready == end;
  report(exported, {.tokens_ready = ready * page_tokens(), .finished = exported.ended});
}

// False: the sequence went on from beyond `end` places and took only what it reads itself.
bool Exports::holds_window_before(const Sequence& sequence, int64_t end) const {
  for (size_t group = 0; group < sequence.lists.size(); ++group)
    if (sequence.lists[group].first > pages_.first_held(group, end * page_tokens())) return false;
  return true;
}

void Exports::end(RequestId request, std::string_view why) {
  for (Export& exported : exports_)
    if (exported.request == request && !std::exchange(exported.ended, true))
      report(exported,
          {.tokens_ready = exported.pages.ready * page_tokens(), .failed = true, .why = std::string(why)});
}

void Exports::report(const Export& exported, KvProgress progress) {
  reports_.push_back({exported.number, std::move(progress)});
}

void Exports::deliver() {
  for (size_t i = 0; i < reports_.size(); ++i) {
    const auto exported = std::ranges::find(exports_, reports_[i].number, &Export::number);
    if (exported != exports_.end()) exported->sink(exported->pages, reports_[i].progress);
  }
  reports_.clear();
}

int64_t Exports::num_held_pages() const {
  int64_t held = 0;
  for (const Export& exported : exports_)
    for (const PageList& list : exported.pages.lists) held += list.num_held();
  return held;
}

}  // namespace cheetah
