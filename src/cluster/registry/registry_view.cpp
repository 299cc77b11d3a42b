// SPDX-License-Identifier: MIT
#include "cluster/registry/registry_view.h"

#include <future>
#include <memory>

#include "base/text.h"

namespace cheetah::cluster {

using Clock = std::chrono::steady_clock;

RegistryView::RegistryView(Duration grace) : map_(grace), thread_([this] { loop(); }) {}

RegistryView::~RegistryView() {
  inbox_.close();
  thread_.join();
}

void RegistryView::put(RegistryEntry entry) {
  change([entry = std::move(entry)](KnownMap& map, auto& events) { map.put(entry, events); });
}

void RegistryView::remove(std::string key, int64_t revision) {
  change(
      [key = std::move(key), revision](KnownMap& map, auto& events) { map.remove(key, revision, events); });
}

void RegistryView::replace_all(Registry::Entries entries) {
  change([entries = std::move(entries)](
             KnownMap& map, auto& events) { map.replace_all(entries, Clock::now(), events); });
}

void RegistryView::notice(RegistryNotice notice) {
  inbox_.post([this, notice = std::move(notice)] {
    if (on_notice_) on_notice_(notice);
  });
}

void RegistryView::run(std::function<void()> callback) { inbox_.post(std::move(callback)); }

Registry::WatchId RegistryView::watch(std::string prefix, Registry::WatchCallback callback) {
  const auto id = Registry::WatchId(next_watch_++);
  inbox_.post([this, id, watch = Watch{std::move(prefix), std::move(callback)}] { begin(id, watch); });
  return id;
}

void RegistryView::unwatch(Registry::WatchId id) {
  if (std::this_thread::get_id() == thread_.get_id()) {
    watches_.erase(id);
    return;
  }
  // Owned by this call and by the message, whichever ends last.
  const auto gone = std::make_shared<std::promise<void>>();
  if (inbox_.post([this, id, gone] {
        watches_.erase(id);
        gone->set_value();
      }))
    gone->get_future().wait();
}

void RegistryView::on_notice(Registry::NoticeCallback callback) {
  inbox_.post([this, callback = std::move(callback)] { on_notice_ = callback; });
}

Registry::Entries RegistryView::list(std::string_view prefix) const {
  return published_.with([&](const Registry::Entries& entries) { return under(entries, prefix); });
}

void RegistryView::change(Change change) {
  inbox_.post([this, change = std::move(change)] {
    std::vector<RegistryEvent> events;
    change(map_, events);
    publish(events);
    tell(events);
  });
}

// A watch that begins late hears what is known, and that this was all, by itself.
void RegistryView::begin(Registry::WatchId id, Watch watch) {
  const Registry::WatchCallback callback = watch.callback;
  const Registry::Entries known = under(map_.entries(), watch.prefix);
  watches_.emplace(id, std::move(watch));
  for (const auto& [key, entry] : known)
    if (watches_.contains(id)) callback({RegistryEvent::Kind::kPut, entry});
  if (map_.synced() && watches_.contains(id)) callback({RegistryEvent::Kind::kSynced, {}});
}

void RegistryView::publish(const std::vector<RegistryEvent>& events) {
  published_.with([&](Registry::Entries& entries) {
    for (const RegistryEvent& event : events) {
      if (event.kind == RegistryEvent::Kind::kPut) entries[event.entry.key] = event.entry;
      if (event.kind == RegistryEvent::Kind::kRemove) entries.erase(event.entry.key);
    }
  });
}

// A callback may end its own watch or another one's.
void RegistryView::tell(const std::vector<RegistryEvent>& events) {
  for (const RegistryEvent& event : events) {
    std::vector<Registry::WatchId> listening;
    for (const auto& [id, watch] : watches_)
      if (event.kind == RegistryEvent::Kind::kSynced || starts_with(event.entry.key, watch.prefix))
        listening.push_back(id);
    for (const auto id : listening) {
      const auto watch = watches_.find(id);
      if (watch == watches_.end()) continue;
      const Registry::WatchCallback callback = watch->second.callback;  // outlives its watch
      callback(event);
    }
  }
}

void RegistryView::loop() {
  std::vector<std::function<void()>> tasks;
  while (true) {
    const auto next = map_.next_expiry();
    const bool arrived = next ? inbox_.wait_until(*next) : inbox_.wait();
    if (!arrived && inbox_.closed()) return;
    inbox_.take_all(tasks);
    for (const auto& task : tasks) task();
    std::vector<RegistryEvent> events;
    map_.expire(Clock::now(), events);
    publish(events);
    tell(events);
  }
}

}  // namespace cheetah::cluster
