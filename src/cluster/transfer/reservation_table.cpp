// SPDX-License-Identifier: MIT
#include "cluster/transfer/reservation_table.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/format.h"
#include "cluster/net/crypto.h"

namespace cheetah::cluster::transfer {

ReservationTable::ReservationTable(WorkerId self, ArenaView arena, Duration stall)
    : self_(self),
      arena_(arena),
      stall_(stall),
      free_(static_cast<size_t>(arena.words.size())),
      last_id_(0),
      generation_(static_cast<uint32_t>(random_number())) {
  std::iota(free_.begin(), free_.end(), 0u);
}

std::optional<Reservation> ReservationTable::reserve(RequestKey owner, uint32_t slabs, Time deadline) {
  if (slabs == 0 || slabs > kMaxSlabsPerReservation) return std::nullopt;
  if (std::ssize(free_) < static_cast<int64_t>(slabs)) return std::nullopt;
  const ReservationId id{++last_id_};
  Entry entry{.owner = owner, .deadline = deadline};
  Ticket ticket{self_, id, arena_.slot_bytes, {}};
  ++generation_;
  for (uint32_t index = 0; index < slabs; ++index) {
    const Ticket::Slot slot{free_.front(), generation_};
    free_.pop_front();
    arena_.words.open(slot.slot, slot.generation);
    by_slot_[{slot.slot, slot.generation}] = {id, index};
    entry.slabs.push_back({.slot = slot});
    ticket.slots.push_back(slot);
  }
  entries_.emplace(id, std::move(entry));
  return Reservation{id, encode(ticket)};
}

std::optional<std::span<const std::byte>> ReservationTable::slab(ReservationId id, uint32_t index) const {
  const auto at = entries_.find(id);
  if (at == entries_.end() || at->second.released || index >= at->second.slabs.size()) return std::nullopt;
  const Slab& slab = at->second.slabs[index];
  if (!slab.arrived) return std::nullopt;
  return arena_.bytes(slab.slot.slot, slab.bytes);
}

void ReservationTable::release(ReservationId id) {
  if (const auto at = entries_.find(id); at != entries_.end()) at->second.released = true;
}

void ReservationTable::hold(ReservationId id) {
  if (const auto at = entries_.find(id); at != entries_.end()) ++at->second.holds;
}

void ReservationTable::let_go(ReservationId id) {
  const auto at = entries_.find(id);
  if (at == entries_.end()) return;
  CHEETAH_ASSERT(at->second.holds > 0, "a reservation is let go as often as it is held");
  --at->second.holds;
}

std::optional<TransferEvent> ReservationTable::landed(const SlabLanded& slab, Time now) {
  const auto at = by_slot_.find({slab.notice.slot, slab.notice.generation});
  if (at == by_slot_.end()) return std::nullopt;
  const auto [id, index] = at->second;
  Entry& entry = entries_.at(id);
  if (entry.released) return std::nullopt;
  if (!slab.good) return SlabDamaged{id, entry.owner, slab.from, index};
  Slab& mine = entry.slabs[index];
  if (mine.arrived) return std::nullopt;
  mine.arrived = true;
  mine.bytes = slab.notice.bytes;
  entry.last_arrival = now;
  ++entry.arrived;
  return SlabArrived{
      id, entry.owner, slab.from, index, slab.notice.bytes, slab.notice.checksum, slab.notice.notify};
}

// Before the first slab only the deadline counts: the sender may still wait for its turn. When all are there
// nothing is awaited, and the owner releases it in its own time.
std::string ReservationTable::overdue(const Entry& entry, Time now) const {
  if (entry.released || entry.arrived == entry.slabs.size()) return {};
  if (now >= entry.deadline)
    return format("transfer: {} of {} slabs had arrived at the deadline", entry.arrived, entry.slabs.size());
  if (entry.last_arrival && now >= *entry.last_arrival + stall_)  // `now` may be Time::min(): no difference
    return format("transfer: stalled after {} of {} slabs", entry.arrived, entry.slabs.size());
  return {};
}

void ReservationTable::collect(Time now, std::vector<TransferEvent>& out) {
  for (auto at = entries_.begin(); at != entries_.end();) {
    auto& [id, entry] = *at;
    if (std::string why = overdue(entry, now); !why.empty()) {
      entry.released = true;
      out.emplace_back(ReservationStalled{id, entry.owner, std::move(why)});
    }
    if (!entry.released || entry.holds > 0) {
      ++at;
      continue;
    }
    std::erase_if(entry.slabs, [&](const Slab& slab) {
      if (!arena_.words.close(slab.slot.slot, slab.slot.generation)) return false;
      by_slot_.erase({slab.slot.slot, slab.slot.generation});
      free_.push_back(slab.slot.slot);
      return true;
    });
    if (!entry.slabs.empty()) {
      ++at;
      continue;
    }
    out.emplace_back(ReservationFreed{id});
    at = entries_.erase(at);
  }
}

std::optional<Ticket::Slot> ReservationTable::slot_for_pull(ReservationId id, uint32_t index) const {
  const auto at = entries_.find(id);
  if (at == entries_.end() || at->second.released || index >= at->second.slabs.size()) return std::nullopt;
  const Slab& slab = at->second.slabs[index];
  return slab.arrived ? std::nullopt : std::optional(slab.slot);
}

bool ReservationTable::withdraw(ReservationId id, uint32_t index) {
  const auto at = entries_.find(id);
  if (at == entries_.end() || at->second.released) return true;
  Slab& slab = at->second.slabs.at(index);
  if (!arena_.words.renew(slab.slot.slot, slab.slot.generation, generation_ + 1)) return false;
  by_slot_.erase({slab.slot.slot, slab.slot.generation});
  slab.slot.generation = ++generation_;
  by_slot_[{slab.slot.slot, slab.slot.generation}] = {id, index};
  return true;
}

ReservationState ReservationTable::state_of(const Entry& entry) const {
  if (entry.released) return ReservationState::kQuarantined;
  if (entry.arrived == entry.slabs.size()) return ReservationState::kComplete;
  const auto untouched = [&](const Slab& slab) {
    return arena_.words.load(slab.slot.slot).state == SlotState::kOpen;
  };
  return std::ranges::all_of(entry.slabs, untouched) ? ReservationState::kReserved
                                                     : ReservationState::kFilling;
}

std::vector<ReservationStatus> ReservationTable::status() const {
  std::vector<ReservationStatus> all;
  for (const auto& [id, entry] : entries_)
    all.push_back({id, entry.owner, state_of(entry), entry.deadline,
        static_cast<uint32_t>(entry.slabs.size()), entry.arrived});
  return all;
}

void ReservationTable::check_invariants() const {
  std::vector<int> uses(static_cast<size_t>(arena_.words.size()));
  for (const uint32_t slot : free_) ++uses[slot];
  size_t held = 0;
  for (const auto& [id, entry] : entries_)
    for (const Slab& slab : entry.slabs) {
      ++uses[slab.slot.slot];
      ++held;
    }
  CHEETAH_ASSERT(std::ranges::all_of(uses, [](int count) { return count == 1; }),
      "every slot is free or in one reservation");
  CHEETAH_ASSERT(held == by_slot_.size(), "every slot in use is found by its word");
}

}  // namespace cheetah::cluster::transfer
