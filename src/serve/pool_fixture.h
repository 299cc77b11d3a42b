// SPDX-License-Identifier: MIT
#pragma once
// For tests: a pool whose models cost nothing to load, and what it did.
#include <atomic>
#include <future>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/published.h"
#include "serve/model_pool.h"
#include "serve/server_fixture.h"

namespace cheetah {

// What happened, in order: "+a" is a loaded, "-a" unloaded.
class PoolHistory {
 public:
  void add(const std::string& what) {
    lines_.with([&](std::string& all) { all += (all.empty() ? "" : " ") + what; });
  }
  std::string text() const { return lines_.copy(); }

 private:
  Published<std::string> lines_;
};

// A real engine of the small model under a name of its own.
class SmallHeldModel final : public HeldModel {
 public:
  SmallHeldModel(const std::string& name, PoolHistory& history)
      : name_(name), history_(history), engine_(small_model(), small_engine()) {
    ApiServices services = small_services();
    services.model_name = name;
    services.aliases.clear();
    backend_ = std::make_unique<Backend>(Backend{engine_, std::move(services)});
    history_.add("+" + name_);
  }
  ~SmallHeldModel() override { history_.add("-" + name_); }
  const Backend& backend() const override { return *backend_; }

 private:
  std::string name_;
  PoolHistory& history_;
  Engine engine_;
  std::unique_ptr<Backend> backend_;
};

struct PoolPlan {
  PoolHistory history;
  int64_t room = 100;                // models that fit
  std::set<std::string> broken;      // cannot be loaded
  std::shared_future<void> loads{};  // where set, loading waits for it
};

class SmallLoader final : public ModelLoader {
 public:
  explicit SmallLoader(PoolPlan& plan) : plan_(plan) {}
  std::string no_room_for(const PooledModel&, bool others_loaded) override {
    const int64_t loaded =
        std::ranges::count(plan_.history.text(), '+') - std::ranges::count(plan_.history.text(), '-');
    if (loaded < plan_.room) return "";
    return others_loaded ? "memory is short" : "it never fits";
  }
  std::unique_ptr<HeldModel> load(const PooledModel& model) override {
    if (plan_.loads.valid()) plan_.loads.wait();
    if (plan_.broken.contains(model.name)) throw Error("its file is broken");
    return std::make_unique<SmallHeldModel>(model.name, plan_.history);
  }

 private:
  PoolPlan& plan_;
};

inline std::vector<PooledModel> named_models(const std::vector<std::string>& names) {
  std::vector<PooledModel> models;
  for (const std::string& name : names) models.push_back({.name = name});
  return models;
}

}  // namespace cheetah
