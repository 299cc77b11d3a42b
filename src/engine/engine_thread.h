// SPDX-License-Identifier: MIT
#pragma once
// The engine's thread and the way to it. Only this thread touches the core once it runs; others post commands and
// read what it publishes.
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/mailbox.h"
#include "base/published.h"
#include "engine/core.h"
#include "engine/engine.h"
#include "engine/step_watchdog.h"

namespace cheetah {

struct SubmitCommand {
  GenerationRequest request;
  EventSink sink;
};
struct RefusedCommand {  // by submit(), for the log
  RequestId id;
};
struct CancelCommand {
  RequestId id;
};
struct PauseCommand {
  RequestId id;
  bool paused;  // false: goes on
};
struct AskCommand {  // between two steps
  std::function<void(EngineCore&)> question;
};
struct WhenIdleCommand {  // called once nothing runs or waits
  std::function<void()> tell;
};
using EngineCommand =
    std::variant<SubmitCommand, RefusedCommand, CancelCommand, PauseCommand, AskCommand, WhenIdleCommand>;

class Engine::Thread {
 public:
  Thread(std::shared_ptr<const Model> model, const MemoryPlan& plan, const EngineHooks& hooks);
  // Ends the thread. False: it hangs in the runner, and nothing it might touch may be destroyed.
  bool stop();

  void submit(GenerationRequest request, EventSink sink);
  bool post(EngineCommand command) { return inbox_.post(std::move(command)); }
  void post_question(std::function<void(EngineCore&)> question) {
    inbox_.post(AskCommand{std::move(question)});
  }
  // Runs `question` between two steps and waits for it.
  void ask(std::function<void(EngineCore&)> question);
  // Between two steps: after a question that changed what others read.
  void publish();

  void refuse_new() { draining_ = true; }
  EngineTime now() const { return time_.now(); }
  const EngineCore& core() const { return core_; }
  const EngineConfig& config() const { return config_; }
  const KvFormat& kv_format() const { return kv_format_; }
  EngineStats stats() const { return stats_.copy(); }
  std::vector<Decision> last_decisions(int64_t count);
  std::vector<Decision> decisions_of(RequestId request);
  std::string fault() const { return fault_.copy(); }  // "": none

 private:
  void loop();
  void run_commands();
  void handle(EngineCommand& command);
  void take_over();
  void tell_fault();
  std::optional<RequestError> refusal(const GenerationRequest& request) const;

  const TimeSource time_;
  const EngineHooks hooks_;
  SilentLog silence_;
  LogSink& log_;
  EngineCore core_;
  const EngineConfig config_;
  const KvFormat kv_format_;
  Mailbox<EngineCommand> inbox_;
  std::vector<EngineCommand> commands_;  // of the thread
  std::atomic<int64_t> num_posted_{0};   // requests in the box
  std::atomic<int64_t> num_waiting_{0};  // … and in the core's queue
  std::atomic<bool> draining_{false};
  std::atomic<bool> returned_{false};
  Published<EngineStats> stats_;
  Published<DecisionLog> decisions_;
  Published<std::string> fault_;
  EngineStats next_stats_;  // of the thread
  std::vector<std::function<void()>> when_idle_;
  std::thread thread_;
  std::unique_ptr<StepWatchdog> watchdog_;
};

}  // namespace cheetah
