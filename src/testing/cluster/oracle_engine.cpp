// SPDX-License-Identifier: MIT
#include "testing/cluster/oracle_engine.h"

#include <algorithm>
#include <utility>

#include "base/format.h"

namespace cheetah::cluster::simulation {

void OracleEngine::submit(const EngineSubmit& submit) {
  Running running{.submit = submit, .answer = oracle_answer(submit.request), .arrived = clock_()};
  running.said.resize(running.answer.size());
  running.finished.resize(running.answer.size());
  for (size_t i = 0; i < submit.resume.size() && i < running.answer.size(); ++i) {
    const std::vector<int32_t>& tokens = submit.resume[i].tokens;
    const std::vector<int32_t>& right = running.answer[i].tokens;
    if (tokens.size() > right.size() || !std::equal(tokens.begin(), tokens.end(), right.begin()))
      simulation_.violate("a request is resumed with tokens it never had");
    running.said[i] = i < submit.told.size() ? static_cast<size_t>(submit.told[i]) : tokens.size();
    if (running.said[i] > tokens.size()) simulation_.violate("more was told than was said");
    running.finished[i] = submit.resume[i].finished;
  }
  check_cached_pages(running);
  const double to_compute =
      static_cast<double>(submit.request.prompt.size()) - static_cast<double>(running.cached);
  running.scheduled = running.arrived;
  running_.insert_or_assign(submit.key, std::move(running));
  plan_step(submit.key, milliseconds(1 + to_compute * times_.prefill_ms_per_token));
}

void OracleEngine::check_cached_pages(Running& running) {
  const GenerationRequest& request = running.submit.request;
  const std::vector<uint64_t> names =
      page_names({request.prompt.data(), request.prompt.size() - 1}, request.cache_salt);
  for (const uint64_t name : names) {
    const auto page = cache_.find(name);
    if (page == cache_.end()) break;
    if (page->second != page_bytes(name)) simulation_.violate("a page with foreign or damaged bytes is used");
    running.cached += kPageTokens;
  }
}

void OracleEngine::plan_step(RequestKey key, Duration delay) {
  const uint64_t number = ++running_.at(key).step;
  later_(delay, [this, key, number] {
    const auto running = running_.find(key);
    if (running != running_.end() && running->second.step == number) step(key);
  });
}

void OracleEngine::step(RequestKey key) {
  Running& running = running_.at(key);
  if (running.paused) return;
  const GenerationRequest& request = running.submit.request;
  if (request.deadline && clock_() >= *request.deadline)
    return end_all(key, FinishReason::kDeadline, ErrorKind::kNone);
  if (simulation_.happens(times_.failure)) return end_all(key, FinishReason::kError, ErrorKind::kInternal);
  store(page_names({request.prompt.data(), request.prompt.size() - 1}, request.cache_salt));
  if (request.best_of > request.n || request.pooling != Pooling::kNone) return say_at_once(key, running);
  for (size_t choice = 0; choice < running.answer.size(); ++choice) {
    if (running.finished[choice]) continue;
    say(key, running, choice, 1 + static_cast<size_t>(simulation_.below(2)));
  }
  if (std::all_of(running.finished.begin(), running.finished.end(), [](bool one) { return one; }))
    running_.erase(key);
  else
    plan_step(key, milliseconds(times_.token_ms));
}

void OracleEngine::say(RequestKey key, Running& running, size_t choice, size_t num_tokens) {
  const OracleChoice& answer = running.answer[choice];
  GenerationEvent event;
  event.choice = static_cast<int>(choice);
  while (num_tokens-- > 0 && running.said[choice] < answer.tokens.size())
    event.tokens.push_back({.id = answer.tokens[running.said[choice]++], .logprob = 0, .top = {}});
  std::vector<int32_t> ids;
  for (const GeneratedToken& token : event.tokens) ids.push_back(token.id);
  event.text = oracle_text(ids);
  if (running.said[choice] == answer.tokens.size()) {
    running.finished[choice] = true;
    event.finish = answer.finish;
    event.done = std::all_of(running.finished.begin(), running.finished.end(), [](bool one) { return one; });
    event.prompt_tokens = static_cast<int64_t>(running.submit.request.prompt.size());
    event.cached_tokens = running.cached;
    event.completion_tokens = static_cast<int64_t>(answer.tokens.size());
    event.times = {
        .arrived = running.arrived, .scheduled = running.scheduled, .first_token = {}, .finished = clock_()};
  }
  tell_(EngineEvent{key, std::move(event)});
}

// Choices that compete, and embeddings: nothing before the end.
void OracleEngine::say_at_once(RequestKey key, Running& running) {
  if (running.submit.request.pooling != Pooling::kNone) {
    GenerationEvent event;
    event.embedding = {oracle_embedding(running.submit.request)};
    event.finish = FinishReason::kStop;
    event.done = true;
    tell_(EngineEvent{key, std::move(event)});
  } else {
    for (size_t choice = 0; choice < running.answer.size(); ++choice) say(key, running, choice, 1000);
  }
  running_.erase(key);
}

void OracleEngine::end_all(RequestKey key, FinishReason finish, ErrorKind kind) {
  Running& running = running_.at(key);
  for (size_t choice = 0; choice < running.answer.size(); ++choice) {
    if (running.finished[choice]) continue;
    running.finished[choice] = true;
    GenerationEvent event;
    event.choice = static_cast<int>(choice);
    event.finish = finish;
    event.error_kind = kind;
    event.completion_tokens = static_cast<int64_t>(running.said[choice]);
    event.done = std::all_of(running.finished.begin(), running.finished.end(), [](bool one) { return one; });
    tell_(EngineEvent{key, std::move(event)});
  }
  running_.erase(key);
}

void OracleEngine::execute(const EngineCancel& output) {
  if (running_.count(output.key) == 0) return;
  ++running_.at(output.key).step;
  later_(milliseconds(2), [this, key = output.key] {
    if (running_.count(key) > 0) end_all(key, FinishReason::kCancelled, ErrorKind::kNone);
  });
}

void OracleEngine::execute(const EnginePause& output) {
  const auto running = running_.find(output.key);
  if (running == running_.end()) return;
  running->second.paused = output.paused;
  if (!output.paused) plan_step(output.key, milliseconds(times_.token_ms));
}

int64_t OracleEngine::cached_tokens(const std::vector<int32_t>& tokens, const std::string& salt) const {
  int64_t cached = 0;
  for (const uint64_t name : page_names(tokens, salt)) {
    if (cache_.count(name) == 0) break;
    cached += kPageTokens;
  }
  return cached;
}

bool OracleEngine::make_room() {
  if (static_cast<int64_t>(cache_.size()) < times_.cache_pages) return true;
  std::set<uint64_t> pinned;
  for (const auto& [key, names] : pins_) pinned.insert(names.begin(), names.end());
  for (auto page = cache_.begin(); page != cache_.end(); ++page) {
    if (pinned.count(page->first) > 0) continue;
    cache_.erase(page);
    return true;
  }
  return false;
}

bool OracleEngine::import_pages(
    RequestKey key, std::span<const uint64_t> names, std::span<const uint64_t> bytes) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (cache_.count(names[i]) == 0 && !make_room()) return false;
    cache_.emplace(names[i], bytes[i]);
    pins_[key].insert(names[i]);
  }
  return true;
}

