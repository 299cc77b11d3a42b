// SPDX-License-Identifier: MIT
// What every registry promises, asked of each kind.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <set>

#include "base/error.h"
#include "base/format.h"
#include "base/published.h"
#include "cluster/registry/claim.h"
#include "cluster/registry/known_map.h"
#include "cluster/registry/registry_backends.h"
#include "cluster/services/service_fixture.h"

namespace cheetah::cluster {
namespace {

using Kind = RegistryEvent::Kind;

// Waits for callbacks of a registry, with a deadline.
template <class Result, class Start>
Result answer_of(Start&& start) {
  const auto promise = std::make_shared<std::promise<Result>>();
  auto future = promise->get_future();
  start([promise](const Result& result) { promise->set_value(result); });
  if (future.wait_for(std::chrono::seconds(60)) != std::future_status::ready) {
    ADD_FAILURE() << "a callback did not come";
    return {};
  }
  return future.get();
}

TransactionResult transact(Registry& node, Transaction transaction) {
  return answer_of<TransactionResult>([&](auto done) { node.transact(std::move(transaction), done); });
}

ClaimResult claim_now(Registry& node, const std::string& name, const std::string& owner, uint64_t least = 0) {
  return answer_of<ClaimResult>([&](auto done) { claim(node, name, owner, least, done); });
}

TransactionResult put_for_good(Registry& node, const std::string& key, const std::string& value) {
  return transact(node, {.expect = {}, .writes = {{key, value, false}}});
}

std::string value_at(const Registry& node, const std::string& key) {
  const auto entries = node.list(key);
  const auto entry = entries.find(key);
  return entry == entries.end() ? "(none)" : entry->second.value;
}

// Everything a watch was told.
class Watcher {
 public:
  Watcher(Registry& node, std::string prefix) : node_(node) {
    id_ = node.watch(std::move(prefix),
        [this](const RegistryEvent& event) { events_.with([&](auto& events) { events.push_back(event); }); });
  }
  ~Watcher() { node_.unwatch(id_); }
  std::vector<RegistryEvent> events() const { return events_.copy(); }
  int64_t count(Kind kind, std::string_view key = {}) const {
    return events_.with([&](const auto& events) {
      return std::ranges::count_if(events, [&](const RegistryEvent& event) {
        return event.kind == kind && (key.empty() || event.entry.key == key);
      });
    });
  }

 private:
  Registry& node_;
  Registry::WatchId id_{};
  mutable Published<std::vector<RegistryEvent>> events_;
};

class Notices {
 public:
  explicit Notices(Registry& node) {
    node.on_notice([seen = seen_](const RegistryNotice& notice) {
      seen->with([&](auto& all) { all.push_back(notice.kind); });
    });
  }
  int64_t count(RegistryNotice::Kind kind) const {
    return seen_->with([&](const auto& all) { return std::ranges::count(all, kind); });
  }

