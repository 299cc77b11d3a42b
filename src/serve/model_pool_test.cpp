// SPDX-License-Identifier: MIT
#include "serve/model_pool.h"

#include <gtest/gtest.h>

#include "serve/pool_fixture.h"

namespace cheetah {
namespace {

struct PoolFixture {
  explicit PoolFixture(ModelPool::Settings settings = {}, int64_t room = 100) : log(quiet().log) {
    plan.room = room;
    pool = std::make_unique<ModelPool>(
        std::make_unique<SmallLoader>(plan), named_models({"a", "b", "c"}), settings, log);
  }
  using Future = std::future<ModelPool::Answer>;
  Future ask(const std::string& model, std::optional<double> keep_alive_s = std::nullopt) {
    auto answer = std::make_shared<std::promise<ModelPool::Answer>>();
    pool->acquire({.model = model, .keep_alive_s = keep_alive_s},
        [answer](ModelPool::Answer given) { answer->set_value(std::move(given)); });
    return answer->get_future();
  }
  static ModelLease lease_of(Future future) {
    ModelPool::Answer answer = future.get();
    if (const auto* error = std::get_if<ApiError>(&answer)) {
      ADD_FAILURE() << error->message;
      return nullptr;
    }
    return std::get<ModelLease>(std::move(answer));
  }
  static ApiError error_of(Future future) {
    ModelPool::Answer answer = future.get();
    EXPECT_TRUE(std::holds_alternative<ApiError>(answer));
    return std::holds_alternative<ApiError>(answer) ? std::get<ApiError>(answer) : ApiError{};
  }
  std::string use(const std::string& model) { return lease_of(ask(model))->services.model_name; }
  template <class Order>
  std::optional<ApiError> done(const Order& order) {
    auto answer = std::make_shared<std::promise<std::optional<ApiError>>>();
    order([answer](std::optional<ApiError> error) { answer->set_value(std::move(error)); });
    return answer->get_future().get();
  }
  ModelStatus status(const std::string& name) const {
    for (ModelStatus& one : pool->models())
      if (one.model.name == name) return one;
    return {};
  }

