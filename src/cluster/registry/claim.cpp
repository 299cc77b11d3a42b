// SPDX-License-Identifier: MIT
#include "cluster/registry/claim.h"

#include <algorithm>
#include <memory>

#include "base/text.h"

namespace cheetah::cluster {
namespace {

constexpr int kMostTries = 8;  // of others that claim at the same moment

struct Attempting {
  Registry& registry;
  std::string name, owner;
  uint64_t least_epoch = 0;
  std::function<void(const ClaimResult&)> done;
  int tries = 0;
  RegistryEntry counter{};  // NAME.epoch, as last seen
};

std::string epoch_key(const std::string& name) { return name + ".epoch"; }

// A number that is none counts as 0: the claim then goes by least_epoch.
uint64_t epoch_in(const RegistryEntry& counter) {
  return static_cast<uint64_t>(std::max<int64_t>(0, to_integer(counter.value).value_or(0)));
}

void attempt(const std::shared_ptr<Attempting>& claiming);

void answer(const std::shared_ptr<Attempting>& claiming, uint64_t epoch, const TransactionResult& result) {
  ClaimResult claimed;
  if (result.kind == TransactionResult::Kind::kUnavailable) {
    claimed.why = result.why;
    return claiming->done(claimed);
  }
  if (result.kind == TransactionResult::Kind::kDone) {
    claimed.kind = ClaimResult::Kind::kHeld;
    claimed.claim = {claiming->name, epoch, result.revision};
    return claiming->done(claimed);
  }
  claiming->counter = {};
  for (const RegistryEntry& entry : result.current) {
    if (entry.key == claiming->name) {
      claimed.kind = ClaimResult::Kind::kTaken;
      claimed.owner = entry.value;
      return claiming->done(claimed);
    }
    claiming->counter = entry;
  }
  if (++claiming->tries < kMostTries) return attempt(claiming);
  claimed.why = "others claim it at the same time";
  claiming->done(claimed);
}

// The counter is guessed from the last answer, so the first try fails by its expectation unless the counter
// is new: the failure brings its value.
void attempt(const std::shared_ptr<Attempting>& claiming) {
  const uint64_t epoch = std::max(epoch_in(claiming->counter), claiming->least_epoch) + 1;
  Transaction transaction;
  transaction.expect = {{claiming->name, 0}, {epoch_key(claiming->name), claiming->counter.revision}};
  transaction.writes = {
      {claiming->name, claiming->owner, true}, {epoch_key(claiming->name), std::to_string(epoch), false}};
  claiming->registry.transact(std::move(transaction),
      [claiming, epoch](const TransactionResult& result) { answer(claiming, epoch, result); });
}

}  // namespace

void claim(Registry& registry, std::string name, std::string owner, uint64_t least_epoch,
    std::function<void(const ClaimResult&)> done) {
  // Owned by whichever callback is under way.
  attempt(std::make_shared<Attempting>(
      Attempting{registry, std::move(name), std::move(owner), least_epoch, std::move(done)}));
}

void guard(Transaction& transaction, const Claim& held) {
  transaction.expect.push_back({held.name, held.owner_revision});
}

}  // namespace cheetah::cluster
