// SPDX-License-Identifier: MIT
// What every job queue and every event bus promises, asked of each kind.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <set>

#include "base/error.h"
#include "base/format.h"
#include "base/published.h"
#include "cluster/queue/queue_backends.h"
#include "cluster/services/service_fixture.h"

namespace cheetah::cluster {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kPatience{20'000};

PushResult push(JobQueue& queue, Job job) {
  const auto promise = std::make_shared<std::promise<PushResult>>();
  auto future = promise->get_future();
  queue.push(std::move(job), [promise](PushResult result) { promise->set_value(result); });
  if (future.wait_for(std::chrono::seconds(60)) == std::future_status::ready) return future.get();
  ADD_FAILURE() << "a callback did not come";
  return PushResult::kUnavailable;
}

// Pushes until the service takes it: one that has just started may refuse.
PushResult push_patiently(JobQueue& queue, const Job& job) {
  PushResult result = PushResult::kUnavailable;
  EXPECT_TRUE(eventually([&] {
    result = push(queue, job);
    return result != PushResult::kUnavailable;
  }));
  return result;
}

class QueueConformance : public testing::TestWithParam<QueueKind> {
 protected:
  void start(JobQueueConfig config = {}) { backend_ = GetParam().make(config); }
  void SetUp() override {
    start({.visibility = milliseconds(400)});
    if (backend_ == nullptr) GTEST_SKIP() << GetParam().name << " is not installed here";
  }
  std::unique_ptr<QueueBackend> backend_;
};

TEST_P(QueueConformance, AJobGoesToOneOfThemWholeAndIsGoneOnceAcknowledged) {
  const auto from = backend_->join_queue(), to = backend_->join_queue();
  std::string bytes(100'000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31);
  ASSERT_EQ(push_patiently(*from, {"job-1", bytes, 2}), PushResult::kQueued);
  const auto delivery = to->pull(kPatience);
  ASSERT_TRUE(delivery);
  EXPECT_EQ(delivery->id, "job-1");
  EXPECT_EQ(delivery->priority, 2);
  EXPECT_TRUE(delivery->bytes == bytes);
  EXPECT_FALSE(delivery->redelivered());
  to->ack(delivery->tag);
  EXPECT_FALSE(from->pull(milliseconds(900)));  // longer than the visibility timeout
  EXPECT_TRUE(to->state().up);
}

TEST_P(QueueConformance, UrgentJobsGoFirstAndEqualOnesInOrder) {
  const auto queue = backend_->join_queue();
  const char* ids[] = {"d1", "b1", "c1", "a1", "b2", "a2"};
  for (const char* id : ids) ASSERT_EQ(push_patiently(*queue, {id, "x", id[0] - 'a'}), PushResult::kQueued);
  std::string order;
  for (int i = 0; i < 6; ++i) {
    const auto delivery = queue->pull(kPatience);
    ASSERT_TRUE(delivery);
    order += delivery->id + " ";
    queue->ack(delivery->tag);
  }
  EXPECT_EQ(order, "a1 a2 b1 b2 c1 d1 ");
}

TEST_P(QueueConformance, AWaitingPullGetsWhatComesAndAnEmptyOneEnds) {
  const auto from = backend_->join_queue(), to = backend_->join_queue();
  ASSERT_EQ(push_patiently(*from, {"first", "x", 1}), PushResult::kQueued);
  to->ack(to->pull(kPatience).value().tag);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(to->pull(milliseconds(50)));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(40));
  auto waiting = std::async(std::launch::async, [&] { return to->pull(kPatience); });
  EXPECT_EQ(push(*from, {"second", "x", 3}), PushResult::kQueued);
  const auto delivery = waiting.get();
  ASSERT_TRUE(delivery);
  EXPECT_EQ(delivery->id, "second");
  to->ack(delivery->tag);
}

TEST_P(QueueConformance, TheDepthIsWhatNobodyHasTaken) {
  const auto a = backend_->join_queue(), b = backend_->join_queue();
  for (int i = 0; i < 3; ++i) ASSERT_EQ(push_patiently(*a, {std::to_string(i), "x", i}), PushResult::kQueued);
  EXPECT_TRUE(eventually([&] { return b->depth() == 3; }));
  a->ack(a->pull(kPatience).value().tag);
  EXPECT_TRUE(eventually([&] { return b->depth() == 2; }));
}

TEST_P(QueueConformance, AWaitingPullCanBeWoken) {
  const auto queue = backend_->join_queue();
  auto waiting = std::async(std::launch::async, [&] { return queue->pull(std::chrono::minutes(5)); });
  queue->wake();
  EXPECT_EQ(waiting.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_FALSE(waiting.get());
}

TEST_P(QueueConformance, TheSameIdIsTheSameJob) {
  const auto a = backend_->join_queue(), b = backend_->join_queue();
  ASSERT_EQ(push_patiently(*a, {"once", "x", 1}), PushResult::kQueued);
  EXPECT_EQ(push_patiently(*b, {"once", "x", 1}), PushResult::kDuplicate);
  const auto delivery = b->pull(kPatience);
  ASSERT_TRUE(delivery);
  b->ack(delivery->tag);
  EXPECT_EQ(push_patiently(*a, {"once", "x", 1}), PushResult::kDuplicate);
  EXPECT_FALSE(b->pull(milliseconds(100)));
}

TEST_P(QueueConformance, AJobNobodyAcknowledgesIsDeliveredAgain) {
  auto dying = backend_->join_queue();
  const auto other = backend_->join_queue();
  ASSERT_EQ(push_patiently(*dying, {"job", "x", 0}), PushResult::kQueued);
  const auto first = dying->pull(kPatience);
  ASSERT_TRUE(first);
  dying.reset();  // its consumer dies with it
  const auto second = other->pull(kPatience);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->id, "job");
  EXPECT_EQ(second->attempt, 2);
  EXPECT_TRUE(second->redelivered());
  other->ack(second->tag);
}

TEST_P(QueueConformance, AJobGivenBackIsDeliveredAtOnce) {
  start({.visibility = std::chrono::minutes(10), .max_age = std::chrono::minutes(30)});
  const auto a = backend_->join_queue(), b = backend_->join_queue();
  ASSERT_EQ(push_patiently(*a, {"job", "x", 0}), PushResult::kQueued);
  const auto first = a->pull(kPatience);
  ASSERT_TRUE(first);
  a->nack(first->tag);
  const auto second = b->pull(kPatience);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->id, "job");
  b->ack(second->tag);
}

TEST_P(QueueConformance, WhoeverIsStillAtItKeepsTheJob) {
  start({.visibility = milliseconds(2000)});
  const auto a = backend_->join_queue(), b = backend_->join_queue();
  ASSERT_EQ(push_patiently(*a, {"job", "x", 0}), PushResult::kQueued);
  const auto delivery = a->pull(kPatience);
  ASSERT_TRUE(delivery);
  std::atomic<bool> done{false};
  std::jthread working([&] {
    while (!done) {
      a->extend(delivery->tag);
      std::this_thread::sleep_for(milliseconds(20));
    }
  });
  EXPECT_FALSE(b->pull(milliseconds(2600)));
  done = true;
  working.join();
  a->ack(delivery->tag);
}

TEST_P(QueueConformance, AFullQueueAndAnOldJobAreSaidAndDropped) {
  start({.visibility = milliseconds(400),
      .max_age = milliseconds(1500),
      .dedup_window = milliseconds(1000),
      .max_jobs = 2});
  const auto queue = backend_->join_queue();
  int number = 0;
  const auto push_next = [&] { return push_patiently(*queue, {std::to_string(++number), "x", 0}); };
  EXPECT_TRUE(eventually([&] { return push_next() == PushResult::kFull; }));
  // Full for as long as the old ones live: then there is room again.
  EXPECT_TRUE(eventually([&] { return push_next() == PushResult::kQueued; }));
}

TEST_P(QueueConformance, AJobThatNobodySurvivesIsNotGivenOutForEver) {
  start({.visibility = milliseconds(200), .max_deliveries = 2});
  const auto queue = backend_->join_queue();
  ASSERT_EQ(push_patiently(*queue, {"poison", "x", 0}), PushResult::kQueued);
  EXPECT_TRUE(queue->pull(kPatience));
  EXPECT_TRUE(queue->pull(kPatience));
  EXPECT_FALSE(queue->pull(milliseconds(600)));
}

TEST_P(QueueConformance, WhatNoQueueTakesIsRefused) {
  const auto queue = backend_->join_queue();
  const auto never = [](PushResult) { ADD_FAILURE(); };
  EXPECT_THROW(queue->push({"id", "x", -1}, never), Error);
  EXPECT_THROW(queue->push({"id", "x", kNumPriorities}, never), Error);
  EXPECT_THROW(queue->push({"", "x", 0}, never), Error);
  EXPECT_THROW(queue->push({"two words", "x", 0}, never), Error);
  EXPECT_THROW(queue->push({std::string(257, 'i'), "x", 0}, never), Error);
}

TEST_P(QueueConformance, EveryJobIsDoneThoughWorkersDie) {
  constexpr int kJobs = 60;
  const auto from = backend_->join_queue();
  for (int i = 0; i < kJobs; ++i)
    ASSERT_EQ(push_patiently(*from, {format("job-{}", i), "x", i % kNumPriorities}), PushResult::kQueued);
  Published<std::set<std::string>> done;
  std::atomic<int> pulls{0};
  std::vector<std::jthread> workers;
  for (int w = 0; w < 3; ++w)
    workers.emplace_back([&](std::stop_token stop) {
      auto queue = backend_->join_queue();
      while (!stop.stop_requested()) {
        const auto delivery = queue->pull(milliseconds(50));
        if (!delivery) continue;
        if (++pulls % 5 == 0) {
          queue = backend_->join_queue();  // died with the job in its hands
          continue;
        }
        done.with([&](auto& ids) { ids.insert(delivery->id); });
        queue->ack(delivery->tag);
      }
    });
  EXPECT_TRUE(eventually([&] { return done.copy().size() == kJobs; }));
}

TEST_P(QueueConformance, AnOutageIsAStateThatHealsAndQueuedJobsSurviveIt) {
  const auto from = backend_->join_queue(), to = backend_->join_queue();
  ASSERT_EQ(push_patiently(*from, {"before", "x", 0}), PushResult::kQueued);
  backend_->stop_service();
  ASSERT_TRUE(eventually([&] { return !from->state().up && !to->state().up; }));
  EXPECT_FALSE(from->state().why.empty());
  EXPECT_EQ(push(*from, {"during", "x", 0}), PushResult::kUnavailable);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(to->pull(milliseconds(100)));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(90));
  const auto late = backend_->join_queue();  // starts during the outage

