// SPDX-License-Identifier: MIT
#include "engine/imports.h"

#include <algorithm>

#include "base/format.h"
#include "engine/kv/chain_hash.h"

namespace cheetah {

// What is wrong with the pages themselves; "": nothing.
std::string Imports::refuse(const KvImport& pages) const {
  const int64_t width = pages_.pool().page_tokens();
  const auto count = std::ssize(pages.tokens);
  if (!takes_) return "pages cannot be taken: the prefix cache is off";
  if (count % width != 0 || pages.first_token % width != 0 || pages.first_token < 0 ||
      pages.first_token >= count || pages.last_token < count || pages.text_tokens < pages.last_token)
    return format("pages cannot be taken: tokens {} to {} of {} are not whole pages of {} tokens",
        pages.first_token, count, pages.text_tokens, width);
  const int64_t expected =
      (count - pages.first_token) / width * pages_.layout().num_groups() * pages_.bytes().page_bytes();
  if (std::ssize(pages.bytes) != expected)
    return format("pages cannot be taken: {} bytes came but {} tokens have {}", pages.bytes.size(),
        count - pages.first_token, expected);
  if (std::ranges::any_of(pages.tokens, [&](int32_t id) { return id < 0 || id >= vocab_; }))
    return "pages cannot be taken: a token is outside the model's vocabulary";
  return "";
}

KvImported Imports::take(const KvImport& pages, const Load& load) {
  if (std::string why = refuse(pages); !why.empty()) return {false, std::move(why)};
  const std::string salt = prefix_salt(pages.salt, pages_.turns_long(pages.text_tokens));
  const PrefixMatch match = pages_.cache().peek(salt, pages.tokens);
  if (match.in_flight()) return {false, "pages cannot be taken: they are being computed here"};
  if (match.stored_tokens < pages.first_token)
    return {false, format("pages cannot be taken: those before token {} are not here", pages.first_token)};
  if (load.pins) pin(pages, salt);  // what is there must not make room for what follows it
  std::string why = store(pages, salt, match.stored_tokens / pages_.pool().page_tokens(), load.num_running);
  if (load.pins) pin(pages, salt);
  return {why.empty(), std::move(why)};
}

// `stored`: places that the cache has already.
std::string Imports::store(
    const KvImport& pages, const std::string& salt, int64_t stored, int64_t num_running) {
  const KvLayout& layout = pages_.layout();
  PagePool& pool = pages_.pool();
  const int64_t width = pool.page_tokens(), end = std::ssize(pages.tokens) / width;
  std::vector<PageList> lists(layout.windows.size());
  int64_t count = 0;
  for (size_t group = 0; group < lists.size(); ++group) {
    const int64_t first = layout.windows[group] == 0 ? stored : pages_.first_held(group, pages.last_token);
    lists[group].first = std::min(end, std::max(pages.first_token / width, first));
    lists[group].pages.assign(static_cast<size_t>(end), 0);
    count += lists[group].num_held();
  }
  const int64_t reserve =
      layout.num_groups() * (num_running + 1);  // every running sequence finds its next page
  if (pages_.num_available() < count + reserve || !pages_.make_free(count))
    return format(
        "pages cannot be taken: {} are needed and {} are free", count + reserve, pages_.num_available());
  for (PageList& list : lists)
    for (int64_t i = list.first; i < end; ++i) list.pages[static_cast<size_t>(i)] = *pool.allocate();
  load(pages, lists);
  pages_.cache().insert(salt, pages.tokens, lists, std::ssize(pages.tokens));
  for (const PageList& list : lists) list.for_each_held([&](PageIndex page) { pool.release(page); });
  return "";
}

void Imports::load(const KvImport& pages, std::span<const PageList> lists) {
  const auto size = static_cast<size_t>(pages_.bytes().page_bytes());
  const int64_t first = pages.first_token / pages_.pool().page_tokens();
  for (size_t group = 0; group < lists.size(); ++group)
    for (int64_t i = lists[group].first; i < lists[group].size(); ++i) {
      const size_t at = static_cast<size_t>(i - first) * lists.size() + group;
      pages_.bytes().load(pages.bytes.subspan(at * size, size), lists[group].at(i));
    }
}

// All that the cache has of these tokens, instead of what was pinned for the request before.
void Imports::pin(const KvImport& pages, const std::string& salt) {
  Pin next{.request = pages.request, .pages = {}};
  pages_.cache().list_stored(salt, pages.tokens, next.pages);
  for (const PageIndex page : next.pages) pages_.pool().hold(page);
  const auto known = std::ranges::find(pins_, pages.request, &Pin::request);
  if (known == pins_.end()) return pins_.push_back(std::move(next));
  release(*known);
  *known = std::move(next);
}

void Imports::release(Pin& pin) {
  for (const PageIndex page : pin.pages) pages_.pool().release(page);
  pin.pages.clear();
}

void Imports::unpin(RequestId request) {
  const auto known = std::ranges::find(pins_, request, &Pin::request);
  if (known == pins_.end()) return;
  release(*known);
  pins_.erase(known);
}

bool Imports::unpin_oldest() {
  if (pins_.empty()) return false;
  unpin(pins_.front().request);
  return true;
}

int64_t Imports::num_held_pages() const {
  int64_t held = 0;
  for (const Pin& pin : pins_) held += std::ssize(pin.pages);
  return held;
}

}  // namespace cheetah
