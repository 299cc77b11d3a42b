// SPDX-License-Identifier: MIT
#pragma once
// The receiver's table: which slots belong to which request, until when, and what has arrived. Owned by the
// agent's owner; the slots' words say what others are doing with them.
#include <deque>
#include <map>

#include "cluster/transfer/transport.h"

namespace cheetah::cluster::transfer {

class ReservationTable {
 public:
  ReservationTable(WorkerId self, ArenaView arena, Duration stall);

  std::optional<Reservation> reserve(RequestKey owner, uint32_t slabs, Time deadline);
  std::optional<std::span<const std::byte>> slab(ReservationId id, uint32_t index) const;
  // True when the reservation is free at once; else it is in quarantine and collect() frees it.
  void release(ReservationId id);
  // Its slots are read: collect() leaves them alone until all readers have let go.
  void hold(ReservationId id);
  void let_go(ReservationId id);
  // A landed slab, good or not; nullopt when it belongs to no reservation any more.
  std::optional<TransferEvent> landed(const SlabLanded& slab, Time now);
  // Releases what is overdue and frees what is no longer held; appends what the owner should hear.
  void collect(Time now, std::vector<TransferEvent>& out);

  // The slot that a pull should fill; nullopt when there is no such slab or it is not open.
  std::optional<Ticket::Slot> slot_for_pull(ReservationId id, uint32_t index) const;
  // Takes back a slot that no writer has begun. False: one has.
  bool withdraw(ReservationId id, uint32_t index);

  std::vector<ReservationStatus> status() const;
  int64_t free_slots() const { return std::ssize(free_); }
  void check_invariants() const;

 private:
  struct Slab {
    Ticket::Slot slot;
    bool arrived = false;
    int64_t bytes = 0;
  };
  struct Entry {
    RequestKey owner;
    Time deadline{};
    std::optional<Time> last_arrival = {};
    std::vector<Slab> slabs = {};
    uint32_t arrived = 0;
    int holds = 0;
    bool released = false;
  };
  std::string overdue(const Entry& entry, Time now) const;
  ReservationState state_of(const Entry& entry) const;

  WorkerId self_;
  ArenaView arena_;
  Duration stall_;
  std::deque<uint32_t> free_;
  std::map<ReservationId, Entry> entries_;
  std::map<std::pair<uint32_t, uint32_t>, std::pair<ReservationId, uint32_t>>
      by_slot_;  // slot and generation
  uint64_t last_id_;
  uint32_t generation_;
};

}  // namespace cheetah::cluster::transfer