void OracleEngine::store(std::span<const uint64_t> names) {
  for (const uint64_t name : names)
    if (cache_.count(name) > 0 || make_room()) cache_.emplace(name, page_bytes(name));
}

void OracleEngine::start_export(const StartExport& wanted) {
  exports_.insert(wanted.key);
  const int64_t cached = std::min(cached_tokens(wanted.tokens, wanted.salt), wanted.end_token);
  store(page_names(wanted.tokens, wanted.salt));
  export_step(wanted.key, cached, wanted.end_token);
}

void OracleEngine::export_step(RequestKey key, int64_t ready, int64_t end) {
  const int64_t next = std::min(end, ready + 12);
  later_(milliseconds(1 + static_cast<double>(next - ready) * times_.prefill_ms_per_token),
      [this, key, next, end] {
        if (exports_.count(key) == 0) return;
        const bool failed = simulation_.happens(times_.failure);
        tell_(ExportProgress{.key = key,
            .tokens_ready = next,
            .finished = next == end && !failed,
            .failed = failed,
            .why = failed ? "a step failed" : ""});
        if (!failed && next < end) export_step(key, next, end);
      });
}

std::vector<RequestKey> OracleEngine::running() const {
  std::vector<RequestKey> keys;
  for (const auto& [key, running] : running_) keys.push_back(key);
  return keys;
}

WorkerLoad OracleEngine::load() const {
  return {.running = num_running(),
      .prefill_tokens = 16 * num_exports(),
      .pages_total = times_.cache_pages,
      .pages_free = times_.cache_pages};
}

}  // namespace cheetah::cluster::simulation
