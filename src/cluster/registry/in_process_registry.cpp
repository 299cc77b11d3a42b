// SPDX-License-Identifier: MIT
#include "cluster/registry/in_process_registry.h"

#include <utility>
#include <vector>

namespace cheetah::cluster {

using Clock = std::chrono::steady_clock;
using Notice = RegistryNotice::Kind;

// All changes of one transaction have one revision: the caller counts it up.
// The lock is held while views are told, which only posts: so all of them hear of changes in one order.
void RegistryStore::State::write(const std::string& key, const std::string& value, SessionId lease) {
  Stored& stored = entries[key];
  stored.entry = {key, value, revision};
  stored.lease = lease;
  for (auto& [id, session] : sessions)
    if (reaches(session)) session.view->put(stored.entry);
}

void RegistryStore::State::remove(const std::string& key) {
  if (entries.erase(key) == 0) return;
  for (auto& [id, session] : sessions)
    if (reaches(session)) session.view->remove(key, revision);
}

void RegistryStore::State::settle(SessionId id, Session& session) {
  for (const auto& [key, value] : session.announced) {
    const auto stored = entries.find(key);
    if (stored != entries.end() && stored->second.lease == id && stored->second.entry.value == value)
      continue;
    ++revision;
    write(key, value, id);
  }
}

void RegistryStore::State::drop_leased(SessionId id) {
  std::vector<std::string> keys;
  for (const auto& [key, stored] : entries)
    if (stored.lease == id) keys.push_back(key);
  ++revision;
  for (const std::string& key : keys) remove(key);
}

void RegistryStore::State::tell_all(Session& session) const {
  Registry::Entries all;
  for (const auto& [key, stored] : entries) all.emplace(key, stored.entry);
  session.view->replace_all(std::move(all));
}

RegistryStore::SessionId RegistryStore::join(RegistryView& view) {
  return state_.with([&](State& state) {
    const SessionId id = state.next_session++;
    Session& session = state.sessions[id] = Session{&view, {}, false, Clock::now()};
    if (state.up) {
      session.view->notice({Notice::kUp, {}});
      state.tell_all(session);
    }
    return id;
  });
}

// Told while the store is down, it is heard when the store is back.
void RegistryStore::leave(SessionId id) {
  state_.with([&](State& state) {
    state.sessions.erase(id);
    if (state.up) state.drop_leased(id);
  });
}

void RegistryStore::announce(SessionId id, std::string key, std::string value) {
  state_.with([&](State& state) {
    Session& session = state.sessions.at(id);
    session.announced[std::move(key)] = std::move(value);
    if (state.reaches(session)) state.settle(id, session);
  });
}

void RegistryStore::withdraw(SessionId id, const std::string& key) {
  state_.with([&](State& state) {
    Session& session = state.sessions.at(id);
    if (session.announced.erase(key) == 0) return;
    const auto stored = state.entries.find(key);
    if (stored == state.entries.end() || stored->second.lease != id) return;
    if (!state.reaches(session)) {
      stored->second.lease = -1;  // nobody's: gone when the store is back
      return;
    }
    ++state.revision;
    state.remove(key);
  });
}

TransactionResult RegistryStore::transact(SessionId id, const Transaction& transaction) {
  return state_.with([&](State& state) {
    TransactionResult result;
    if (!state.reaches(state.sessions.at(id))) {
      result.why = "the registry is down";
      return result;
    }
    bool holds = true;
    for (const auto& [key, revision] : transaction.expect) {
      const auto stored = state.entries.find(key);
      const bool there = stored != state.entries.end();
      holds = holds && (there ? stored->second.entry.revision : 0) == revision;
      if (there) result.current.push_back(stored->second.entry);
    }
    result.kind = holds ? TransactionResult::Kind::kDone : TransactionResult::Kind::kConflict;
    if (!holds) return result;
    result.current.clear();
    result.revision = ++state.revision;
    for (const auto& write : transaction.writes) {
      if (write.value)
        state.write(write.key, *write.value, write.leased ? id : 0);
      else
        state.remove(write.key);
    }
    return result;
  });
}

ServiceState RegistryStore::state(SessionId id) {
  return state_.with([&](State& state) {
    const Session& session = state.sessions.at(id);
    const bool up = state.reaches(session);
    return ServiceState{up, session.since, up ? "" : "the in-process registry was taken down"};
  });
}

void RegistryStore::set_up(bool up) {
  state_.with([&](State& state) {
    if (state.up == up) return;
    state.up = up;
    std::vector<SessionId> gone;
    for (const auto& [key, stored] : state.entries)
      if (stored.lease != 0 && !state.sessions.contains(stored.lease)) gone.push_back(stored.lease);
    if (up)
      for (const SessionId id : gone) state.drop_leased(id);
    for (auto& [id, session] : state.sessions) {
      if (session.cut) continue;
      session.since = Clock::now();
      session.view->notice({up ? Notice::kUp : Notice::kDown, up ? "" : "the registry is down"});
      if (!up) continue;
      state.tell_all(session);
      state.settle(id, session);
    }
  });
}

void RegistryStore::cut_off(SessionId id) {
  state_.with([&](State& state) {
    Session& session = state.sessions.at(id);
    if (std::exchange(session.cut, true)) return;
    session.since = Clock::now();
    session.view->notice({Notice::kDown, "this node was cut off"});
    state.drop_leased(id);
    session.view->notice({Notice::kLeaseLost, "its lease ran out while this node was cut off"});
  });
}

void RegistryStore::reconnect(SessionId id) {
  state_.with([&](State& state) {
    Session& session = state.sessions.at(id);
    if (!std::exchange(session.cut, false) || !state.up) return;
    session.since = Clock::now();
    session.view->notice({Notice::kUp, {}});
    state.tell_all(session);
    state.settle(id, session);
  });
}

InProcessRegistry::InProcessRegistry(std::shared_ptr<RegistryStore> store)
    : store_(std::move(store)), view_(store_->lease()), session_(store_->join(view_)) {}

InProcessRegistry::~InProcessRegistry() { store_->leave(session_); }

void InProcessRegistry::announce(std::string key, std::string value) {
  check_entry(key, value);
  store_->announce(session_, std::move(key), std::move(value));
}

void InProcessRegistry::withdraw(std::string key) { store_->withdraw(session_, key); }

void InProcessRegistry::transact(Transaction transaction, TransactionCallback done) {
  check_transaction(transaction);
  view_.run([result = store_->transact(session_, transaction), done = std::move(done)] { done(result); });
}

Registry::WatchId InProcessRegistry::watch(std::string prefix, WatchCallback callback) {
  return view_.watch(std::move(prefix), std::move(callback));
}

}  // namespace cheetah::cluster
