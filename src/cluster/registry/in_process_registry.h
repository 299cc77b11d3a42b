// SPDX-License-Identifier: MIT
#pragma once
// The registry of a cluster whose nodes are threads of one process.
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/published.h"
#include "cluster/registry/registry.h"
#include "cluster/registry/registry_view.h"

namespace cheetah::cluster {

// What the nodes share, and the hand that breaks it: an outage, a node cut off until its lease has run out.
class RegistryStore {
 public:
  using SessionId = int64_t;

  explicit RegistryStore(Duration lease) : lease_(lease) {}

  SessionId join(RegistryView& view);
  void leave(SessionId session);
  void announce(SessionId session, std::string key, std::string value);
  void withdraw(SessionId session, const std::string& key);
  TransactionResult transact(SessionId session, const Transaction& transaction);
  ServiceState state(SessionId session);
  Duration lease() const { return lease_; }

  void set_up(bool up);             // for all nodes
  void cut_off(SessionId session);  // for one, for longer than its lease
  void reconnect(SessionId session);

 private:
  struct Session {
    RegistryView* view = nullptr;
    std::map<std::string, std::string> announced;
    bool cut = false;
    Time since{};
  };
  struct Stored {
    RegistryEntry entry;
    SessionId lease = 0;  // 0: none
  };
  struct State {
    bool up = true;
    int64_t revision = 0;
    SessionId next_session = 1;
    std::map<std::string, Stored> entries;
    std::map<SessionId, Session> sessions;

    bool reaches(const Session& session) const { return up && !session.cut; }
    void write(const std::string& key, const std::string& value, SessionId lease);
    void remove(const std::string& key);
    void settle(SessionId id, Session& session);  // makes its announcements true
    void drop_leased(SessionId id);
    void tell_all(Session& session) const;
  };

  Duration lease_;
  Published<State> state_;
};

class InProcessRegistry final : public Registry {
 public:
  explicit InProcessRegistry(std::shared_ptr<RegistryStore> store);
  ~InProcessRegistry() override;

  void announce(std::string key, std::string value) override;
  void withdraw(std::string key) override;
  void transact(Transaction transaction, TransactionCallback done) override;
  Entries list(std::string_view prefix) const override { return view_.list(prefix); }
  WatchId watch(std::string prefix, WatchCallback callback) override;
  void unwatch(WatchId id) override { view_.unwatch(id); }
  void on_notice(NoticeCallback callback) override { view_.on_notice(std::move(callback)); }
  ServiceState state() const override { return store_->state(session_); }
  bool is_shared() const override { return true; }

  // For tests: what a network would do to this node.
  void cut_off() { store_->cut_off(session_); }
  void reconnect() { store_->reconnect(session_); }

 private:
  std::shared_ptr<RegistryStore> store_;  // with every other node
  RegistryView view_;
  RegistryStore::SessionId session_;
};

}  // namespace cheetah::cluster
