// SPDX-License-Identifier: MIT
#include "cluster/registry/known_map.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"

namespace cheetah::cluster {
namespace {

constexpr size_t kMostKeyBytes = 512;
constexpr size_t kMostValueBytes = size_t{1} << 20;  // etcd takes requests of 1.5 MiB
constexpr size_t kMostOperations = 64;               // etcd takes 128 a transaction

using Kind = RegistryEvent::Kind;

}  // namespace

void KnownMap::put(RegistryEntry entry, std::vector<RegistryEvent>& out) {
  const auto known = entries_.find(entry.key);
  if (known != entries_.end() && known->second.revision >= entry.revision && !missing_.contains(entry.key))
    return;
  missing_.erase(entry.key);
  entries_[entry.key] = entry;
  out.push_back({Kind::kPut, std::move(entry)});
}

void KnownMap::remove(const std::string& key, int64_t revision, std::vector<RegistryEvent>& out) {
  const auto known = entries_.find(key);
  if (known == entries_.end() || (known->second.revision > revision && !missing_.contains(key))) return;
  missing_.erase(key);
  out.push_back({Kind::kRemove, std::move(known->second)});
  entries_.erase(known);
}

void KnownMap::replace_all(Registry::Entries entries, Time now, std::vector<RegistryEvent>& out) {
  for (auto& [key, entry] : entries) {
    missing_.erase(key);
    RegistryEntry& known = entries_[key];
    if (known == entry) continue;
    known = entry;
    out.push_back({Kind::kPut, entry});
  }
  for (const auto& [key, entry] : entries_)
    if (!entries.contains(key)) missing_.emplace(key, now + grace_);
  if (!synced_) out.push_back({Kind::kSynced, {}});
  synced_ = true;
  expire(now, out);
}

void KnownMap::expire(Time now, std::vector<RegistryEvent>& out) {
  for (auto it = missing_.begin(); it != missing_.end();) {
    if (it->second > now) {
      ++it;
      continue;
    }
    const auto known = entries_.find(it->first);
    out.push_back({Kind::kRemove, std::move(known->second)});
    entries_.erase(known);
    it = missing_.erase(it);
  }
}

std::optional<Time> KnownMap::next_expiry() const {
  std::optional<Time> next;
  for (const auto& [key, when] : missing_) next = std::min(next.value_or(when), when);
  return next;
}

Registry::Entries under(const Registry::Entries& entries, std::string_view prefix) {
  Registry::Entries found;
  for (auto it = entries.lower_bound(prefix); it != entries.end() && starts_with(it->first, prefix); ++it)
    found.insert(found.end(), *it);
  return found;
}

void check_entry(std::string_view key, std::string_view value) {
  if (key.empty() || key.size() > kMostKeyBytes)
    throw Error(format("registry: a key has {} bytes: expected 1 to {}", key.size(), kMostKeyBytes));
  if (value.size() > kMostValueBytes)
    throw Error(format("registry: the value of {} has {} bytes: expected at most {}", printable(key),
        value.size(), kMostValueBytes));
}

void check_transaction(const Transaction& transaction) {
  if (transaction.expect.size() + transaction.writes.size() > kMostOperations)
    throw Error(format("registry: a transaction has {} parts: expected at most {}",
        transaction.expect.size() + transaction.writes.size(), kMostOperations));
  for (const auto& expectation : transaction.expect) check_entry(expectation.key, {});
  size_t bytes = 0;
  for (const auto& write : transaction.writes) {
    check_entry(write.key, write.value ? std::string_view(*write.value) : std::string_view());
    bytes += write.key.size() + (write.value ? write.value->size() : 0);
  }
  if (bytes > kMostValueBytes + kMostKeyBytes)
    throw Error(
        format("registry: a transaction writes {} bytes: expected at most {}", bytes, kMostValueBytes));
}

}  // namespace cheetah::cluster
