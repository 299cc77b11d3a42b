// SPDX-License-Identifier: MIT
#include "engine/engine.h"

#include <algorithm>
#include <future>
#include <utility>

#include "base/random.h"
#include "engine/engine_export.h"
#include "engine/engine_thread.h"

namespace cheetah {
namespace {

// Reserved ids for internal requests.
constexpr uint64_t kOwnIds = ~uint64_t{0} - 16;

}  // namespace

Engine::Engine(std::shared_ptr<const Model> model, const EngineConfig& config, const EngineHooks& hooks) {
  const MemoryPlan plan = plan_memory(*model, config);
  thread_ = std::make_unique<Thread>(std::move(model), plan, hooks);
}

Engine::~Engine() {
  // A thread that hangs in a device's driver may come back: what it uses stays.
  if (!thread_->stop()) static_cast<void>(thread_.release());
}

void Engine::submit(GenerationRequest request, EventSink sink) {
  thread_->submit(std::move(request), std::move(sink));
}

void Engine::cancel(RequestId id) { thread_->post(CancelCommand{id}); }
void Engine::pause(RequestId id) { thread_->post(PauseCommand{id, true}); }
void Engine::resume(RequestId id) { thread_->post(PauseCommand{id, false}); }

// Prompts of several lengths and a few tokens each, so that the step times are known too.
void Engine::warm_up() {
  const int64_t room = std::max<int64_t>(1, config().max_context - 4);
  uint64_t id = kOwnIds;
  for (const int64_t length : {1, 16, 64, 128, 256}) {
    GenerationRequest request;
    request.id = RequestId{id++};
    request.cache_salt = "warm-up";
    request.max_tokens = 4;
    request.ignore_eos = true;
    Philox random(static_cast<uint64_t>(length));
    for (int64_t i = 0; i < std::min(length, room); ++i)
      request.prompt.push_back(
          static_cast<int32_t>(random.next_u32() % static_cast<uint32_t>(model().traits().vocab)));
    std::promise<void> done;
    submit(std::move(request), [&done](GenerationEvent&& event) {
      if (event.done) done.set_value();
    });
    done.get_future().wait();
  }
  thread_->ask([thread = thread_.get()](EngineCore& core) {
    core.reset_counters();
    thread->publish();
  });
}

void Engine::drain(std::chrono::milliseconds limit) {
  thread_->refuse_new();
  thread_->ask([](EngineCore& core) { core.refuse_new(); });
  auto promise = std::make_shared<std::promise<void>>();  // shared: it may outlive this wait
  auto idle = promise->get_future();
  thread_->post(WhenIdleCommand{[promise] { promise->set_value(); }});
  if (idle.wait_for(limit) == std::future_status::ready) return;
  thread_->ask([thread = thread_.get()](EngineCore& core) {
    core.finish_all(FinishReason::kCancelled, thread->now());
    thread->publish();
  });
}

std::string Engine::out_of_service() const { return thread_->fault(); }

EngineStats Engine::stats() const { return thread_->stats(); }

std::string Engine::explain_last(int64_t num_decisions) const {
  return text_of(thread_->last_decisions(num_decisions));
}

std::vector<Decision> Engine::decisions_of(RequestId request) const { return thread_->decisions_of(request); }

const EngineConfig& Engine::config() const { return thread_->config(); }

const Model& Engine::model() const { return thread_->core().model(); }

std::unique_ptr<KvExport> Engine::submit_export(
    GenerationRequest request, EventSink sink, int64_t end_token, KvProgressSink progress) {
  auto exported = std::make_unique<Export>(*thread_);
  exported->open(request.id, end_token, std::move(progress));
  submit(std::move(request), std::move(sink));
  return exported;
}

void Engine::import_pages(KvImport pages, std::function<void(KvImported)> done) {
  thread_->post_question([pages = std::move(pages), done = std::move(done)](EngineCore& core) {
    KvImported result;
    try {
      result = core.import_pages(pages);
    } catch (const std::exception& error) {  // a device's copy: the pages are computed here instead
      result = {false, error.what()};
    }
    done(std::move(result));
  });
}

void Engine::unpin(RequestId id) {
  thread_->post_question([id](EngineCore& core) { core.unpin(id); });
}

void Engine::look_up(std::string cache_salt, std::vector<int32_t> text, std::function<void(int64_t)> done) {
  thread_->post_question([cache_salt = std::move(cache_salt), text = std::move(text), done = std::move(done)](
                             EngineCore& core) { done(core.cached_tokens(cache_salt, text)); });
}

void Engine::watch_cache(std::function<void(std::vector<PrefixChange>&&)> listener) {
  thread_->post_question([listener = std::move(listener)](EngineCore& core) { core.watch_cache(listener); });
}

const KvFormat& Engine::kv_format() const { return thread_->kv_format(); }

}  // namespace cheetah
