// SPDX-License-Identifier: MIT
#include "cluster/node/sharing.h"

#include <utility>

namespace cheetah::cluster {
namespace {

constexpr Duration kAskAgain = std::chrono::seconds(1);
constexpr size_t kMostBlocks = size_t{1} << 20;  // 8 MiB: a message may have 16

}  // namespace

bool Sharing::hear(WorkerId from, const Message& message, uint64_t next_change, Time now) {
  if (const auto* hello = std::get_if<Hello>(&message)) {
    greet(from, hello->descriptor);
    return false;
  }
  if (std::holds_alternative<AskCache>(message)) {
    if (setting_.has_cache) setting_.send(from, KvSnapshot{next_change, {cached_.begin(), cached_.end()}});
    return true;
  }
  if (const auto* snapshot = std::get_if<KvSnapshot>(&message)) {
    if (setting_.routing) setting_.routing->learn(from, *snapshot);
    return true;
  }
  const auto* news = std::get_if<QuotaNews>(&message);
  if (news == nullptr) return false;
  const KnownPeer* peer = setting_.peers.find(from);
  if (setting_.routing && peer && peer->descriptor.role == Role::kRouter) setting_.routing->hear(*news, now);
  return true;
}

void Sharing::greet(WorkerId from, const WorkerDescriptor& descriptor) {
  if (!setting_.routing || descriptor.id != from) return;
  if (descriptor.role != Role::kRouter) return setting_.send(from, AskCache{});
  if (auto all = setting_.routing->all_quotas(); !all.empty()) setting_.send(from, QuotaNews{std::move(all)});
}

void Sharing::cache_changed(const std::vector<PrefixChange>& changes) {
  for (const PrefixChange& change : changes)
    if (!change.stored)
      cached_.erase(change.block);
    else if (cached_.size() < kMostBlocks)
      cached_.insert(change.block);
}

void Sharing::beat(Time now) {
  if (!setting_.routing) return;
  if (now >= asks_again_) {
    asks_again_ = now + kAskAgain;
    for (const WorkerId id : setting_.routing->kv_index().unsure())
      if (const KnownPeer* peer = setting_.peers.find(id); peer && peer->linked)
        setting_.send(id, AskCache{});
  }
  const QuotaNews news{setting_.routing->untold_quotas()};
  if (news.entries.empty()) return;
  for (const auto& [id, peer] : setting_.peers.peers())
    if (peer.linked && peer.descriptor.role == Role::kRouter) setting_.send(id, news);
}

}  // namespace cheetah::cluster
