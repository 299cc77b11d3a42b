// SPDX-License-Identifier: MIT
#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/time.h"
#include "cluster/registry/etcd_messages.h"
#include "cluster/registry/etcd_registry.h"

namespace cheetah::cluster {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

EtcdWatch::EtcdWatch(EtcdConfig config, RegistryView& view, EtcdHealth& health, EtcdSession& session)
    : config_(std::move(config)),
      root_(etcd::root_of(config_.cluster)),
      view_(view),
      health_(health),
      session_(session),
      client_(config_.hosts, config_.login),
      thread_([this] { loop(); }) {}

EtcdWatch::~EtcdWatch() {
  stopping_ = true;
  client_.interrupt();
  wakes_.close();
  thread_.join();
}

void EtcdWatch::loop() {
  milliseconds pause{0};
  while (!stopping_) {
    try {
      follow();
      pause = milliseconds(0);
    } catch (const Error& error) {
      if (health_.is_up(EtcdHealth::kWatch)) pause = milliseconds(0);
      health_.report(EtcdHealth::kWatch, false, error.what());
      look_in_file();
      pause = longer_pause(pause);
      wakes_.wait_until(Clock::now() + pause);
    }
  }
}

// Etcd could never be asked: better than nothing. What it says later replaces it.
void EtcdWatch::look_in_file() {
  if (revision_ != 0 || std::exchange(looked_in_file_, true)) return;
  Registry::Entries known = read_map_file(config_.map_file, config_.cluster, unix_seconds());
  if (!known.empty()) view_.replace_all(std::move(known));
}

// Goes on where it stopped; reads everything only where it knows nothing or etcd no longer has what is
// missing.
void EtcdWatch::follow() {
  if (revision_ == 0) read_everything();
  client_.open_stream("/v3/watch", etcd::watch_request(root_, revision_ + 1), config_.request_limit);
  bool created = false;
  while (!stopping_) {
    const auto line = client_.read_line(created ? config_.silence_limit : config_.request_limit);
    if (!line) {
      if (!created) throw Error("etcd does not begin the watch");
      return;
    }
    apply(*line);
    if (revision_ == 0) {
      client_.close();
      return;
    }
    created = true;
    health_.report(EtcdHealth::kWatch, true, {});
  }
}

void EtcdWatch::read_everything() {
  const Json answer = client_.call("/v3/kv/range", etcd::range_request(root_), config_.request_limit);
  etcd::Range range = etcd::read_range(answer, root_);
  revision_ = range.revision;
  looked_in_file_ = true;
  view_.replace_all(std::move(range.entries));
}

void EtcdWatch::apply(const Json& line) {
  etcd::WatchAnswer answer = etcd::read_watch(line, root_);
  // Compacted away, or the store is younger than what we know: it was restored or has lost its data.
  if (answer.canceled || (answer.created && answer.revision < revision_)) {
    revision_ = 0;
    return;
  }
  for (etcd::Change& change : answer.changes) {
    session_.saw(change.entry.key, change.removed ? std::nullopt : std::optional(change.entry.value));
    revision_ = std::max(revision_, change.entry.revision);
    if (change.removed)
      view_.remove(std::move(change.entry.key), change.entry.revision);
    else
      view_.put(std::move(change.entry));
  }
  // Without changes it is a sign of progress; with some, more of the same revision may follow.
  if (answer.changes.empty() && !answer.created) revision_ = std::max(revision_, answer.revision);
}

}  // namespace cheetah::cluster