 private:
  // With the registry's callback.
  std::shared_ptr<Published<std::vector<RegistryNotice::Kind>>> seen_ =
      std::make_shared<Published<std::vector<RegistryNotice::Kind>>>();
};

class RegistryConformance : public testing::TestWithParam<RegistryKind> {
 protected:
  void SetUp() override {
    backend_ = GetParam().make();
    if (backend_ == nullptr) GTEST_SKIP() << GetParam().name << " is not installed here";
  }
  std::unique_ptr<RegistryBackend> backend_;
};

TEST_P(RegistryConformance, EveryNodeSeesWhatOneAnnouncesAndHowItChanges) {
  const auto a = backend_->join(), b = backend_->join();
  const std::string binary("\0\xff\x01 any bytes \n\"", 16);
  a->announce("workers/a", "one");
  b->announce("workers/b", binary);
  EXPECT_TRUE(eventually([&] { return a->list("workers/").size() == 2 && b->list("workers/").size() == 2; }));
  EXPECT_EQ(value_at(*b, "workers/a"), "one");
  EXPECT_EQ(value_at(*a, "workers/b"), binary);
  a->announce("workers/a", "two");
  EXPECT_TRUE(eventually([&] { return value_at(*b, "workers/a") == "two"; }));
  a->withdraw("workers/a");
  EXPECT_TRUE(eventually([&] { return b->list("").size() == 1; }));
  EXPECT_TRUE(a->is_shared());
  EXPECT_TRUE(a->state().up);
}

TEST_P(RegistryConformance, AWatchTellsWhatIsThereThenThatThisWasAllThenEachChangeOnce) {
  const auto a = backend_->join(), b = backend_->join();
  a->announce("workers/1", "x");
  a->announce("workers/2", "x");
  a->announce("other/3", "x");
  ASSERT_TRUE(eventually([&] { return b->list("").size() == 3; }));
  const Watcher watcher(*b, "workers/");
  ASSERT_TRUE(eventually([&] { return watcher.count(Kind::kSynced) == 1; }));
  ASSERT_EQ(watcher.events().size(), 3u);
  EXPECT_EQ(watcher.events()[1].entry.key, "workers/2");
  EXPECT_EQ(watcher.events()[2].kind, Kind::kSynced);
  a->announce("workers/1", "x");  // nothing new
  a->announce("other/3", "y");
  a->announce("workers/2", "y");
  a->withdraw("workers/1");
  ASSERT_TRUE(eventually([&] { return watcher.count(Kind::kRemove) == 1; }));
  ASSERT_EQ(watcher.events().size(), 5u);
  EXPECT_EQ(watcher.events()[3].entry.value, "y");
  EXPECT_EQ(watcher.events()[4].entry.key, "workers/1");
}

TEST_P(RegistryConformance, WhatANodeAnnouncedGoesWhenItLeavesAndConfigurationStays) {
  const auto a = backend_->join();
  auto b = backend_->join();
  b->announce("workers/b", "x");
  EXPECT_EQ(put_for_good(*b, "config/routing", "p1").kind, TransactionResult::Kind::kDone);
  ASSERT_TRUE(eventually([&] { return a->list("").size() == 2; }));
  b.reset();
  EXPECT_TRUE(eventually([&] { return a->list("workers/").empty(); }));
  EXPECT_EQ(value_at(*a, "config/routing"), "p1");
}

TEST_P(RegistryConformance, ATransactionHappensWhollyOrNotAtAll) {
  const auto a = backend_->join(), b = backend_->join();
  const auto made =
      transact(*a, {.expect = {{"k/1", 0}, {"k/2", 0}}, .writes = {{"k/1", "x"}, {"k/2", "x"}}});
  ASSERT_EQ(made.kind, TransactionResult::Kind::kDone);
  ASSERT_TRUE(eventually([&] { return b->list("k/").size() == 2; }));
  EXPECT_EQ(b->list("k/").at("k/1").revision, made.revision);
  EXPECT_EQ(b->list("k/").at("k/2").revision, made.revision);

  const auto refused =
      transact(*b, {.expect = {{"k/1", made.revision}, {"k/2", 0}}, .writes = {{"k/1", "y"}}});
  EXPECT_EQ(refused.kind, TransactionResult::Kind::kConflict);
  EXPECT_EQ(refused.current.size(), 2u);

  const auto moved = transact(*b, {.expect = {{"k/1", made.revision}, {"k/2", made.revision}},
                                      .writes = {{"k/1", "y"}, {"k/2", std::nullopt}}});
  EXPECT_EQ(moved.kind, TransactionResult::Kind::kDone);
  EXPECT_GT(moved.revision, made.revision);
  EXPECT_TRUE(eventually([&] { return a->list("k/").size() == 1 && value_at(*a, "k/1") == "y"; }));
}

TEST_P(RegistryConformance, OneOfManyClaimantsHoldsTheSeatAndTheEpochCountsUp) {
  const auto watching = backend_->join();
  uint64_t last = 0;
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<Registry>> nodes;
    for (int i = 0; i < 4; ++i) nodes.push_back(backend_->join());
    std::vector<std::future<ClaimResult>> claims;
    for (const auto& node : nodes)
      claims.push_back(
          std::async(std::launch::async, [&] { return claim_now(*node, "owner/planner", "me"); }));
    int held = 0;
    for (auto& future : claims) {
      const ClaimResult result = future.get();
      EXPECT_EQ(result.owner, result.kind == ClaimResult::Kind::kTaken ? "me" : "");
      if (result.kind != ClaimResult::Kind::kHeld) continue;
      ++held;
      EXPECT_GT(result.claim.epoch, last);
      last = result.claim.epoch;
    }
    EXPECT_EQ(held, 1);
    nodes.clear();  // they leave, and with them the owner
    ASSERT_TRUE(eventually([&] { return value_at(*watching, "owner/planner") == "(none)"; }));
  }
  EXPECT_EQ(claim_now(*watching, "owner/planner", "me", 1000).claim.epoch, 1001u);
}

TEST_P(RegistryConformance, AnOwnerThatWasCutOffIsFencedByItsEpoch) {
  const auto a = backend_->join_cuttable(), b = backend_->join();
  const Notices notices(*a);
  const ClaimResult first = claim_now(*a, "owner/planner", "a");
  ASSERT_EQ(first.kind, ClaimResult::Kind::kHeld);
  Transaction early{.expect = {}, .writes = {{"config/roles", "by a", false}}};
  guard(early, first.claim);
  EXPECT_EQ(transact(*a, early).kind, TransactionResult::Kind::kDone);

  backend_->cut_off(*a);
  ASSERT_TRUE(eventually([&] { return notices.count(RegistryNotice::Kind::kLeaseLost) == 1; }));
  ClaimResult second;
  ASSERT_TRUE(eventually([&] {
    second = claim_now(*b, "owner/planner", "b");
    return second.kind == ClaimResult::Kind::kHeld;
  }));
  EXPECT_GT(second.claim.epoch, first.claim.epoch);

  backend_->reconnect(*a);
  ASSERT_TRUE(eventually([&] { return a->state().up; }));
  Transaction late{.expect = {}, .writes = {{"config/roles", "by a, late", false}}};
  guard(late, first.claim);
  TransactionResult result;
  ASSERT_TRUE(eventually([&] {
    result = transact(*a, late);
    return result.kind != TransactionResult::Kind::kUnavailable;
  }));
  EXPECT_EQ(result.kind, TransactionResult::Kind::kConflict);
  EXPECT_EQ(value_at(*b, "config/roles"), "by a");
  EXPECT_GT(second.claim.epoch, first.claim.epoch);
}

TEST_P(RegistryConformance, ANodeThatLostItsLeaseAnnouncesItselfAgain) {
  const auto a = backend_->join_cuttable(), b = backend_->join();
  const Notices notices(*a);
  a->announce("workers/a", "x");
  b->announce("workers/b", "x");
  ASSERT_TRUE(eventually([&] { return a->list("").size() == 2 && b->list("").size() == 2; }));
  const Watcher watcher(*b, "workers/a");
  backend_->cut_off(*a);
  ASSERT_TRUE(eventually([&] { return watcher.count(Kind::kRemove) == 1; }));
  EXPECT_EQ(value_at(*a, "workers/b"), "x");  // its last known map
  a->announce("workers/a", "y");
  backend_->reconnect(*a);
  EXPECT_TRUE(eventually([&] { return value_at(*b, "workers/a") == "y"; }));
  EXPECT_TRUE(eventually([&] { return notices.count(RegistryNotice::Kind::kUp) >= 1; }));
  EXPECT_EQ(notices.count(RegistryNotice::Kind::kLeaseLost), 1);
}

TEST_P(RegistryConformance, TheLastKnownMapSurvivesAnOutageThatHealsByItself) {
  const auto a = backend_->join(), b = backend_->join();
  a->announce("workers/a", "x");
  b->announce("workers/b", "x");
  ASSERT_TRUE(eventually([&] { return a->list("").size() == 2 && b->list("").size() == 2; }));
  const Watcher watcher(*b, "");
  backend_->stop_service();
  ASSERT_TRUE(eventually([&] { return !a->state().up && !b->state().up; }));
  EXPECT_FALSE(b->state().why.empty());
  EXPECT_EQ(transact(*b, {.expect = {}, .writes = {{"k", "v", false}}}).kind,
      TransactionResult::Kind::kUnavailable);
  a->announce("workers/a", "while it was down");
  EXPECT_EQ(b->list("").size(), 2u);
  const auto late = backend_->join();  // starts during the outage

  backend_->start_service();
  EXPECT_TRUE(eventually([&] { return a->state().up && b->state().up && late->state().up; }));
  EXPECT_TRUE(eventually([&] { return value_at(*b, "workers/a") == "while it was down"; }));
  EXPECT_TRUE(eventually([&] { return late->list("").size() == 2; }));
  EXPECT_EQ(watcher.count(Kind::kRemove), 0);
}

TEST_P(RegistryConformance, AWatchThatEndedIsNotCalledAgain) {
  const auto a = backend_->join();
  auto calls = std::make_unique<std::atomic<int>>(0);
  const auto id = a->watch("", [&](const RegistryEvent&) { ++*calls; });
  std::jthread writer([&](std::stop_token stop) {
    for (int i = 0; !stop.stop_requested() && i < 2000; ++i) a->announce("k", std::to_string(i));
  });
  EXPECT_TRUE(eventually([&] { return *calls > 0; }));
  a->unwatch(id);
  calls.reset();
}

TEST_P(RegistryConformance, ManyKeysAreListedAndWhatIsTooLargeIsRefused) {
  const auto a = backend_->join(), b = backend_->join();
  for (int i = 0; i < 100; ++i) a->announce(format("workers/{:03}", i), std::string(200, 'x'));
  a->announce("large", std::string(500'000, 'x'));
  EXPECT_TRUE(eventually([&] { return b->list("workers/").size() == 100; }));
  EXPECT_TRUE(eventually([&] { return value_at(*b, "large").size() == 500'000; }));
  EXPECT_THROW(a->announce("", "x"), Error);
  EXPECT_THROW(a->announce(std::string(513, 'k'), "x"), Error);
  EXPECT_THROW(a->announce("k", std::string((1 << 20) + 1, 'x')), Error);
  EXPECT_THROW(
      a->transact({.expect = std::vector<Transaction::Expectation>(65, {"k", 0}), .writes = {}}, {}), Error);
}

const RegistryKind kKinds[] = {{"in_process", in_process_registry_backend}, {"etcd", etcd_registry_backend}};
INSTANTIATE_TEST_SUITE_P(
    Every, RegistryConformance, testing::ValuesIn(kKinds), [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace cheetah::cluster
