// SPDX-License-Identifier: MIT
#include "serve/api_run.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

ServeTime now() { return std::chrono::steady_clock::now(); }

std::string_view name_of(FinishReason reason) {
  constexpr std::string_view kNames[] = {"stop", "length", "cancelled", "deadline", "error"};
  return kNames[static_cast<size_t>(reason)];
}

int64_t cost_of(const GenerationRequest& request) {
  return std::ssize(request.prompt) + request.max_tokens * std::max(request.n, request.best_of);
}

constexpr size_t kMaxWarningBytes = 1024;

}  // namespace

ApiRun::ApiRun(Setting setting, HttpRequest request, std::shared_ptr<Exchange> exchange)
    : setting_(std::move(setting)), request_(std::move(request)), exchange_(std::move(exchange)) {
  summary_.id = request_.id;
  summary_.tenant = setting_.tenant->name();
  summary_.path = std::string(setting_.route.path);
  summary_.start = last_sent_ = now();
  if (setting_.shared.config.otlp_endpoint.empty()) return;
  const std::string* given = request_.find("traceparent");
  summary_.trace = given ? parse_traceparent(*given).value_or(new_trace()) : new_trace();
  summary_.span_id = random_hex(8);
}

void ApiRun::submit() {
  ServerShared& shared = setting_.shared;
  const int64_t count = std::ssize(call_.requests);
  ServerLoad load = shared.load(setting_.backend.get());
  load.drain_tokens_per_s = setting_.backend->engine.stats().drain_tokens_per_s;
  if (const auto wait = refused_for_s(load, count)) {
    shared.counters.reject(Rejection::kQueueFull);
    fail({.status = 503,
        .message = "the queue is full: try again later",
        .code = "overloaded",
        .retry_after_s = wait});
    return end();
  }
  left_ = summary_.requests = count;
  for (const GenerationRequest& request : call_.requests) pending_tokens_ += cost_of(request);
  shared.counters.in_flight.add(count);
  shared.counters.pending_tokens += pending_tokens_;
  send();
}

void ApiRun::send() {
  ServerShared& shared = setting_.shared;
  number_events();
  for (size_t i = 0; i < call_.requests.size(); ++i) {
    GenerationRequest request = std::move(call_.requests[i]);
    request.id = RequestId{shared.next_request++};
    const auto limit = shared.config.request_time;
    if (limit.count() > 0 && (!request.deadline || *request.deadline > now() + limit))
      request.deadline = now() + limit;
    RequestOrigin from = origin();
    say_what_client_has(i, request, from);
    request.tag = std::move(from);
    ids_.push_back(request.id);
    setting_.backend->engine.submit(
        std::move(request), [self = shared_from_this(), i, first = true](GenerationEvent&& event) mutable {
          self->on_event(i, std::move(event), std::exchange(first, false));
        });
  }
}

RequestOrigin ApiRun::origin() const {
  RequestOrigin from{.tenant = summary_.tenant,
      .call = summary_.id,
      .trace = traceparent(summary_.trace, summary_.span_id),
      .headers = {}};
  from.model = services_->model_name;
  from.may_change_model = original_.has_value();
  from.degraded_from = degraded_from_;
  if (!setting_.shared.config.pass_headers) return from;
  constexpr std::string_view kSecrets[] = {"authorization", "x-api-key", "cookie", "proxy-authorization"};
  for (const HttpHeader& header : request_.headers)
    if (std::ranges::none_of(kSecrets, [&](auto name) { return same_ignoring_case(header.name, name); }))
      from.headers.emplace_back(header.name, header.value);
  return from;
}

// On the engine thread. The first token and the end are waited for; other tokens of a stream may travel
// together, and nobody sees those of a whole answer before its end.
void ApiRun::on_event(size_t index, GenerationEvent&& event, bool first) {
  const bool urgent = event.done || (first && call_.stream);
  inbox_.post({index, std::move(event)});
  if (!urgent && !call_.stream) return;
  NetworkThread& thread = exchange_->thread();
  if (!notified_.exchange(true)) thread.notify(shared_from_this());
  if (urgent) thread.urge();
}

void ApiRun::on_notified() {
  notified_ = false;  // before the box is emptied: what arrives later notifies again
  inbox_.take_all(batch_);
  try {
    for (Arrived& arrived : batch_) take(arrived.index, arrived.event);
  } catch (const std::exception& error) {
    setting_.shared.log.write(
        LogLevel::kError, "writer_failed", {{"request_id", summary_.id}, {"why", error.what()}});
    fail(ApiRun::internal_error());
    for (const Arrived& arrived : batch_) left_ -= arrived.event.done;
  }
  batch_.clear();
  if (!answered_ && exchange_->begun()) exchange_->flush();
  if (left_ <= 0) end();
}

void ApiRun::take(size_t index, GenerationEvent& event) {
  if (const auto times = cluster_times_of(event); times && !times->other_model.empty()) {
    event.done = false;  // it is not: it comes again
    return change_model(times->other_model);
  }
  note(event);
  const bool failed = event.finish == FinishReason::kError;
  const bool shut_down = event.finish == FinishReason::kCancelled && !cancelled_;
  if (!answered_ && (failed || shut_down)) fail(error_of(event));
  if (!answered_) {
    if (call_.stream) begin_stream();
    std::string bytes = call_.writer->on_event(index, event);
    if (numbers_)
      bytes = numbers_->number(
          index * choices_each_ + static_cast<size_t>(event.choice), std::ssize(event.tokens), bytes);
    if (!bytes.empty()) {
      exchange_->write(bytes);
      last_sent_ = now();
    }
  }
  if (!event.done) return;
  event.done = false;  // counted
  if (--left_ == 0 && !answered_) finish();
}

