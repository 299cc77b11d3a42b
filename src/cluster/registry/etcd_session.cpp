// SPDX-License-Identifier: MIT
#include <algorithm>

#include "base/format.h"
#include "cluster/registry/etcd_messages.h"
#include "cluster/registry/etcd_registry.h"

namespace cheetah::cluster {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kLeaveLimit{500};

}  // namespace

EtcdSession::EtcdSession(EtcdConfig config, RegistryView& view, EtcdHealth& health)
    : config_(std::move(config)),
      root_(etcd::root_of(config_.cluster)),
      view_(view),
      health_(health),
      client_(config_.hosts, config_.login),
      thread_([this] { loop(); }) {}

EtcdSession::~EtcdSession() {
  stopping_ = true;
  inbox_.close();
  thread_.join();
}

void EtcdSession::announce(std::string key, std::string value) {
  inbox_.post(Announce{std::move(key), std::move(value)});
}
void EtcdSession::withdraw(std::string key) { inbox_.post(Withdraw{std::move(key)}); }
void EtcdSession::transact(Transaction transaction, Registry::TransactionCallback done) {
  inbox_.post(Transact{std::move(transaction), std::move(done)});
}

void EtcdSession::saw(std::string key, std::optional<std::string> value) {
  inbox_.post(Seen{std::move(key), std::move(value)});
}

void EtcdSession::loop() {
  while (!stopping_) {
    try {
      run_once();
      pause_ = milliseconds(0);
      if (lease_) sleep_until(lease_->next_keep_alive);
    } catch (const Error& error) {
      health_.report(EtcdHealth::kSession, false, error.what());
      pause_ = longer_pause(pause_);
      for (const Time until = Clock::now() + pause_; Clock::now() < until && !stopping_;) {
        refuse_all(error.what());
        sleep_until(until);
        take_commands();
      }
    }
    take_commands();
  }
  refuse_all("the registry is being closed");
  leave();
}

// Everything that is to be done now. Throws Error when etcd does not do it.
void EtcdSession::run_once() {
  if (lease_ && Clock::now() >= lease_->valid_until)
    lose_lease(format("etcd has not answered for {} s", config_.lease_s));
  if (!lease_) begin_lease();
  if (Clock::now() >= lease_->next_keep_alive) keep_lease();
  settle();
  if (lost_lease_) {
    const int64_t lost = *std::exchange(lost_lease_, std::nullopt);
    try {
      call("/v3/lease/revoke", etcd::lease_request(lost));
    } catch (const EtcdRefusal&) {
      // It has run out by itself.
    }
  }
  health_.report(EtcdHealth::kSession, true, {});
  transact_all();
}

void EtcdSession::take_commands() {
  std::vector<Command> commands;
  inbox_.take_all(commands);
  for (Command& command : commands) std::visit([this](auto& taken) { take(std::move(taken)); }, command);
}

void EtcdSession::take(Announce command) {
  withdrawn_.erase(command.key);
  Announced& announced = announced_[command.key];
  if (announced.written && announced.value == command.value) return;
  announced = {std::move(command.value), false};
}

void EtcdSession::take(Withdraw command) {
  if (announced_.erase(command.key) > 0) withdrawn_.insert(std::move(command.key));
}

void EtcdSession::take(Transact command) { transactions_.push_back(std::move(command)); }

// Nobody else has a reason to touch it. An older value of our own that comes late is written once more in vain.
void EtcdSession::take(const Seen& command) {
  const auto ours = announced_.find(command.key);
  if (ours != announced_.end() && command.value != ours->second.value) ours->second.written = false;
}

void EtcdSession::begin_lease() {
  const Time sent = Clock::now();
  const etcd::Lease granted = etcd::read_grant(call("/v3/lease/grant", etcd::grant_request(config_.lease_s)));
  const auto length = std::chrono::seconds(std::min(granted.ttl_s, config_.lease_s));
  lease_ = {granted.id, sent + length, sent + length / 3};
}

void EtcdSession::keep_lease() {
  const Time sent = Clock::now();
  const auto kept = etcd::read_keep_alive(call("/v3/lease/keepalive", etcd::lease_request(lease_->id)));
  if (kept.ttl_s <= 0) {
    lose_lease("etcd says that it has run out");
    return begin_lease();
  }
  const auto length = std::chrono::seconds(std::min(kept.ttl_s, config_.lease_s));
  lease_->valid_until = sent + length;
  lease_->next_keep_alive = sent + length / 3;
}

void EtcdSession::lose_lease(const std::string& why) {
  lost_lease_ = lease_->id;
  lease_.reset();
  for (auto& [key, announced] : announced_) announced.written = false;
  view_.notice({RegistryNotice::Kind::kLeaseLost, why});
}

// Keys move to the present lease by being written again, so nobody sees them go in between.
void EtcdSession::settle() {
  for (auto& [key, announced] : announced_) {
    if (announced.written) continue;
    call("/v3/kv/put", etcd::put_request(root_, key, announced.value, lease_->id));
    announced.written = true;
  }
  while (!withdrawn_.empty()) {
    call("/v3/kv/deleterange", etcd::delete_request(root_, *withdrawn_.begin()));
    withdrawn_.erase(withdrawn_.begin());
  }
}

void EtcdSession::transact_all() {
  while (!transactions_.empty()) {
    const Json request = etcd::transaction_request(root_, transactions_.front().transaction, lease_->id);
    TransactionResult result;
    try {
      result = etcd::read_transaction(call("/v3/kv/txn", request), root_);
    } catch (const EtcdRefusal& refusal) {
      if (!lease_) throw;
      result.why = refusal.what();  // this one alone
    }
    view_.run([result, done = std::move(transactions_.front().done)] { done(result); });
    transactions_.pop_front();
  }
}

void EtcdSession::refuse_all(const std::string& why) {
  TransactionResult result;
  result.why = why;
  for (Transact& refused : transactions_)
    view_.run([result, done = std::move(refused.done)] { done(result); });
  transactions_.clear();
}

// A node that leaves in good order is missed at once, not only when its lease has run out.
void EtcdSession::leave() {
  if (!lease_ || !health_.is_up(EtcdHealth::kSession)) return;
  try {
    client_.call("/v3/lease/revoke", etcd::lease_request(lease_->id), kLeaveLimit);
  } catch (const Error&) {
    // Then it runs out.
  }
}

void EtcdSession::sleep_until(Time until) {
  if (lease_ && !health_.is_up(EtcdHealth::kSession)) until = std::min(until, lease_->valid_until);
  inbox_.wait_until(until);
}

Json EtcdSession::call(std::string_view path, const Json& request) {
  try {
    return client_.call(path, request, config_.request_limit);
  } catch (const EtcdRefusal& refusal) {
    // Said of a write: the lease it named is gone.
    if (refusal.code() == EtcdRefusal::kNotFound && lease_ && path != "/v3/lease/revoke")
      lose_lease(refusal.what());
    throw;
  }
}

}  // namespace cheetah::cluster