  backend_->start_service();
  EXPECT_TRUE(eventually([&] { return from->state().up && to->state().up && late->state().up; }));
  std::set<std::string> seen;
  EXPECT_TRUE(eventually([&] {
    push(*late, {"after", "x", 1});
    const auto delivery = to->pull(milliseconds(100));
    if (delivery) seen.insert(delivery->id), to->ack(delivery->tag);
    return seen.contains("before") && seen.contains("after");
  }));
}

class BusConformance : public QueueConformance {};

// What was heard, in order.
using Heard = Published<std::vector<std::pair<std::string, std::string>>>;

EventBus::Callback into(const std::shared_ptr<Heard>& heard) {
  return [heard](std::string_view subject, std::string_view bytes) {
    heard->with([&](auto& all) { all.emplace_back(subject, bytes); });
  };
}

// A subscription takes a moment to reach a service: publishes until it is heard.
void wait_until_heard(EventBus& from, const std::string& subject, Heard& heard) {
  ASSERT_TRUE(eventually([&] {
    from.publish(subject, "are you there?");
    return heard.with([](const auto& all) { return !all.empty(); });
  }));
}

TEST_P(BusConformance, EveryListenerHearsItsSubjectsInOrder) {
  const auto from = backend_->join_bus(), to = backend_->join_bus(), other = backend_->join_bus();
  const auto one = std::make_shared<Heard>(), all = std::make_shared<Heard>(),
             mine = std::make_shared<Heard>();
  to->subscribe("kv.a", into(one));
  other->subscribe("kv.*", into(all));
  from->subscribe("kv.>", into(mine));
  wait_until_heard(*from, "kv.a", *one);
  wait_until_heard(*from, "kv.a", *all);
  wait_until_heard(*from, "kv.a", *mine);
  const auto binary = std::string("\0\xff\n", 3);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(from->publish("kv.a", binary + std::to_string(i)));
    EXPECT_TRUE(from->publish("kv.b", "b"));
    EXPECT_TRUE(from->publish("kv", "nobody"));
  }
  const auto numbered = [&](Heard& heard) {
    std::string text;
    for (const auto& [subject, bytes] : heard.copy())
      if (subject == "kv.a" && bytes.starts_with(binary)) text += bytes.substr(3) + " ";
    return text;
  };
  std::string expected;
  for (int i = 0; i < 100; ++i) expected += std::to_string(i) + " ";
  EXPECT_TRUE(eventually([&] { return numbered(*one) == expected; }));
  EXPECT_TRUE(eventually([&] { return numbered(*all) == expected; }));
  EXPECT_TRUE(eventually([&] { return numbered(*mine) == expected; }));
  for (const auto& [subject, bytes] : one->copy()) EXPECT_EQ(subject, "kv.a");
  EXPECT_EQ(to->num_dropped(), 0);
}

