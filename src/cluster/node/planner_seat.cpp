// SPDX-License-Identifier: MIT
#include "cluster/node/planner_seat.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "cluster/registry/keys.h"

namespace cheetah::cluster {
namespace {

constexpr Duration kRetry = std::chrono::seconds(1), kTakenRetry = std::chrono::seconds(5);

std::string seat_key() { return format("{}planner", kOwnerPrefix); }
std::string act_key() { return seat_key() + ".act"; }

}  // namespace

PlannerSeat::PlannerSeat(Setting setting) : setting_(std::move(setting)) {
  if (!setting_.registry.is_shared()) return;
  setting_.registry.watch(seat_key(), [this](const RegistryEvent& event) {
    if (event.kind == RegistryEvent::Kind::kSynced || event.entry.key != seat_key()) return;
    setting_.loop.post([this, event] { owner_changed(event); });
  });
  setting_.registry.on_notice([this](const RegistryNotice& notice) {
    if (notice.kind == RegistryNotice::Kind::kLeaseLost)
      setting_.loop.post([this, why = notice.why] { lose("the lease was lost: " + why); });
  });
}

void PlannerSeat::look(Time now) {
  if (!setting_.registry.is_shared()) return set_held(setting_.is_first(), "by its id");
  if (held_ || claiming_ || now < next_try_) return;
  next_try_ = now + (is_free_ ? kRetry : kTakenRetry);
  claiming_ = true;
  claim(setting_.registry, seat_key(), setting_.owner, highest_epoch_,
      [this](const ClaimResult& result) { setting_.loop.post([this, result] { answered(result); }); });
}

void PlannerSeat::answered(const ClaimResult& result) {
  claiming_ = false;
  if (result.kind == ClaimResult::Kind::kTaken) is_free_ = false;
  if (result.kind != ClaimResult::Kind::kHeld) return;
  claim_ = result.claim;
  highest_epoch_ = claim_.epoch;
  set_held(true, format("epoch {}", claim_.epoch));
}

// Its own claim comes back too; the later writer has the seat.
void PlannerSeat::owner_changed(const RegistryEvent& event) {
  if (event.kind == RegistryEvent::Kind::kRemove) {
    is_free_ = true;
    next_try_ = {};
    // The removal of an older owner may be told after our claim was answered.
    if (event.entry.revision >= claim_.owner_revision) lose("its key is gone from the registry");
    return;
  }
  is_free_ = false;
  if (event.entry.revision > claim_.owner_revision && !claiming_) lose("another router holds it");
}

void PlannerSeat::lose(const std::string& why) { set_held(false, why); }

void PlannerSeat::set_held(bool held, const std::string& why) {
  if (held == std::exchange(held_, held)) return;
  setting_.changed(held, why);
}

void PlannerSeat::act(const std::string& what, std::function<void()> then) {
  if (!held_) return;
  if (!setting_.registry.is_shared()) return then();
  Transaction transaction;
  guard(transaction, claim_);
  transaction.writes = {{act_key(), format("{}: {}", setting_.owner, what), false}};
  setting_.registry.transact(
      std::move(transaction), [this, then = std::move(then)](const TransactionResult& result) {
        setting_.loop.post([this, result, then] {
          if (result.kind == TransactionResult::Kind::kDone && held_) return then();
          if (result.kind == TransactionResult::Kind::kConflict) lose("a write of the planner was refused");
        });
      });
}

}  // namespace cheetah::cluster
