// SPDX-License-Identifier: MIT
#pragma once
// What etcd's JSON gateway is asked and how its answers are read. Pure. What comes back is not trusted: a
// field that is missing, of another type or out of range is an Error that names it.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "cluster/registry/registry.h"

namespace cheetah::cluster::etcd {

// Keys in etcd start with the cluster's root ("/cheetah/NAME/"); in the registry they do not.
struct Range {
  Registry::Entries entries;
  int64_t revision = 0;  // of the whole store when it was read
};

struct Change {
  bool removed = false;
  RegistryEntry entry;  // without a value when removed
};

struct WatchAnswer {
  int64_t revision = 0;  // of the store, 0 when not said
  bool created = false;
  bool canceled = false;  // by a compaction, for one: the whole state must be read again
  std::vector<Change> changes;
};

Json range_request(std::string_view root);
Range read_range(const Json& answer, std::string_view root);

Json watch_request(std::string_view root, int64_t start_revision);
WatchAnswer read_watch(const Json& line, std::string_view root);

Json put_request(std::string_view root, std::string_view key, std::string_view value, int64_t lease);
Json delete_request(std::string_view root, std::string_view key);
Json transaction_request(std::string_view root, const Transaction& transaction, int64_t lease);
TransactionResult read_transaction(const Json& answer, std::string_view root);

Json lease_request(int64_t lease);  // to keep it alive, to revoke it
Json grant_request(int64_t ttl_s);
struct Lease {
  int64_t id = 0;
  int64_t ttl_s = 0;  // 0: it is gone
};
Lease read_grant(const Json& answer);
Lease read_keep_alive(const Json& answer);

std::string root_of(std::string_view cluster);
// The smallest key above all that start with `prefix`.
std::string end_of_prefix(std::string_view prefix);

}  // namespace cheetah::cluster::etcd
