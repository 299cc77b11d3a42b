// SPDX-License-Identifier: MIT
#include "cluster/node/planner_seat.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "cluster/registry/in_process_registry.h"

namespace cheetah::cluster {
namespace {

using std::chrono::milliseconds;

bool becomes(const std::function<bool()>& condition) {
  const Time until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(milliseconds(2));
  return condition();
}

// A router as far as its seat is concerned.
class SeatedRouter {
 public:
  SeatedRouter(const std::shared_ptr<RegistryStore>& store, uint64_t id)
      : registry_(std::make_unique<InProcessRegistry>(store)),
        seat_({.registry = *registry_,
            .loop = loop_,
            .self = WorkerId{id},
            .owner = std::to_string(id),
            .is_first = nullptr,
            .changed = [this](bool held, const std::string&) { held_ = held; }}) {
    loop_.start([this](Time now) {
      seat_.look(now);
      return now + milliseconds(5);
    });
  }
  ~SeatedRouter() {
    loop_.stop();
    registry_.reset();  // calls nobody any more
  }
  SeatedRouter(const SeatedRouter&) = delete;
  SeatedRouter& operator=(const SeatedRouter&) = delete;

  bool held() const { return held_; }
  int acts() const { return acts_; }
  void act() {
    loop_.post([this] { seat_.act("something", [this] { ++acts_; }); });
  }
  InProcessRegistry& registry() { return *registry_; }

 private:
  std::atomic<bool> held_ = false;
  std::atomic<int> acts_ = 0;
  NodeLoop loop_;
  std::unique_ptr<InProcessRegistry> registry_;
  PlannerSeat seat_;
};

TEST(PlannerSeat, OneOfSeveralRoutersPlansAndAnotherFollowsWhenItIsGone) {
  const auto store = std::make_shared<RegistryStore>(milliseconds(200));  // shared by the routers
  auto first = std::make_unique<SeatedRouter>(store, 1);
  ASSERT_TRUE(becomes([&] { return first->held(); }));
  SeatedRouter second(store, 2);
  first->act();
  ASSERT_TRUE(becomes([&] { return first->acts() == 1; }));
  second.act();
  EXPECT_FALSE(second.held());
  first.reset();
  ASSERT_TRUE(becomes([&] { return second.held(); }));
  EXPECT_EQ(second.acts(), 0) << "what it wanted before it had the seat is not done";
  second.act();
  EXPECT_TRUE(becomes([&] { return second.acts() == 1; }));
}

TEST(PlannerSeat, ARouterThatWasCutOffHasLostItsSeatAndCannotAct) {
  const auto store = std::make_shared<RegistryStore>(milliseconds(200));  // shared by the routers
  SeatedRouter first(store, 1);
  ASSERT_TRUE(becomes([&] { return first.held(); }));
  SeatedRouter second(store, 2);
  first.registry().cut_off();
  ASSERT_TRUE(becomes([&] { return second.held(); }));
  first.act();  // whether it has heard of its loss or not
  second.act();
  ASSERT_TRUE(becomes([&] { return second.acts() == 1; }));
  first.registry().reconnect();
  ASSERT_TRUE(becomes([&] { return !first.held(); })) << "a lost seat is noticed";
  EXPECT_EQ(first.acts(), 0);
  EXPECT_TRUE(second.held());
}

}  // namespace
}  // namespace cheetah::cluster