void ApiRun::note(const GenerationEvent& event) {
  if (summary_.first_token == ServeTime{} && !event.tokens.empty()) summary_.first_token = now();
  if (!event.finish) return;
  summary_.finish = name_of(*event.finish);
  if (event.choice == 0) {
    summary_.prompt_tokens += event.prompt_tokens;
    summary_.cached_tokens += event.cached_tokens;
  }
  summary_.completion_tokens += event.completion_tokens;
  if (auto times = cluster_times_of(event)) summary_.cluster = std::move(times);
}

ApiError ApiRun::error_of(const GenerationEvent& event) const {
  const bool draining = setting_.shared.state == ServerState::kDraining;
  if (event.finish == FinishReason::kCancelled || event.error_kind == ErrorKind::kDraining || draining)
    return {.status = 503, .message = "the server is shutting down", .code = "draining", .retry_after_s = 1};
  ApiError error = generation_error(event);
  if (error.status == 500) return ApiRun::internal_error();  // what failed inside is for the log
  if (event.error_kind == ErrorKind::kQueueFull)
    error.retry_after_s = retry_after_s(setting_.shared.load(setting_.backend.get()));
  if (const auto times = cluster_times_of(event); times && times->retry_after)
    error.retry_after_s = std::chrono::duration<double>(*times->retry_after).count();
  return error;
}

HttpResponse ApiRun::head() const {
  HttpResponse response;
  response.headers = setting_.headers;
  std::string warnings;
  for (const std::string& warning : call_.warnings)
    if (warnings.size() < kMaxWarningBytes)
      warnings += (warnings.empty() ? "" : "; ") + printable(warning, 200);
  if (!warnings.empty()) response.headers.push_back({"x-cheetah-warning", warnings});
  if (!degraded_from_.empty())
    response.headers.push_back({"x-cheetah-degraded",
        format("model; asked={}; answered={}", degraded_from_, services_->model_name)});
  else if (summary_.cluster && !summary_.cluster->degraded.empty())
    response.headers.push_back({"x-cheetah-degraded", summary_.cluster->degraded});
  return response;
}

void ApiRun::begin_stream() {
  if (exchange_->begun()) return;
  HttpResponse response = head();
  response.content_type = call_.stream_type;
  response.headers.push_back({"cache-control", "no-cache"});
  response.headers.push_back({"x-accel-buffering", "no"});  // or nginx would hold the stream back
  summary_.status = 200;
  exchange_->begin(response);
}

void ApiRun::respond(int status, std::string body, std::optional<double> retry_after_s) {
  answered_ = true;
  summary_.status = status;
  HttpResponse response = head();
  response.status = status;
  response.body = std::move(body);
  const double spent_ms = std::chrono::duration<double, std::milli>(now() - summary_.start).count();
  response.headers.push_back({"openai-processing-ms", format("{:.0f}", spent_ms)});
  if (retry_after_s) response.headers.push_back({"retry-after", format("{:.0f}", std::ceil(*retry_after_s))});
  exchange_->respond(std::move(response));
}

void ApiRun::finish() {
  std::string bytes = call_.writer->finish();
  if (!call_.stream) return respond(200, std::move(bytes));
  if (numbers_) bytes = numbers_->number_closing(bytes);
  answered_ = true;
  begin_stream();
  exchange_->write(bytes);
  exchange_->finish();
}

void ApiRun::fail(const ApiError& error) {
  if (answered_) return;
  cancel_all();
  summary_.error_code = error.code.value_or("");
  if (!exchange_->begun())
    return respond(error.status, error_body(error, setting_.route.style), error.retry_after_s);
  answered_ = true;
  exchange_->write(call_.writer->fail(error));
  exchange_->finish();
}

void ApiRun::cancel_all() {
  cancelled_ = true;
  for (const RequestId id : ids_) setting_.backend->engine.cancel(id);
}

void ApiRun::cancel() {
  if (!answered_) cancel_all();
}

void ApiRun::on_gone() {
  if (ended_) return;
  if (!answered_) ++setting_.shared.counters.disconnects;
  answered_ = true;
  if (summary_.status == 0) summary_.status = 499;
  cancel_all();
}

// A silent stream gets a comment now and then, so that proxies keep it and a dead client is noticed.
void ApiRun::on_tick(ServeTime at) {
  if (answered_ || !call_.stream || call_.stream_type != kEventStream || left_ == 0 ||
      at - last_sent_ < setting_.shared.config.stream_ping)
    return;
  begin_stream();
  exchange_->write(":\n\n");
  exchange_->flush();
  last_sent_ = at;
}

// The engine goes on with others; what it has computed stays, as long as there is room.
void ApiRun::on_backlog(bool full) {
  if (answered_) return;
  if (full) ++setting_.shared.counters.paused_streams;
  for (const RequestId id : ids_)
    if (full)
      setting_.backend->engine.pause(id);
    else
      setting_.backend->engine.resume(id);
}

void ApiRun::end() {
  if (std::exchange(ended_, true)) return;
  summary_.end = now();
  ServerCounters& counters = setting_.shared.counters;
  counters.in_flight.remove(summary_.requests);
  counters.pending_tokens -= pending_tokens_;
  setting_.tenant->release();
  setting_.ended(*this);
}

}  // namespace cheetah
