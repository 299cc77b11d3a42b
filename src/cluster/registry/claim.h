// SPDX-License-Identifier: MIT
#pragma once
// Ownership of one thing in the cluster by epoch: of the planner's seat (node/planner_seat.h).
//
// The owner is the key NAME, written under its lease; the epoch is the key NAME.epoch, which stays and counts
// up with every change of owner. The guarded writes of a holder that lost its lease and does not know it yet
// fail.
#include <cstdint>
#include <functional>
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

}  // namespace cheetah::cluster
