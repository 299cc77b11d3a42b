// SPDX-License-Identifier: MIT
#pragma once
// Which of several routers plans: moves workers between roles, says how many there should be. Where there is a
// shared registry, the one that holds the planner's seat in it (claim.h), and what the planner wants done is
// written there first, guarded by the seat: a router that lost it without knowing cannot act. With a list of
// peers routers have links to each other, and the one with the lowest id plans.
//
// Belongs to the node's thread; the registry's answers are posted to it.
#include <cstdint>
#include <functional>
#include <string>

#include "cluster/node/node_loop.h"
#include "cluster/registry/claim.h"
#include "cluster/registry/registry.h"

namespace cheetah::cluster {

class PlannerSeat {
 public:
  struct Setting {
    Registry& registry;
    NodeLoop& loop;
    WorkerId self{};
    std::string owner;               // what others read of the one who holds it
    std::function<bool()> is_first;  // without a shared registry: no router with a lower id
    std::function<void(bool held, const std::string& why)> changed;
  };
  explicit PlannerSeat(Setting setting);
  PlannerSeat(const PlannerSeat&) = delete;
  PlannerSeat& operator=(const PlannerSeat&) = delete;

  // Now and then: claims the seat where it may be free.
  void look(Time now);
  bool held() const { return held_; }
  uint64_t epoch() const { return claim_.epoch; }
  // Notes what is about to be done and calls `then` if this router still holds the seat; otherwise nothing is
  // done, and a seat that turns out to be lost is given up.
  void act(const std::string& what, std::function<void()> then);

 private:
  void answered(const ClaimResult& result);
  void owner_changed(const RegistryEvent& event);
  void lose(const std::string& why);
  void set_held(bool held, const std::string& why);

  Setting setting_;
  Claim claim_;
  bool held_ = false, claiming_ = false;
  bool is_free_ = true;  // as far as is known
  uint64_t highest_epoch_ = 0;
  Time next_try_{};
};

}  // namespace cheetah::cluster
