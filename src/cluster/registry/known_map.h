// SPDX-License-Identifier: MIT
#pragma once
// What a process knows of the registry: pure, without a service or a clock.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cluster/registry/registry.h"

namespace cheetah::cluster {

// Turns what a service reports (changes, and the whole state now and then) into events that tell each change
// once. Always holds: the events told so far, applied in order, give entries().
class KnownMap {
 public:
  // `grace` is how long a key that a whole state lacks may stay away before it is told as removed.
  explicit KnownMap(Duration grace) : grace_(grace) {}

  // One change. What is older than what is known of the key is dropped: it came late.
  void put(RegistryEntry entry, std::vector<RegistryEvent>& out);
  void remove(const std::string& key, int64_t revision, std::vector<RegistryEvent>& out);
  // The whole state, after a gap. Its revisions count even where they are lower: the service has lost data.
  void replace_all(Registry::Entries entries, Time now, std::vector<RegistryEvent>& out);
  // Tells the removals whose grace is over.
  void expire(Time now, std::vector<RegistryEvent>& out);
  std::optional<Time> next_expiry() const;

  const Registry::Entries& entries() const { return entries_; }
  bool synced() const { return synced_; }

 private:
  Duration grace_;
  Registry::Entries entries_;
  std::map<std::string, Time, std::less<>> missing_;  // still in entries_, until then
  bool synced_ = false;
};

// The part of a map whose keys start with `prefix`.
Registry::Entries under(const Registry::Entries& entries, std::string_view prefix);

// Throws Error for keys and values that no registry takes.
void check_entry(std::string_view key, std::string_view value);
void check_transaction(const Transaction& transaction);

}  // namespace cheetah::cluster