TEST_P(BusConformance, ASubscriptionThatEndedIsNotCalledAgain) {
  const auto from = backend_->join_bus(), to = backend_->join_bus();
  auto calls = std::make_unique<std::atomic<int>>(0);
  const auto id = to->subscribe("kv.a", [&](std::string_view, std::string_view) { ++*calls; });
  std::jthread writer([&](std::stop_token stop) {
    while (!stop.stop_requested()) from->publish("kv.a", "x"), std::this_thread::sleep_for(milliseconds(1));
  });
  EXPECT_TRUE(eventually([&] { return *calls > 0; }));
  to->unsubscribe(id);
  calls.reset();
  std::this_thread::sleep_for(milliseconds(20));
}

TEST_P(BusConformance, ListenersAreStillThereAfterAnOutage) {
  const auto from = backend_->join_bus(), to = backend_->join_bus();
  const auto heard = std::make_shared<Heard>();
  to->subscribe("kv.a", into(heard));
  wait_until_heard(*from, "kv.a", *heard);
  backend_->stop_service();
  ASSERT_TRUE(eventually([&] { return !from->state().up && !to->state().up; }));
  EXPECT_FALSE(from->publish("kv.a", "lost"));
  const auto late = std::make_shared<Heard>();
  to->subscribe("kv.b", into(late));
  backend_->start_service();
  EXPECT_TRUE(eventually([&] { return from->state().up && to->state().up; }));
  EXPECT_TRUE(eventually([&] {
    from->publish("kv.a", "back");
    return std::ranges::any_of(heard->copy(), [](const auto& message) { return message.second == "back"; });
  }));
  wait_until_heard(*from, "kv.b", *late);
}

