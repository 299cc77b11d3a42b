// SPDX-License-Identifier: MIT
#include "cluster/node/engine_adapter.h"

#include <memory>
#include <utility>

#include "base/error.h"
#include "engine/grammar/grammar_cache.h"

namespace cheetah::cluster {

// Uids are drawn at random; an attempt moves one by an odd number of its own.
RequestId engine_id(RequestKey key) {
  return RequestId{
      static_cast<uint64_t>(key.uid) + uint64_t{0x9e3779b97f4a7c15} * static_cast<uint32_t>(key.attempt)};
}

void EngineAdapter::execute(EngineSubmit& submit) {
  running_[submit.key] = {};
  submit.request.id = engine_id(submit.key);
  for (size_t i = 0; i < submit.resume.size(); ++i) {
    ResumedChoice& choice = submit.resume[i];
    submit.request.resume.push_back({std::move(choice.tokens), choice.finished, choice.mirostat_mu});
    if (i < submit.told.size()) submit.request.resume.back().told = submit.told[i];
  }
  if (!submit.grammar.kind.empty()) return compile(submit);
  submit_now(submit.key, std::move(submit.request));
}

void EngineAdapter::compile(EngineSubmit& submit) {
  running_[submit.key].compiling = true;
  // Shared between the two threads it passes through, one after the other: std::function copies.
  auto request = std::make_shared<GenerationRequest>(std::move(submit.request));
  cheetah::GrammarSource source{std::move(submit.grammar.kind), std::move(submit.grammar.text)};
  setting_.background.post([this, key = submit.key, request, source = std::move(source)] {
    std::string error;
    try {
      request->grammar = setting_.grammars.from_source(source);
    } catch (const Error& refused) {
      error = refused.what();
    }
    setting_.loop.post([this, key, request, error] { on_compiled(key, *request, error); });
  });
}

void EngineAdapter::on_compiled(RequestKey key, GenerationRequest& request, const std::string& error) {
  Running& running = running_.at(key);
  running.compiling = false;
  if (running.cancelled) return end(key, FinishReason::kCancelled, "");
  if (!error.empty()) return end(key, FinishReason::kError, error);
  const bool paused = running.paused;
  submit_now(key, std::move(request));
  if (paused) setting_.engine.pause(engine_id(key));
}

// Before the engine has seen it.
void EngineAdapter::end(RequestKey key, FinishReason finish, const std::string& why) {
  running_.erase(key);
  EngineEvent ended{.key = key, .event = {}};
  ended.event.finish = finish;
  ended.event.error = why;
  if (finish == FinishReason::kError) ended.event.error_kind = ErrorKind::kBadRequest;
  ended.event.done = true;
  setting_.feed(std::move(ended));
}

void EngineAdapter::submit_now(RequestKey key, GenerationRequest request) {
  setting_.engine.submit(std::move(request), [this, key](GenerationEvent&& event) {
    setting_.loop.post([this, key, event = std::move(event)]() mutable {
      if (event.done) running_.erase(key);
      setting_.feed(EngineEvent{key, std::move(event)});
    });
  });
}

void EngineAdapter::execute(const EngineCancel& cancel) {
  const auto found = running_.find(cancel.key);
  if (found == running_.end()) return;
  found->second.cancelled = true;
  if (!found->second.compiling) setting_.engine.cancel(engine_id(cancel.key));
}

void EngineAdapter::execute(const EnginePause& pause) {
  const auto found = running_.find(pause.key);
  if (found == running_.end()) return;
  found->second.paused = pause.paused;
  if (found->second.compiling) return;
  const RequestId id = engine_id(pause.key);
  if (pause.paused)
    setting_.engine.pause(id);
  else
    setting_.engine.resume(id);
}

void EngineAdapter::warm_up() {
  setting_.background.post([this] {
    setting_.engine.warm_up();
    setting_.loop.post([this] {
      setting_.feed(
          LoadMeasured{load()});  // a peer that hears of our readiness must not see our own requests
      setting_.feed(WarmedUp{});
    });
  });
}

WorkerLoad EngineAdapter::load() const {
  const EngineStats stats = setting_.engine.stats();
  WorkerLoad load;
  load.running = stats.running;
  load.waiting = stats.waiting;
  load.prefill_tokens = stats.prefill_tokens_left;
  load.decode_tokens = stats.decode_tokens_left;
  load.pages_total = stats.pages_total;
  load.pages_free = stats.pages_free + stats.pages_cached;
  load.prefill_us_per_token = stats.prefill_us_per_token;
  load.decode_step_us = stats.decode_step_us;
  return load;
}

}  // namespace cheetah::cluster
