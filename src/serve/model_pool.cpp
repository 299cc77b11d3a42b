// SPDX-License-Identifier: MIT
#include "serve/model_pool.h"

#include <malloc.h>

#include <algorithm>
#include <future>

#include "base/error.h"
#include "base/format.h"
#include "base/names.h"
#include "base/time.h"

namespace cheetah {
namespace {

// The pool's own lease and the one that it publishes.
constexpr int64_t kOwnLeases = 2;

ApiError draining() {
  return {.status = 503, .message = "the server is shutting down", .code = "draining", .retry_after_s = 1};
}

ApiError cannot_load(const std::string& name, const std::string& why) {
  return {.status = 503,
      .message = format("the model \"{}\" cannot be loaded: {}", name, printable(why, 500)),
      .param = "model",
      .code = "model_load_failed",
      .retry_after_s = 10};
}

// Calls `done` once every part is done, with the first error there was.
class Together {
 public:
  explicit Together(ModelPool::Done done) : state_(std::make_shared<State>(State{std::move(done), {}, 1})) {}
  ModelPool::Done part() {
    ++state_->open;
    return [state = state_](const std::optional<ApiError>& error) { end(*state, error); };
  }
  void begun() { end(*state_, std::nullopt); }  // no more parts

 private:
  struct State {
    ModelPool::Done done;
    std::optional<ApiError> error;
    int64_t open;
  };
  static void end(State& state, const std::optional<ApiError>& error) {
    if (!state.error) state.error = error;
    if (--state.open == 0) state.done(state.error);
  }
  std::shared_ptr<State> state_;  // shared with the parts
};

}  // namespace

std::string_view name_of(ModelState state) {
  constexpr auto kNames =
      enum_names<ModelState>({{ModelState::kUnloaded, "unloaded"}, {ModelState::kLoading, "loading"},
          {ModelState::kLoaded, "loaded"}, {ModelState::kUnloading, "unloading"}});
  return kNames[state];
}

bool PooledModel::answers_to(std::string_view wanted) const {
  constexpr std::string_view kTag = ":latest";  // Ollama's clients add it to names without a tag
  const std::string_view untagged =
      wanted.ends_with(kTag) ? wanted.substr(0, wanted.size() - kTag.size()) : wanted;
  const auto is = [&](std::string_view known) { return known == wanted || known == untagged; };
  return is(name) || std::ranges::any_of(aliases, is);
}

ModelPool::ModelPool(
    std::unique_ptr<ModelLoader> loader, std::vector<PooledModel> models, Settings settings, EventLog& log)
    : loader_(std::move(loader)), settings_(settings), log_(log) {
  CHEETAH_ASSERT(!models.empty(), "a pool has models");
  for (PooledModel& model : models) {
    entries_.emplace_back();
    entries_.back().model = std::move(model);
    entries_.back().keep_alive_s = settings.keep_alive_s;
  }
  publish();
  worker_ = std::thread([this] { work(); });
  thread_ = std::thread([this] { loop(); });
}

ModelPool::~ModelPool() {
  inbox_->close();
  thread_.join();
  jobs_.close();
  worker_.join();
  for (Entry& entry : entries_) fail(entry, draining());
  tell();
  status_.with([](std::vector<ModelStatus>& all) { all.clear(); });
  for (Entry& entry : entries_) entry.lease.reset();
}

void ModelPool::acquire(Wish wish, std::function<void(Answer)> granted) {
  if (!inbox_->post(Asked{std::move(wish), granted})) granted(draining());
}

void ModelPool::load(std::string model, Done done) {
  if (!inbox_->post(Ordered{Order::kLoad, std::move(model), done})) done(draining());
}
void ModelPool::unload(std::string model, Done done) {
  if (!inbox_->post(Ordered{Order::kUnload, std::move(model), done})) done(draining());
}
void ModelPool::sleep(std::string model, Done done) {
  if (!inbox_->post(Ordered{Order::kSleep, std::move(model), done})) done(draining());
}
void ModelPool::wake_up(std::string model, Done done) {
  if (!inbox_->post(Ordered{Order::kWake, std::move(model), done})) done(draining());
}

std::vector<ModelLease> ModelPool::loaded() const {
  std::vector<ModelLease> leases;
  for (ModelStatus& status : status_.copy())
    if (status.backend) leases.push_back(std::move(status.backend));
  return leases;
}

void ModelPool::drain(std::chrono::milliseconds limit) {
  const auto end = Clock::now() + limit;
  inbox_->post(Refuse{});
  for (const ModelLease& lease : loaded()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    lease->engine.drain(std::max(left, std::chrono::milliseconds(0)));
  }
}

void ModelPool::loop() {
  std::vector<Command> commands;
  while (!inbox_->closed()) {
    inbox_->wait_until(next_expiry());
    inbox_->take_all(commands);
    for (Command& command : commands) take(command);
    expire(Clock::now());
    advance();
    publish();
    tell();
    commands.clear();
  }
}

void ModelPool::take(Command& command) {
  if (auto* asked = std::get_if<Asked>(&command)) return ask(*asked);
  if (auto* ordered = std::get_if<Ordered>(&command)) return obey(*ordered);
  if (auto* loaded = std::get_if<Loaded>(&command)) return take_loaded(*loaded);
  if (auto* unloaded = std::get_if<Unloaded>(&command)) return take_unloaded(unloaded->index);
  if (auto* unleased = std::get_if<Unleased>(&command)) {
    jobs_.post({.index = unleased->index, .unload = std::move(entries_[unleased->index].held)});
    return;
  }
  refuses_ = true;
  for (Entry& entry : entries_) fail(entry, draining());
}

void ModelPool::ask(Asked& asked) {
  if (refuses_) return answer(asked.granted, draining());
  Entry* const entry = find(asked.wish.model);
  if (!entry) return answer(asked.granted, unknown(asked.wish.model));
  want(*entry, std::move(asked.wish), std::move(asked.granted));
}

// Answers go out once models() shows what they say.
void ModelPool::answer(const std::function<void(Answer)>& granted, Answer given) {
  told_.push_back([granted, given = std::move(given)] { granted(given); });
}

void ModelPool::end(const Done& done, const std::optional<ApiError>& error) {
  told_.push_back([done, error] { done(error); });
}

void ModelPool::tell() {
  for (const auto& say : std::exchange(told_, {})) say();
}

void ModelPool::want(Entry& entry, Wish wish, std::function<void(Answer)> granted) {
  entry.waiting.push_back({++num_asked_, std::move(wish), std::move(granted)});
  if (entry.lease) grant(entry);
}

void ModelPool::grant(Entry& entry) {
  entry.used = Clock::now();
  entry.asleep = entry.leaves && entry.asleep;
  for (Waiting& waiting : std::exchange(entry.waiting, {})) {
    if (waiting.wish.keep_alive_s) entry.keep_alive_s = *waiting.wish.keep_alive_s;
    answer(waiting.granted, entry.lease);
  }
  entry.expires.reset();
  if (entry.keep_alive_s == 0) return close(entry);  // these calls are the last
  if (entry.keep_alive_s > 0) entry.expires = entry.used + from_seconds(entry.keep_alive_s);
}

void ModelPool::fail(Entry& entry, const ApiError& error) {
  for (Waiting& waiting : std::exchange(entry.waiting, {})) answer(waiting.granted, error);
}

void ModelPool::obey(Ordered& ordered) {
  if (refuses_) return end(ordered.done, draining());
  if (!ordered.model.empty() && !find(ordered.model)) return end(ordered.done, unknown(ordered.model));
  Together together(ordered.done);
  for (Entry& entry : entries_) {
    if (!ordered.model.empty() && &entry != find(ordered.model)) continue;
    if (ordered.order == Order::kLoad || (ordered.order == Order::kWake && entry.asleep)) {
      want(entry, {}, [part = together.part()](const Answer& answer) {
        const auto* error = std::get_if<ApiError>(&answer);
        part(error ? std::optional(*error) : std::nullopt);
      });
    } else if (ordered.order == Order::kUnload || ordered.order == Order::kSleep) {
      if (entry.state == ModelState::kUnloaded) continue;
      entry.asleep = ordered.order == Order::kSleep;
      entry.when_unloaded.push_back(together.part());
      entry.leaves = entry.state == ModelState::kLoading;
      if (entry.lease) close(entry);
    }
  }
  told_.push_back([together]() mutable { together.begun(); });
}

void ModelPool::take_loaded(Loaded& loaded) {
  Entry& entry = entries_[loaded.index];
  if (loaded.held) {
    entry.state = ModelState::kLoaded;
    entry.why.clear();
    entry.held = std::move(loaded.held);
    entry.lease = ModelLease(&entry.held->backend(),
        [inbox = inbox_, index = loaded.index](const Backend*) { inbox->post(Unleased{index}); });
    log_.write(LogLevel::kInfo, "model_loaded", {{"model", entry.model.name}});
    grant(entry);
    if (std::exchange(entry.leaves, false) && entry.lease) close(entry);
    return;
  }
  entry.state = ModelState::kUnloaded;
  if (loaded.no_room && (any_in(ModelState::kLoaded) || any_in(ModelState::kUnloading))) return make_room();
  entry.why = loaded.why;
  log_.write(LogLevel::kError, "model_load_failed", {{"model", entry.model.name}, {"why", loaded.why}});
  fail(entry, cannot_load(entry.model.name, loaded.why));
  entry.leaves = false;
  for (const Done& done : std::exchange(entry.when_unloaded, {})) end(done, std::nullopt);
}

void ModelPool::take_unloaded(size_t index) {
  Entry& entry = entries_[index];
  waits_for_room_ = false;
  entry.state = ModelState::kUnloaded;
  entry.keep_alive_s = settings_.keep_alive_s;
  log_.write(LogLevel::kInfo, "model_unloaded", {{"model", entry.model.name}});
  for (const Done& done : std::exchange(entry.when_unloaded, {})) end(done, std::nullopt);
}

// One thing at a time: what is asked for longest is loaded next.
void ModelPool::advance() {
  if (refuses_ || waits_for_room_ || any_in(ModelState::kLoading)) return;
  Entry* next = nullptr;
  for (Entry& entry : entries_)
    if (entry.state == ModelState::kUnloaded && !entry.waiting.empty() &&
        (!next || entry.waiting.front().number < next->waiting.front().number))
      next = &entry;
  if (!next) return;
  const auto held = std::ranges::count_if(entries_, [](const Entry& entry) {
    return entry.state == ModelState::kLoaded || entry.state == ModelState::kUnloading;
  });
  if (settings_.max_loaded > 0 && held >= settings_.max_loaded) return make_room();
  next->state = ModelState::kLoading;
  jobs_.post(
      {.index = static_cast<size_t>(next - entries_.data()), .unload = nullptr, .others_loaded = held > 0});
}

// The idle one that was asked for longest ago goes; where all are busy, the first of them to become idle.
void ModelPool::make_room() {
  waits_for_room_ = true;
  if (any_in(ModelState::kUnloading)) return;  // one goes already
  Entry* victim = nullptr;
  for (Entry& entry : entries_) {
    if (!entry.lease) continue;
    if (!victim || std::pair(is_busy(entry), entry.used) < std::pair(is_busy(*victim), victim->used))
      victim = &entry;
  }
  if (victim) close(*victim);
}

void ModelPool::close(Entry& entry) {
  entry.state = ModelState::kUnloading;
  entry.expires.reset();
  status_.with([&](std::vector<ModelStatus>& all) {
    for (ModelStatus& status : all)
      if (status.model.name == entry.model.name) status.backend.reset();
  });
  entry.lease.reset();
}

bool ModelPool::is_busy(const Entry& entry) { return entry.lease.use_count() > kOwnLeases; }

void ModelPool::expire(Clock::time_point now) {
  for (Entry& entry : entries_) {
    if (!entry.expires || *entry.expires > now) continue;
    if (is_busy(entry))
      entry.expires = now + from_seconds(std::max(0.05, entry.keep_alive_s));
    else
      close(entry);
  }
}

ModelPool::Clock::time_point ModelPool::next_expiry() const {
  auto next = Clock::now() + std::chrono::hours(1);
  for (const Entry& entry : entries_)
    if (entry.expires) next = std::min(next, *entry.expires);
  return next;
}

void ModelPool::publish() {
  std::vector<const Entry*> order;
  for (const Entry& entry : entries_) order.push_back(&entry);
  std::ranges::stable_sort(order, [](const Entry* a, const Entry* b) { return a->used > b->used; });
  std::vector<ModelStatus> all;
  for (const Entry* entry : order) {
    all.push_back({.model = entry->model,
        .state = entry->state,
        .asleep = entry->asleep && entry->state == ModelState::kUnloaded,
        .why = entry->why,
        .backend = entry->lease,
        .expires = std::nullopt});
    if (entry->expires)
      all.back().expires =
          std::chrono::system_clock::now() +
          std::chrono::duration_cast<std::chrono::system_clock::duration>(*entry->expires - Clock::now());
  }
  status_.swap_in(all);
}

ModelPool::Entry* ModelPool::find(const std::string& name) {
  if (name.empty()) {
    Entry* last = &entries_.front();
    for (Entry& entry : entries_)
      if (entry.used > last->used) last = &entry;
    return last;
  }
  for (const std::string& wanted : {name, std::string("*")})  // an alias for any name comes last
    for (Entry& entry : entries_)
      if (entry.model.answers_to(wanted)) return &entry;
  return nullptr;
}

ApiError ModelPool::unknown(const std::string& name) const {
  std::string names;
  for (const Entry& entry : entries_)
    names += format("{}\"{}\"", names.empty() ? "" : ", ", entry.model.name);
  return {.status = 404,
      .message =
          format("the model \"{}\" does not exist here; this server has {}", printable(name, 256), names),
      .param = "model",
      .code = "model_not_found"};
}

bool ModelPool::any_in(ModelState state) const {
  return std::ranges::find(entries_, state, &Entry::state) != entries_.end();
}

// On the loading thread: what takes seconds.
void ModelPool::work() {
  std::vector<Job> jobs;
  while (jobs_.wait()) {
    jobs_.take_all(jobs);
    for (Job& job : jobs) {
      if (job.unload) {
        job.unload.reset();
        malloc_trim(0);  // what it had is free for the next
        inbox_->post(Unloaded{job.index});
        continue;
      }
      Loaded loaded{.index = job.index, .held = nullptr, .why = "", .no_room = false};
      const PooledModel& model = entries_[job.index].model;  // never changes
      try {
        loaded.why = loader_->no_room_for(model, job.others_loaded);
        loaded.no_room = !loaded.why.empty();
        if (!loaded.no_room) loaded.held = loader_->load(model);
      } catch (const std::exception& error) {
        loaded.why = error.what();
      }
      inbox_->post(std::move(loaded));
    }
  }
}

}  // namespace cheetah