TEST_P(BusConformance, WhatIsNoSubjectIsRefused) {
  const auto bus = backend_->join_bus();
  for (const char* subject : {"", ".", "a.", ".a", "a b", "a.*", "a.>", "a\n"}) {
    EXPECT_THROW(bus->publish(subject, "x"), Error) << subject;
  }
  for (const char* pattern : {"", "a.", ">.a", "a*", "a.b>"}) {
    EXPECT_THROW(bus->subscribe(pattern, [](auto, auto) {}), Error) << pattern;
  }
  EXPECT_FALSE(bus->publish("kv.a", std::string(1'200'000, 'x')));
}

TEST(Subject, PatternsMatchByWord) {
  EXPECT_TRUE(
      matches("kv.a", "kv.a") && matches("kv.*", "kv.a") && matches("kv.>", "kv.a.b") && matches(">", "kv"));
  EXPECT_FALSE(
      matches("kv.a", "kv.b") || matches("kv.*", "kv.a.b") || matches("kv.>", "kv") || matches("kv", "kv.a"));
}

const QueueKind kKinds[] = {{"in_process", in_process_queue_backend}, {"nats", nats_queue_backend}};
INSTANTIATE_TEST_SUITE_P(
    Every, QueueConformance, testing::ValuesIn(kKinds), [](const auto& kind) { return kind.param.name; });
INSTANTIATE_TEST_SUITE_P(
    Every, BusConformance, testing::ValuesIn(kKinds), [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace cheetah::cluster
