// SPDX-License-Identifier: MIT
#pragma once
// The registry in etcd 3.4 or later, through its JSON gateway.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/mailbox.h"
#include "base/published.h"
#include "cluster/registry/etcd_client.h"
#include "cluster/registry/map_file.h"
#include "cluster/registry/registry.h"
#include "cluster/registry/registry_view.h"

namespace cheetah::cluster {

struct EtcdConfig {
  std::vector<ServiceHost> hosts;
  ServiceLogin login;
  std::string cluster = "default";
  int64_t lease_s = 10;
  std::chrono::milliseconds request_limit{2000};
  // A watch that is silent for so long is begun again: its connection may be dead without knowing.
  std::chrono::milliseconds silence_limit{20'000};
  std::string map_file =
      {};  // what was known last, for a start while etcd is away (map_file.h); may be empty
};

// How long to wait before etcd is asked again, after another failure.
inline std::chrono::milliseconds longer_pause(std::chrono::milliseconds last) {
  constexpr std::chrono::milliseconds kFirst{50}, kLongest{1000};
  return std::clamp(2 * last, kFirst, kLongest);
}

// Whether both conversations go well, told as one state.
class EtcdHealth {
 public:
  enum Part : uint8_t { kSession, kWatch };

  explicit EtcdHealth(RegistryView& view);
  void report(Part part, bool up, const std::string& why);
  bool is_up(Part part) const;
  ServiceState state() const;

 private:
  struct Parts {
    bool up[2] = {false, false};
    std::string why[2] = {"not connected yet", "not connected yet"};
    ServiceState whole;
  };
  RegistryView& view_;
  mutable Published<Parts> parts_;
};

// Holds this process's lease and writes: one thread, which makes true what was announced, again and again
// until it is. Requests go one after another.
class EtcdSession {
 public:
  EtcdSession(EtcdConfig config, RegistryView& view, EtcdHealth& health);
  ~EtcdSession();

  void announce(std::string key, std::string value);
  void withdraw(std::string key);
  void transact(Transaction transaction, Registry::TransactionCallback done);
  // What the watch has seen; nullopt: removed. A key of ours that says something else is written again.
  void saw(std::string key, std::optional<std::string> value);

 private:
  struct Seen {
    std::string key;
    std::optional<std::string> value;
  };
  struct Announce {
    std::string key, value;
  };
  struct Withdraw {
    std::string key;
  };
  struct Transact {
    Transaction transaction;
    Registry::TransactionCallback done;
  };
  using Command = std::variant<Announce, Withdraw, Transact, Seen>;
  struct Announced {
    std::string value;
    bool written = false;  // under the present lease
  };
  struct HeldLease {
    int64_t id = 0;
    Time valid_until{};  // by our clock, from when the request was sent: etcd's runs out later
    Time next_keep_alive{};
  };

  void loop();
  void run_once();
  void take_commands();
  void take(Announce command);
  void take(Withdraw command);
  void take(Transact command);
  void take(const Seen& command);
  void begin_lease();
  void keep_lease();
  void lose_lease(const std::string& why);
  void settle();
  void transact_all();
  void refuse_all(const std::string& why);
  void leave();
  void sleep_until(Time until);
  Json call(std::string_view path, const Json& request);

  const EtcdConfig config_;
  const std::string root_;
  RegistryView& view_;
  EtcdHealth& health_;
  EtcdClient client_;
  std::map<std::string, Announced> announced_;
  std::set<std::string> withdrawn_;  // still to be removed
  std::deque<Transact> transactions_;
  std::optional<HeldLease> lease_;
  std::optional<int64_t> lost_lease_;  // may still be alive over there, and hold keys of ours
  std::chrono::milliseconds pause_{0};
  std::atomic<bool> stopping_{false};
  Mailbox<Command> inbox_;
  std::jthread thread_;  // last: ends before the rest
};

// Follows every change under the cluster's root: one thread.
class EtcdWatch {
 public:
  EtcdWatch(EtcdConfig config, RegistryView& view, EtcdHealth& health, EtcdSession& session);
  ~EtcdWatch();

 private:
  void loop();
  void follow();  // until the watch ends
  void read_everything();
  void apply(const Json& line);
  void look_in_file();

  const EtcdConfig config_;
  const std::string root_;
  RegistryView& view_;
  EtcdHealth& health_;
  EtcdSession& session_;
  EtcdClient client_;
  int64_t revision_ = 0;  // everything up to here is known; 0: nothing is
  bool looked_in_file_ = false;
  std::atomic<bool> stopping_{false};
  Mailbox<int> wakes_;
  std::jthread thread_;  // last: ends before the rest
};

class EtcdRegistry final : public Registry {
 public:
  explicit EtcdRegistry(const EtcdConfig& config);
  ~EtcdRegistry() override;
  EtcdRegistry(const EtcdRegistry&) = delete;
  EtcdRegistry& operator=(const EtcdRegistry&) = delete;

  void announce(std::string key, std::string value) override;
  void withdraw(std::string key) override { session_.withdraw(std::move(key)); }
  void transact(Transaction transaction, TransactionCallback done) override;
  Entries list(std::string_view prefix) const override { return view_.list(prefix); }
  WatchId watch(std::string prefix, WatchCallback callback) override;
  void unwatch(WatchId id) override { view_.unwatch(id); }
  void on_notice(NoticeCallback callback) override { view_.on_notice(std::move(callback)); }
  ServiceState state() const override { return health_.state(); }
  bool is_shared() const override { return true; }

 private:
  RegistryView view_;
  EtcdHealth health_;
  EtcdSession session_;
  EtcdWatch watch_;
  std::optional<MapFileWriter> map_file_;
  std::optional<WatchId> map_changes_;
};

}  // namespace cheetah::cluster
