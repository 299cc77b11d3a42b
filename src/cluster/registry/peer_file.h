// SPDX-License-Identifier: MIT
#pragma once
// A cluster without services: a file that lists its peers, read again when it changes.
//
//   # role    address          name
//   router    10.0.0.1:7100    front
//   prefill   10.0.0.2:7100    p1
//   decode    10.0.0.3:7100    d1
//   config    policy           policy.toml      (a document, by its path from this file's folder)
//
// Peers become the keys peers/HOST:PORT, documents config/NAME (keys.h). There is nothing shared to write to:
// what a process announces only it sees, and transactions are unavailable.
#include <chrono>
#include <map>
#include <string>
#include <thread>

#include "base/mailbox.h"
#include "base/published.h"
#include "cluster/registry/registry.h"
#include "cluster/registry/registry_view.h"

namespace cheetah::cluster {

// The keys and values that the file stands for. Throws Error naming the line. Revisions are 1.
Registry::Entries read_peer_file(const std::string& path);

class PeerFileRegistry final : public Registry {
 public:
  // Throws Error when the file cannot be used. Later faults of it are a state: the last good map stays.
  explicit PeerFileRegistry(
      std::string path, std::chrono::milliseconds interval = std::chrono::milliseconds(500));
  ~PeerFileRegistry() override;

  void announce(std::string key, std::string value) override;
  void withdraw(std::string key) override;
  void transact(Transaction transaction, TransactionCallback done) override;
  Entries list(std::string_view prefix) const override { return view_.list(prefix); }
  WatchId watch(std::string prefix, WatchCallback callback) override;
  void unwatch(WatchId id) override { view_.unwatch(id); }
  void on_notice(NoticeCallback callback) override { view_.on_notice(std::move(callback)); }
  ServiceState state() const override { return service_.copy(); }
  bool is_shared() const override { return false; }

 private:
  struct Known {
    std::map<std::string, std::string> file, announced;
    Entries entries;  // of both
    int64_t revision = 0;
  };

  void loop();
  void read_again();
  void merge(Known& known);

  const std::string path_;
  const std::chrono::milliseconds interval_;
  RegistryView view_;
  Published<ServiceState> service_;
  Published<Known> known_;
  Mailbox<int> wakes_;
  std::jthread thread_;  // last: ends before the rest
};

}  // namespace cheetah::cluster
