// SPDX-License-Identifier: MIT
#pragma once
// Ownership of one thing in the cluster (the planner's seat, a worker's role), by epoch.
//
// The owner is the key NAME, written under its lease; the epoch is the key NAME.epoch, which stays and counts
// up with every change of owner. A holder that lost its lease and does not know it yet still carries its old
// epoch: the receiver compares (EpochGate) and refuses, and guarded writes fail.
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "cluster/registry/registry.h"

namespace cheetah::cluster {

struct Claim {
  std::string name;
  uint64_t epoch = 0;          // 0: not held
  int64_t owner_revision = 0;  // of the owner's key, for guarded writes
};

struct ClaimResult {
  enum class Kind : uint8_t { kHeld, kTaken, kUnavailable };
  Kind kind = Kind::kUnavailable;
  Claim claim;        // when held
  std::string owner;  // when taken: what the present owner wrote
  std::string why;    // when unavailable
};

// Makes this process the owner of `name` if it has none. `least_epoch` is the highest epoch the caller has
// heard of: the new one is above it even where the registry has lost its data. `registry` must outlive
// `done`.
void claim(Registry& registry, std::string name, std::string owner, uint64_t least_epoch,
    std::function<void(const ClaimResult&)> done);

// Adds to `transaction` that it must not happen unless `held` is still held.
void guard(Transaction& transaction, const Claim& held);

// The receiving side: lets a thing's present owner pass and refuses older ones.
class EpochGate {
 public:
  // False: `epoch` is stale.
  bool admit(std::string_view name, uint64_t epoch);
  uint64_t highest(std::string_view name) const;

 private:
  std::map<std::string, uint64_t, std::less<>> highest_;
};

}  // namespace cheetah::cluster
