// Pages that go to other engines and pages that come from them.
#include <algorithm>
#include <utility>

#include "base/format.h"
#include "engine/core.h"
#include "engine/kv/chain_hash.h"
#include "kernels/attention/scaled_row.h"

namespace cheetah {

KvFormat EngineCore::kv_format() {
  const PagedKv slot = kv_.slot(0);
  const bool by_dimension = bytes_.on_host() && keys_lie_by_dimension(slot);
  return {.dtype = std::string(name_of(slot.dtype)),
          .order = by_dimension ? "keys_by_dimension" : "keys_by_token",
          .page_tokens = pool_.page_tokens(),
          .num_layers = layout_.slots * layout_.num_groups(),
          .num_kv_heads = slot.kv_heads,
          .key_dim = slot.key_dim,
          .value_dim = slot.values ? slot.value_dim : 0,
          .windows = layout_.windows,
          .page_bytes = bytes_.page_bytes(),
          .num_pages = pool_.num_pages()};
}

EngineCore::ExportNumber EngineCore::open_export(RequestId id, int64_t end_token, ExportSink sink) {
  exports_.push_back({.number = ++num_exports_,
                      .request = id,
                      .end_token = end_token,
                      .sink = std::move(sink),
                      .pages = {.lists = std::vector<PageList>(layout_.windows.size())}});
  return num_exports_;
}

void EngineCore::close_export(ExportNumber number) {
  const auto found = std::ranges::find(exports_, number, &Export::number);
  if (found == exports_.end()) return;
  for (const PageList& list : found->pages.lists)
    list.for_each_held([this](PageIndex page) { pool_.release(page); });
  exports_.erase(found);
}

bool EngineCore::is_exported(const RequestState& request) const {
  return std::ranges::any_of(exports_, [&](const Export& exported) {
    return exported.request == request.request.id && !exported.ended;
  });
}

int64_t EngineCore::end_of(const Export& exported, const RequestState& request) const {
  return std::min(exported.end_token, request.num_prompt()) / pool_.page_tokens();
}

// Holds all pages of groups without a window from the beginning, as a sequence does: the prefix cache counts
// on it. Of the others those that a text going on after the end sees.
void EngineCore::advance_exports(const Sequence& sequence) {
  const RequestState& request = *sequence.request;
  for (Export& exported : exports_) {
    if (exported.request != request.request.id || exported.ended) continue;
    const int64_t end = end_of(exported, request);
    const int64_t ready = std::min(sequence.computed / pool_.page_tokens(), end);
    ExportPages& pages = exported.pages;
    if (ready == pages.ready && ready < end) continue;
    if (!holds_window_before(sequence, end)) {
      exported.ended = true;
      report(exported, {.tokens_ready = pages.ready * pool_.page_tokens(),
                        .failed = true,
                        .why = "the windows before the end of the export are gone"});
      continue;
    }
    for (size_t group = 0; group < pages.lists.size(); ++group) {
      PageList& list = pages.lists[group];
      list.first = first_held(group, end * pool_.page_tokens());
      for (int64_t i = pages.ready; i < ready; ++i) {
        const bool held = i >= list.first;
        list.pages.push_back(held ? sequence.lists[group].at(i) : 0);
        if (held) pool_.hold(list.pages.back());
      }
      list.first = std::min(list.first, ready);
    }
    pages.ready = ready;
    exported.ended = ready == end;
    report(exported, {.tokens_ready = ready * pool_.page_tokens(), .finished = exported.ended});
  }
}

// False: the sequence went on from beyond `end` places and took only what it sees itself.
bool EngineCore::holds_window_before(const Sequence& sequence, int64_t end) const {
  for (size_t group = 0; group < layout_.windows.size(); ++group)
    if (sequence.lists[group].first > first_held(group, end * pool_.page_tokens())) return false;
  return true;
}

void EngineCore::end_exports(RequestId id, std::string_view why) {
  for (Export& exported : exports_)
    if (exported.request == id && !std::exchange(exported.ended, true))
      report(exported, {.tokens_ready = exported.pages.ready * pool_.page_tokens(),
                        .failed = true,
                        .why = std::string(why)});
}

void EngineCore::report(const Export& exported, KvProgress progress) {
  reports_.push_back({exported.number, std::move(progress)});
}

void EngineCore::deliver_reports() {
  for (size_t i = 0; i < reports_.size(); ++i) {
    const auto exported = std::ranges::find(exports_, reports_[i].number, &Export::number);
    if (exported != exports_.end()) exported->sink(exported->pages, reports_[i].progress);
  }
  reports_.clear();
  if (!changes_.empty() && change_sink_) change_sink_(std::exchange(changes_, {}));
}

void EngineCore::watch_cache(ChangeSink sink) {
  change_sink_ = std::move(sink);
  changes_.clear();
  if (change_sink_)
    cache_.set_listener([this](const PrefixChange& change) { changes_.push_back(change); });
  else
    cache_.set_listener(nullptr);
}

int64_t EngineCore::cached_tokens(std::string_view cache_salt, std::span<const int32_t> text) const {
  if (text.empty() || !config_.prefix_cache) return 0;
  const std::string salt = prefix_salt(cache_salt, turns_long(std::ssize(text)));
  return cache_.peek(salt, text.first(text.size() - 1)).ready_tokens;
}

// What is wrong with the pages themselves; empty: nothing.
std::string EngineCore::refuse_import(const KvImport& pages) const {
  const int64_t width = pool_.page_tokens();
  const auto count = std::ssize(pages.tokens);
  if (!config_.prefix_cache) return "pages cannot be taken: the prefix cache is off";
  if (count % width != 0 || pages.first_token % width != 0 || pages.first_token < 0 ||
      pages.first_token >= count || pages.last_token < count || pages.text_tokens < pages.last_token)
    return format("pages cannot be taken: tokens {} to {} of {} are not whole pages of {} tokens",
                  pages.first_token, count, pages.text_tokens, width);
  const int64_t expected = (count - pages.first_token) / width * layout_.num_groups() * bytes_.page_bytes();
  if (std::ssize(pages.bytes) != expected)
    return format("pages cannot be taken: {} bytes came but {} tokens have {}", pages.bytes.size(),
                  count - pages.first_token, expected);
  const auto vocab = model_->traits().vocab;
  if (std::ranges::any_of(pages.tokens, [&](int32_t id) { return id < 0 || id >= vocab; }))
    return "pages cannot be taken: a token is outside the model's vocabulary";
  return "";
}

KvImported EngineCore::import_pages(const KvImport& pages) {
  if (std::string why = refuse_import(pages); !why.empty()) return {false, std::move(why)};
  const std::string salt = prefix_salt(pages.salt, turns_long(pages.text_tokens));
  const PrefixMatch match = cache_.peek(salt, pages.tokens);
  if (match.in_flight()) return {false, "pages cannot be taken: they are being computed here"};
  if (match.stored_tokens < pages.first_token)
    return {false, format("pages cannot be taken: those before token {} are not here", pages.first_token)};
  pin_stored(pages, salt);  // what is there must not make room for what follows it
  std::string why = store_import(pages, salt, match.stored_tokens / pool_.page_tokens());
  pin_stored(pages, salt);
  return {why.empty(), std::move(why)};
}

// `stored`: places that the cache has already.
std::string EngineCore::store_import(const KvImport& pages, const std::string& salt, int64_t stored) {
  const int64_t width = pool_.page_tokens(), end = std::ssize(pages.tokens) / width;
  std::vector<PageList> lists(layout_.windows.size());
  int64_t count = 0;
  for (size_t group = 0; group < lists.size(); ++group) {
    const int64_t first = layout_.windows[group] == 0 ? stored : first_held(group, pages.last_token);
    lists[group].first = std::min(end, std::max(pages.first_token / width, first));
    lists[group].pages.assign(static_cast<size_t>(end), 0);
    count += lists[group].num_held();
  }
  // Whatever runs finds a next page.
  const int64_t reserve = layout_.num_groups() * (std::ssize(running_) + 1);
  if (pool_.num_free() + pool_.use().idle < count + reserve || !make_free(count))
    return format("pages cannot be taken: {} are needed and {} are free", count + reserve,
                  pool_.num_free() + pool_.use().idle);
  for (PageList& list : lists)
    for (int64_t i = list.first; i < end; ++i) list.pages[static_cast<size_t>(i)] = *pool_.allocate();
  load_import(pages, lists);
  cache_.insert(salt, pages.tokens, lists, std::ssize(pages.tokens));
  for (const PageList& list : lists) list.for_each_held([this](PageIndex page) { pool_.release(page); });
  return "";
}

void EngineCore::load_import(const KvImport& pages, std::span<const PageList> lists) {
  const auto size = static_cast<size_t>(bytes_.page_bytes());
  const int64_t first = pages.first_token / pool_.page_tokens();
  for (size_t group = 0; group < lists.size(); ++group)
    for (int64_t i = lists[group].first; i < lists[group].size(); ++i) {
      const size_t at = static_cast<size_t>(i - first) * lists.size() + group;
      bytes_.load(pages.bytes.subspan(at * size, size), lists[group].at(i));
    }
}

// All that the cache has of these tokens; nothing for a request that has its own hold on them.
void EngineCore::pin_stored(const KvImport& pages, const std::string& salt) {
  const auto request = requests_.find(pages.request);
  if (request != requests_.end() && request->second->was_scheduled) return;
  Pin next{.request = pages.request, .pages = {}};
  cache_.list_stored(salt, pages.tokens, next.pages);
  for (const PageIndex page : next.pages) pool_.hold(page);
  const auto known = std::ranges::find(pins_, pages.request, &Pin::request);
  if (known == pins_.end()) return pins_.push_back(std::move(next));
  release_pin(*known);
  *known = std::move(next);
}

void EngineCore::release_pin(Pin& pin) {
  for (const PageIndex page : pin.pages) pool_.release(page);
  pin.pages.clear();
}

void EngineCore::unpin(RequestId id) {
  const auto known = std::ranges::find(pins_, id, &Pin::request);
  if (known == pins_.end()) return;
  release_pin(*known);
  pins_.erase(known);
}

// Nothing can run for want of pages: imported ones are the least loss, they can be computed here.
bool EngineCore::unpin_oldest() {
  if (pins_.empty() || plan_.held_back != HoldReason::kPagesShort) return false;
  unpin(pins_.front().request);
  return true;
}

}  // namespace cheetah
