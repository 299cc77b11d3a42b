// SPDX-License-Identifier: MIT
#include "engine/engine_export.h"

#include <algorithm>
#include <utility>

namespace cheetah {

void Engine::Export::open(RequestId id, int64_t end_token, KvProgressSink progress) {
  const auto add = [shared = shared_, progress = std::move(progress)](
                       const Exports::Pages& pages, const KvProgress& news) {
    const bool is_closed = shared->entry.with([&](Entry& entry) {
      entry.pages = pages;
      return entry.closed;
    });
    if (!is_closed) progress(news);
  };
  shared_->engine.post_question([shared = shared_, id, end_token, add](EngineCore& core) {
    shared->number = core.open_export(id, end_token, add);
  });
}

void Engine::Export::close() {
  const bool is_last = shared_->entry.with(
      [](Entry& entry) { return !std::exchange(entry.closed, true) && entry.readers == 0; });
  if (is_last) give_back(shared_);
}

void Engine::Export::read(
    int64_t first_token, int64_t end_token, std::span<std::byte> to, std::function<void(bool)> done) {
  const Range range{first_token, end_token, to};
  auto pages = begin_read(range);
  if (!pages) return done(false);
  Engine::Thread& engine = shared_->engine;
  if (engine.core().page_bytes().on_host()) {
    copy(engine.kv_format(), *pages, range, [&](PageIndex page, std::span<std::byte> bytes) {
      engine.core().page_bytes().copy_out(page, bytes);
    });
    end_read(shared_);
    return done(true);
  }
  engine.post_question(
      [shared = shared_, pages = std::move(*pages), range, done = std::move(done)](EngineCore& core) {
        copy(shared->engine.kv_format(), pages, range,
            [&](PageIndex page, std::span<std::byte> bytes) { core.page_bytes().save(page, bytes); });
        end_read(shared);
        done(true);
      });
}

std::optional<Exports::Pages> Engine::Export::begin_read(const Range& range) {
  const KvFormat& format = shared_->engine.kv_format();
  const int64_t width = format.page_tokens;
  return shared_->entry.with([&](Entry& entry) -> std::optional<Exports::Pages> {
    if (entry.closed || range.first_token < 0 || range.first_token % width != 0 ||
        range.end_token % width != 0 || range.end_token < range.first_token ||
        range.end_token > entry.pages.ready * width ||
        std::ssize(range.to) != format.bytes_for(range.end_token - range.first_token))
      return std::nullopt;
    ++entry.readers;
    return entry.pages;
  });
}

void Engine::Export::end_read(const SharedEntry& shared) {
  if (shared->entry.with([](Entry& entry) { return --entry.readers == 0 && entry.closed; }))
    give_back(shared);
}

void Engine::Export::give_back(const SharedEntry& shared) {
  shared->engine.post_question([shared](EngineCore& core) { core.close_export(shared->number); });
}

template <class Save>
void Engine::Export::copy(
    const KvFormat& format, const Exports::Pages& pages, const Range& range, const Save& save) {
  const auto size = static_cast<size_t>(format.page_bytes);
  auto to = range.to;
  for (int64_t i = range.first_token / format.page_tokens; i < range.end_token / format.page_tokens; ++i)
    for (const PageList& list : pages.lists) {
      if (list.holds(i))
        save(list.at(i), to.first(size));
      else
        std::ranges::fill(to.first(size), std::byte{0});
      to = to.subspan(size);
    }
}

}  // namespace cheetah
