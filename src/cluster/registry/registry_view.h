// SPDX-License-Identifier: MIT
#pragma once
// The side of a registry that its users see: the known map, the watches on it, and the thread they run on.
#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/mailbox.h"
#include "base/published.h"
#include "cluster/registry/known_map.h"

namespace cheetah::cluster {

// Any thread may call any function; each takes effect on the view's own thread, in the order of the calls.
class RegistryView {
 public:
  explicit RegistryView(Duration grace);
  ~RegistryView();

  // From the service's side.
  void put(RegistryEntry entry);
  void remove(std::string key, int64_t revision);
  void replace_all(Registry::Entries entries);
  void notice(RegistryNotice notice);
  void run(std::function<void()> callback);  // the answer of a transaction

  // From the user's.
  Registry::WatchId watch(std::string prefix, Registry::WatchCallback callback);
  void unwatch(Registry::WatchId id);
  void on_notice(Registry::NoticeCallback callback);
  Registry::Entries list(std::string_view prefix) const;

 private:
  struct Watch {
    std::string prefix;
    Registry::WatchCallback callback;
  };
  // Adds to `events` what has changed.
  using Change = std::function<void(KnownMap& map, std::vector<RegistryEvent>& events)>;

  void change(Change change);
  void begin(Registry::WatchId id, Watch watch);
  void tell(const std::vector<RegistryEvent>& events);
  void publish(const std::vector<RegistryEvent>& events);
  void loop();

  std::atomic<int64_t> next_watch_{1};
  mutable Published<Registry::Entries> published_;
  Mailbox<std::function<void()>> inbox_;
  // The thread's own.
  KnownMap map_;
  std::map<Registry::WatchId, Watch> watches_;
  Registry::NoticeCallback on_notice_;
  std::jthread thread_;
};

}  // namespace cheetah::cluster