  EventLog log;
  PoolPlan plan;  // outlives the pool
  std::unique_ptr<ModelPool> pool;
};

TEST(ModelPool, LoadsAModelWhenItIsAskedForAndKeepsIt) {
  PoolFixture f;
  EXPECT_EQ(f.plan.history.text(), "");
  EXPECT_EQ(f.status("b").state, ModelState::kUnloaded);
  EXPECT_EQ(f.use("b"), "b");
  EXPECT_EQ(f.use("b:latest"), "b") << "as Ollama's clients say it";
  EXPECT_EQ(f.use(""), "b") << "the one used last";
  EXPECT_EQ(f.plan.history.text(), "+b");
  EXPECT_EQ(f.use("a"), "a");
  EXPECT_EQ(f.plan.history.text(), "+b +a");
}

TEST(ModelPool, AnUnknownModelIsRefusedWithTheNamesThereAre) {
  PoolFixture f;
  const ApiError error = PoolFixture::error_of(f.ask("x"));
  EXPECT_EQ(error.status, 404);
  EXPECT_EQ(error.message, R"(the model "x" does not exist here; this server has "a", "b", "c")");
}

TEST(ModelPool, TheLeastRecentlyUsedMakesRoom) {
  for (const bool by_count : {true, false}) {
    PoolFixture f({.max_loaded = by_count ? 2 : 0}, by_count ? 100 : 2);
    f.use("a");
    f.use("b");
    f.use("a");
    f.use("c");
    EXPECT_EQ(f.plan.history.text(), "+a +b -b +c");
  }
}

TEST(ModelPool, AModelInUseIsNotTakenAwayAndTheOtherWaits) {
  PoolFixture f({.max_loaded = 1});
  ModelLease held = PoolFixture::lease_of(f.ask("a"));
  auto waiting = f.ask("b");
  EXPECT_TRUE(eventually([&] { return f.status("a").state == ModelState::kUnloading; }));
  auto again = f.ask("a");  // must not push in front of b forever
  EXPECT_EQ(f.plan.history.text(), "+a");
  EXPECT_EQ(held->engine.config().max_sequences, 8) << "it lives";
  held.reset();
  EXPECT_EQ(PoolFixture::lease_of(std::move(waiting))->services.model_name, "b");
  EXPECT_EQ(PoolFixture::lease_of(std::move(again))->services.model_name, "a");
  EXPECT_EQ(f.plan.history.text(), "+a -a +b -b +a");
}

TEST(ModelPool, WhatCannotBeLoadedSaysWhyAndIsTriedAgain) {
  PoolFixture f;
  f.plan.broken = {"a"};
  const ApiError error = PoolFixture::error_of(f.ask("a"));
  EXPECT_EQ(error.status, 503);
  EXPECT_EQ(error.message, R"(the model "a" cannot be loaded: its file is broken)");
  EXPECT_EQ(f.status("a").why, "its file is broken");
  f.use("b");
  f.plan.broken.clear();
  EXPECT_EQ(f.use("a"), "a");
  EXPECT_EQ(f.status("a").why, "");
}

TEST(ModelPool, AModelThatNeverFitsIsRefusedOnceNothingElseIsLoaded) {
  PoolFixture f({}, 1);
  f.use("a");
  f.plan.room = 0;
  EXPECT_EQ(PoolFixture::error_of(f.ask("b")).message, R"(the model "b" cannot be loaded: it never fits)");
  EXPECT_EQ(f.plan.history.text(), "+a -a");
}

TEST(ModelPool, KeepAliveUnloadsAnIdleModel) {
  PoolFixture f;
  PoolFixture::lease_of(f.ask("a", 0));
  EXPECT_TRUE(eventually([&] { return f.plan.history.text() == "+a -a"; }));
  ModelLease held = PoolFixture::lease_of(f.ask("b", 0.02));
  EXPECT_TRUE(f.status("b").expires);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  EXPECT_EQ(f.plan.history.text(), "+a -a +b") << "it is in use";
  held.reset();
  EXPECT_TRUE(eventually([&] { return f.plan.history.text() == "+a -a +b -b"; }));
}

TEST(ModelPool, SleepsAndWakes) {
  PoolFixture f;
  f.use("a");
  f.use("b");
  EXPECT_FALSE(f.done([&](auto done) { f.pool->sleep("", done); }));
  EXPECT_TRUE(f.status("a").asleep && f.status("b").asleep && !f.status("c").asleep);
  EXPECT_TRUE(f.pool->loaded().empty());
  EXPECT_FALSE(f.done([&](auto done) { f.pool->wake_up("a", done); }));
  EXPECT_EQ(f.status("a").state, ModelState::kLoaded);
  EXPECT_TRUE(f.status("b").asleep);
  f.use("b");
  EXPECT_FALSE(f.status("b").asleep) << "a call wakes it too";
}

TEST(ModelPool, IsToldToLoadAndUnload) {
  PoolFixture f;
  EXPECT_FALSE(f.done([&](auto done) { f.pool->load("c", done); }));
  EXPECT_EQ(f.plan.history.text(), "+c");
  EXPECT_FALSE(f.done([&](auto done) { f.pool->unload("c", done); }));
  EXPECT_EQ(f.plan.history.text(), "+c -c");
  EXPECT_EQ(f.done([&](auto done) { f.pool->unload("x", done); })->status, 404);
  EXPECT_FALSE(f.done([&](auto done) { f.pool->unload("a", done); })) << "it is not there";
}

TEST(ModelPool, WhatIsToldToGoWhileItIsLoadedGoesAfterItsCalls) {
  PoolFixture f;
  std::promise<void> open;
  f.plan.loads = open.get_future().share();
  auto waiting = f.ask("a");
  EXPECT_TRUE(eventually([&] { return f.status("a").state == ModelState::kLoading; }));
  std::promise<void> unloaded;
  f.pool->unload("a", [&](const std::optional<ApiError>&) { unloaded.set_value(); });
  EXPECT_TRUE(f.done([&](auto done) { f.pool->load("x", done); }));
  open.set_value();
  ModelLease held = PoolFixture::lease_of(std::move(waiting));
  EXPECT_EQ(held->services.model_name, "a");
  held.reset();
  unloaded.get_future().get();
  EXPECT_EQ(f.plan.history.text(), "+a -a");
}

TEST(ModelPool, DrainingRefusesThoseThatWait) {
  PoolFixture f;
  std::promise<void> open;
  f.plan.loads = open.get_future().share();
  auto waiting = f.ask("a");
  f.pool->drain(std::chrono::milliseconds(0));
  EXPECT_EQ(PoolFixture::error_of(std::move(waiting)).code, "draining");
  EXPECT_EQ(PoolFixture::error_of(f.ask("b")).code, "draining");
  open.set_value();
}

}  // namespace
}  // namespace cheetah
