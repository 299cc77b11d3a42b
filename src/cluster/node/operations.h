// SPDX-License-Identifier: MIT
#pragma once
// What operators want of a node and its cluster: keeps their orders, passes them on, and does what they ask of
// this node. Orders go over the links, so they need no service; where there is a shared registry they are also
// written there and outlive a cluster that is stopped whole. Belongs to the node's thread.
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cluster/core/routing.h"
#include "cluster/core/worker_ports.h"
#include "cluster/node/node_loop.h"
#include "cluster/node/order_book.h"
#include "cluster/node/peer_table.h"
#include "cluster/node/planner_seat.h"
#include "cluster/registry/registry.h"

namespace cheetah {
class EventLog;  // observe/event_log.h
}

namespace cheetah::cluster {

class Operations {
 public:
  struct Setting {
    WorkerId self{};
    std::string name;
    Registry& registry;
    NodeLoop& loop;
    const PeerTable& peers;
    EventLog* log = nullptr;
    std::function<void(WorkerId, const Message&)> send;
    std::function<void(WorkerInput)> tell_worker;  // empty: this node has none
  };
  explicit Operations(Setting setting);
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;

  void link_up(WorkerId peer);
  void hear(WorkerId from, const Orders& orders);
  // Taken from an operator, here. Throws UsageError.
  void give(std::string subject, std::string wish);
  const OrderBook& book() const { return book_; }

  // Workers that shall have another role than they have, each asked for about once per second.
  struct Flip {
    WorkerId worker{};
    FlipRole role{};
  };
  std::vector<Flip> flips(const KnownWorkers& workers, Time now);
  // Asks for it, but only as the planner: a router that has lost the seat and does not know it yet asks nothing
  // of any worker.
  void move(PlannerSeat& seat, const Flip& flip, std::string_view why);
  std::set<WorkerId> with_roles(const KnownWorkers& workers) const;  // by order: nobody else moves them

  void keep(Time now);  // writes to the registry what it could not be written before

 private:
  void learn(const std::vector<Order>& orders, std::optional<WorkerId> from);
  void obey();
  void on_registry(const RegistryEvent& event);

  Setting setting_;
  OrderBook book_;
  std::optional<CordonWish> cordon_;     // as the worker was last told
  std::map<std::string, Order> unkept_;  // given here, not yet in the registry
  std::map<WorkerId, Time> asked_;       // for another role
  bool writing_ = false;
  Time next_write_{};
};

}  // namespace cheetah::cluster
