// SPDX-License-Identifier: MIT
#include "cluster/registry/etcd_registry.h"

namespace cheetah::cluster {

using Clock = std::chrono::steady_clock;

EtcdHealth::EtcdHealth(RegistryView& view) : view_(view) {
  parts_.with([](Parts& parts) { parts.whole = {false, Clock::now(), parts.why[kSession]}; });
}

void EtcdHealth::report(Part part, bool up, const std::string& why) {
  parts_.with([&](Parts& parts) {
    parts.up[part] = up;
    parts.why[part] = why;
    const bool was_up = parts.whole.up;
    parts.whole.up = parts.up[kSession] && parts.up[kWatch];
    parts.whole.why = !parts.up[kSession] ? parts.why[kSession] : parts.why[kWatch];
    if (parts.whole.up == was_up) return;
    parts.whole.since = Clock::now();
    view_.notice({was_up ? RegistryNotice::Kind::kDown : RegistryNotice::Kind::kUp, parts.whole.why});
  });
}

bool EtcdHealth::is_up(Part part) const {
  return parts_.with([&](const Parts& parts) { return parts.up[part]; });
}

ServiceState EtcdHealth::state() const {
  return parts_.with([](const Parts& parts) { return parts.whole; });
}

EtcdRegistry::EtcdRegistry(const EtcdConfig& config)
    : view_(std::chrono::seconds(config.lease_s)),
      health_(view_),
      session_(config, view_, health_),
      watch_(config, view_, health_, session_) {
  if (config.map_file.empty()) return;
  map_file_.emplace(config.map_file, config.cluster, [this]() -> std::optional<Entries> {
    if (!health_.is_up(EtcdHealth::kWatch)) return std::nullopt;
    return view_.list("");
  });
  map_changes_ = view_.watch("", [this](const RegistryEvent&) { map_file_->changed(); });
}

EtcdRegistry::~EtcdRegistry() {
  if (map_changes_) view_.unwatch(*map_changes_);
}

void EtcdRegistry::announce(std::string key, std::string value) {
  check_entry(key, value);
  session_.announce(std::move(key), std::move(value));
}

void EtcdRegistry::transact(Transaction transaction, TransactionCallback done) {
  check_transaction(transaction);
  session_.transact(std::move(transaction), std::move(done));
}

Registry::WatchId EtcdRegistry::watch(std::string prefix, WatchCallback callback) {
  return view_.watch(std::move(prefix), std::move(callback));
}

}  // namespace cheetah::cluster
