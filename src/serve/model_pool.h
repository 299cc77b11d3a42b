// SPDX-License-Identifier: MIT
#pragma once
// Several models in one process: each is loaded when a call asks for it and unloaded when others need its memory.
// Nothing that runs is cut off by that: a model goes once its last call has ended, and calls that ask for it
// meanwhile wait until it is back.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/mailbox.h"
#include "base/published.h"
#include "observe/event_log.h"
#include "serve/api/api_error.h"
#include "serve/backend.h"

namespace cheetah {

struct PooledModel {
  std::string name;  // as clients and answers say it
  std::vector<std::string> aliases = {};
  std::string path = {};
  int64_t created = 0;  // when its files were written, in seconds since 1970
  int64_t bytes = 0;    // of its files

  bool answers_to(std::string_view wanted) const;
};

// A model in memory; its backend lives as long.
class HeldModel {
 public:
  virtual ~HeldModel() = default;
  virtual const Backend& backend() const = 0;
};

// Brings models into memory. Called on the pool's loading thread alone.
class ModelLoader {
 public:
  virtual ~ModelLoader() = default;
  // Why it does not fit beside those that are loaded; "": it does. Throws Error where it never will.
  virtual std::string no_room_for(const PooledModel& model, bool others_loaded) = 0;
  virtual std::unique_ptr<HeldModel> load(const PooledModel& model) = 0;  // throws Error
};

enum class ModelState { kUnloaded, kLoading, kLoaded, kUnloading };
std::string_view name_of(ModelState state);

// While this is held, the model stays.
using ModelLease = std::shared_ptr<const Backend>;

struct ModelStatus {
  PooledModel model;
  ModelState state = ModelState::kUnloaded;
  bool asleep = false;  // until a call or wake_up() wants it
  std::string why;      // the last attempt to load it failed
  ModelLease backend;   // of a loaded one
  std::optional<std::chrono::system_clock::time_point> expires;
};

class ModelPool {
 public:
  struct Settings {
    int64_t max_loaded = 0;    // 0: as many as memory holds
    double keep_alive_s = -1;  // a model that is not asked for so long is unloaded; below 0: it stays
  };
  struct Wish {
    std::string model;                   // "": the one used last, or the first
    std::optional<double> keep_alive_s;  // in place of the settings', from now on
  };
  using Answer = std::variant<ModelLease, ApiError>;
  using Done = std::function<void(std::optional<ApiError>)>;

  // At least one model. The log must outlive it.
  ModelPool(
      std::unique_ptr<ModelLoader> loader, std::vector<PooledModel> models, Settings settings, EventLog& log);
  ~ModelPool();

  // These may be called on any thread and return at once; answers come on the pool's own thread and must only be
  // handed on.
  void acquire(Wish wish, std::function<void(Answer)> granted);
  void load(std::string model, Done done);
  void unload(std::string model, Done done);  // "": all
  void sleep(std::string model, Done done);   // "": all that are loaded
  void wake_up(std::string model, Done done);

  std::vector<ModelStatus> models() const { return status_.copy(); }
  std::vector<ModelLease> loaded() const;  // used last first

  // No more leases; waits for the calls that run until the time is up.
  void drain(std::chrono::milliseconds limit);

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    uint64_t number = 0;  // in order of arrival
    Wish wish;
    std::function<void(Answer)> granted;
  };
  struct Entry {
    PooledModel model;
    ModelState state = ModelState::kUnloaded;
    bool asleep = false;
    bool leaves = false;  // as soon as it is loaded: it was told to while it was on its way
    std::string why;
    std::unique_ptr<HeldModel> held;
    ModelLease lease;  // the pool's own; none once it is to go
    std::vector<Waiting> waiting;
    std::vector<Done> when_unloaded;
    double keep_alive_s = -1;
    Clock::time_point used{};
    std::optional<Clock::time_point> expires;
  };
  enum class Order { kLoad, kUnload, kSleep, kWake };
  struct Ordered {
    Order order;
    std::string model;
    Done done;
  };
  struct Asked {
    Wish wish;
    std::function<void(Answer)> granted;
  };
  struct Loaded {  // by the loading thread: held, or why not
    size_t index;
    std::unique_ptr<HeldModel> held;
    std::string why;
    bool no_room = false;
  };
  struct Unleased {  // the last lease is gone
    size_t index;
  };
  struct Unloaded {
    size_t index;
  };
  struct Refuse {};
  using Command = std::variant<Asked, Ordered, Loaded, Unleased, Unloaded, Refuse>;
  struct Job {
    size_t index = 0;
    std::unique_ptr<HeldModel> unload;  // nullptr: load
    bool others_loaded = false;
  };

  void loop();
  void take(Command& command);
  void ask(Asked& asked);
  void obey(Ordered& ordered);
  void take_loaded(Loaded& loaded);
  void take_unloaded(size_t index);
  void want(Entry& entry, Wish wish, std::function<void(Answer)> granted);
  void grant(Entry& entry);
  void answer(const std::function<void(Answer)>& granted, Answer given);
  void end(const Done& done, const std::optional<ApiError>& error);
  void tell();
  void fail(Entry& entry, const ApiError& error);
  void advance();
  void make_room();
  void close(Entry& entry);
  void expire(Clock::time_point now);
  Clock::time_point next_expiry() const;
  void publish();
  Entry* find(const std::string& name);
  ApiError unknown(const std::string& name) const;
  bool any_in(ModelState state) const;
  static bool is_busy(const Entry& entry);
  void work();

  std::unique_ptr<ModelLoader> loader_;
  const Settings settings_;
  EventLog& log_;
  std::vector<Entry> entries_;  // of loop()'s thread
  uint64_t num_asked_ = 0;
  std::vector<std::function<void()>> told_;
  bool refuses_ = false;
  bool waits_for_room_ = false;  // nothing is loaded before something has gone
  Published<std::vector<ModelStatus>> status_;
  std::shared_ptr<Mailbox<Command>> inbox_ = std::make_shared<Mailbox<Command>>();  // shared with leases
  Mailbox<Job> jobs_;
  std::thread worker_, thread_;
};

}  // namespace cheetah
