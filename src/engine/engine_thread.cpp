// SPDX-License-Identifier: MIT
#include "engine/engine_thread.h"

#include "base/format.h"
#include "engine/crash_bundle.h"

namespace cheetah {

Engine::Thread::Thread(std::shared_ptr<const Model> model, const MemoryPlan& plan, const EngineHooks& hooks)
    : hooks_(hooks),
      log_(hooks.log ? *hooks.log : silence_),
      core_(std::move(model), plan, time_, log_, hooks.make_runner ? hooks.make_runner : make_engine_runner),
      config_(core_.config()),
      kv_format_(core_.kv_format()) {
  publish();
  if (config_.step_timeout_s > 0) {
    const std::chrono::milliseconds limit(static_cast<int64_t>(config_.step_timeout_s * 1e3));
    watchdog_ = std::make_unique<StepWatchdog>(limit, [this] { take_over(); });
    core_.set_guard(watchdog_.get());
  }
  thread_ = std::thread([this] {
    try {
      loop();
    } catch (const EngineTakenOver&) {  // the watchdog's thread goes on in its place
    }
    returned_ = true;
  });
}

bool Engine::Thread::stop() {
  inbox_.close();
  const bool taken_over = watchdog_ && watchdog_->took_over();
  if (taken_over) watchdog_->stop();
  if (taken_over && !returned_) return false;
  thread_.join();
  if (watchdog_) watchdog_->stop();
  return true;
}

void Engine::Thread::loop() {
  for (;;) {
    run_commands();
    if (inbox_.closed()) break;
    if (!commands_.empty()) publish();
    if (core_.idle()) {
      for (const auto& tell : std::exchange(when_idle_, {})) tell();
      inbox_.wait();
      continue;
    }
    const EngineCore::StepResult result = core_.step(now());
    tell_fault();
    publish();
    if (!result.computed && result.wake && !core_.idle()) inbox_.wait_until(*result.wake);
  }
  core_.finish_all(FinishReason::kCancelled, now());
  run_commands();  // posted before the box closed: every request gets its end
  core_.finish_all(FinishReason::kCancelled, now());
  publish();
  for (const auto& tell : when_idle_) tell();
}

void Engine::Thread::run_commands() {
  inbox_.take_all(commands_);
  for (EngineCommand& command : commands_) handle(command);
}

// On the watchdog's thread, which is the engine's from here on. Nothing is computed any more, but every request
// gets an answer.
void Engine::Thread::take_over() {
  core_.give_up(
      format("a step has not ended within {:.1f} s: the device hangs", config_.step_timeout_s), now());
  tell_fault();
  publish();
  loop();
}

// Health becomes bad before any client hears of it.
void Engine::Thread::tell_fault() {
  if (!core_.fault() || !fault().empty()) return;
  const EngineFault& fault = *core_.fault();
  fault_.with([&](std::string& why) { why = fault.why; });
  std::string path;
  try {
    if (!config_.crash_dir.empty()) path = write_crash_bundle(config_.crash_dir, fault);
  } catch (const std::exception& error) {
    log_.write(LogLevel::kError, "crash_bundle_failed", failure_fields(error));
  }
  log_.write(LogLevel::kError, "engine_failed",
      {{"fault", name_of(fault.kind)}, {"why", fault.why}, {"requests", fault.last.request_ids()},
          {"bundle", path}});
  if (hooks_.on_fault) hooks_.on_fault(fault);
}

void Engine::Thread::handle(EngineCommand& command) {
  if (auto* submit = std::get_if<SubmitCommand>(&command)) {
    core_.submit(std::move(submit->request), std::move(submit->sink), now());
    num_waiting_ = core_.num_waiting();  // counts it here first, so that it is always counted somewhere
    --num_posted_;
  } else if (const auto* refused = std::get_if<RefusedCommand>(&command)) {
    core_.note_refused(refused->id, now());
  } else if (const auto* cancel = std::get_if<CancelCommand>(&command)) {
    core_.cancel(cancel->id, now());
  } else if (const auto* pause = std::get_if<PauseCommand>(&command)) {
    core_.pause(pause->id, pause->paused, now());
  } else if (const auto* ask = std::get_if<AskCommand>(&command)) {
    ask->question(core_);
  } else {
    when_idle_.push_back(std::move(std::get<WhenIdleCommand>(command).tell));
  }
}

// First what others can read, then the events: a client that has an event finds it counted.
void Engine::Thread::publish() {
  num_waiting_ = core_.num_waiting();
  core_.copy_stats(next_stats_);
  stats_.swap_in(next_stats_);
  decisions_.with([this](DecisionLog& log) { log.follow(core_.decisions()); });
  core_.deliver(now());
}

// What can be told without the engine thread, which may be in a long step.
std::optional<RequestError> Engine::Thread::refusal(const GenerationRequest& request) const {
  if (!fault().empty()) return has_failed();
  if (draining_) return is_draining();
  if (const int64_t waiting = num_posted_ + num_waiting_; waiting >= config_.max_queue)
    return queue_is_full(waiting);
  return refusal_of(request, config_, core_.model().traits());
}

void Engine::Thread::submit(GenerationRequest request, EventSink sink) {
  if (const auto error = refusal(request)) {
    inbox_.post(RefusedCommand{request.id});
    return sink(refusal_event(request, *error, now()));
  }
  ++num_posted_;
  inbox_.post(SubmitCommand{std::move(request), std::move(sink)});
}

void Engine::Thread::ask(std::function<void(EngineCore&)> question) {
  auto answered = std::make_shared<std::promise<void>>();  // shared: the caller and the command
  auto answer = answered->get_future();
  inbox_.post(AskCommand{[answered, question = std::move(question)](EngineCore& core) {
    question(core);
    answered->set_value();
  }});
  answer.get();
}

std::vector<Decision> Engine::Thread::last_decisions(int64_t count) {
  return decisions_.with([&](DecisionLog& log) { return log.last(count); });
}

std::vector<Decision> Engine::Thread::decisions_of(RequestId request) {
  return decisions_.with([&](DecisionLog& log) { return log.of(request); });
}

}  // namespace cheetah
