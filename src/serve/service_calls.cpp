// SPDX-License-Identifier: MIT
// The part of Service that reaches the engine: API calls and their cancellation.
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "serve/service.h"

namespace cheetah {
namespace {

constexpr size_t kMaxKeyBytes = 255;

// "" without the header. Tenants do not share keys.
std::string idempotency_key(const HttpRequest& request, const Tenant& tenant) {
  const std::string* given = request.find("idempotency-key");
  return given == nullptr || given->empty() ? "" : tenant.name() + "\n" + *given;
}

bool names_run(std::string_view wanted, std::string_view id) {
  if (wanted == id) return true;  // or the id of the answer: chatcmpl-ID, resp_ID …
  return wanted.size() > id.size() + 1 && wanted.ends_with(id) &&
         (wanted[wanted.size() - id.size() - 1] == '-' || wanted[wanted.size() - id.size() - 1] == '_');
}

}  // namespace

// A cancellation on its way from thread to thread.
struct Search {
  std::string wanted;
  std::shared_ptr<Tenant> tenant;
  std::shared_ptr<Exchange> exchange;
  HttpRequest request;
};

void Service::run_api(const Route& route, HttpRequest&& request, std::shared_ptr<Exchange> exchange) {
  const auto refuse_call = [&](Rejection why, const ApiError& error) {
    shared_.counters.reject(why);
    HttpResponse response = error_response(request, error);
    response.headers.push_back({"x-request-id", request.id});
    exchange->respond(std::move(response));
  };
  const auto tenant = tenant_of(request);
  const std::shared_ptr<const Backend> backend = shared_.pool ? nullptr : shared_.first_backend();
  if (shared_.counters.parsing >=
      std::max(shared_.config.max_parsing, room_in_queue(shared_.load(shared_.first_backend().get()))))
    return refuse_call(
        Rejection::kQueueFull, {.status = 503,
                                   .message = "too many requests arrive at once: try again later",
                                   .code = "overloaded",
                                   .retry_after_s = 1});
  const bool goes_on =
      ApiRun::place_header(request) != nullptr;  // a request that was sent, and charged, before
  const std::string key = goes_on ? "" : idempotency_key(request, *tenant);
  if (const auto conflict = claim_key(key, request)) return refuse_call(Rejection::kBadRequest, *conflict);
  if (!tenant->try_acquire()) {
    if (!key.empty()) idempotency_.end(key, false);
    return refuse_call(
        Rejection::kConcurrency, {.status = 429,
                                     .message = "this key runs as many requests at once as it may",
                                     .code = "concurrency_limit_exceeded",
                                     .retry_after_s = 1});
  }
  HttpResponse fixed;
  add_fixed_headers(request, fixed);
  fixed.headers.push_back({"x-request-id", request.id});
  if (route.style == ApiStyle::kAnthropic) fixed.headers.push_back({"request-id", request.id});
  Runs& runs = runs_.at(&exchange->thread());
  const auto ended = [this, &runs, key](ApiRun& run) {
    const RunSummary& summary = run.summary();
    if (!key.empty()) idempotency_.end(key, summary.status == 200 && summary.finish != "cancelled");
    const auto [begin, end] = runs.equal_range(run.id());
    for (auto it = begin; it != end; ++it)
      if (it->second.lock().get() == &run) {
        runs.erase(it);
        break;
      }
    if (observer_) observer_(run);
  };
  auto run = std::make_shared<ApiRun>(
      ApiRun::Setting{route, backend, shared_, tenant, std::move(fixed.headers), ended}, std::move(request),
      exchange);
  runs.emplace(run->id(), run);
  run->start();
}

// Null: there is no key, or it is this request's from now on.
std::optional<ApiError> Service::claim_key(const std::string& key, const HttpRequest& request) {
  using Verdict = IdempotencyKeys::Verdict;
  if (key.empty()) return std::nullopt;
  if (request.find("idempotency-key")->size() > kMaxKeyBytes)
    return ApiError{.status = 400,
        .message = format("an idempotency key has at most {} bytes", kMaxKeyBytes),
        .code = "invalid_idempotency_key"};
  const auto verdict =
      idempotency_.begin(key, request.target + "\n" + request.body, std::chrono::steady_clock::now());
  if (verdict == Verdict::kNew) return std::nullopt;
  const char* why = verdict == Verdict::kRuns       ? "the request with this idempotency key still runs"
                    : verdict == Verdict::kAnswered ? "the request with this idempotency key was answered"
                                                    : "this idempotency key belongs to another request";
  return ApiError{.status = 409, .message = why, .code = "idempotency_conflict"};
}

void Service::cancel_run(
    const HttpRequest& request, const std::string& id, std::shared_ptr<Exchange> exchange) {
  auto search = std::make_shared<Search>(Search{id, tenant_of(request), std::move(exchange), request});
  look_on(0, std::move(search));
}

// Each thread looks among its own calls; the first that finds one cancels it and has the answer sent.
void Service::look_on(size_t thread, std::shared_ptr<Search> search) {
  threads_[thread]->run([this, thread, search] {
    bool found = false;
    for (const auto& [id, weak] : runs_.at(threads_[thread]))
      if (const auto run = weak.lock();
          run && names_run(search->wanted, id) && &run->tenant() == search->tenant.get()) {
        run->cancel();
        found = true;
      }
    if (!found && thread + 1 < threads_.size()) return look_on(thread + 1, search);
    search->exchange->thread().run([this, search, found] {
      HttpResponse response;
      if (found)
        response.body = dump_json(Json{{"id", search->wanted}, {"object", "request"}, {"cancelled", true}});
      else
        response = error_response(search->request,
            {.status = 404, .message = "no request with this id is running", .code = "request_not_found"});
      response.headers.push_back({"x-request-id", search->request.id});
      search->exchange->respond(std::move(response));
    });
  });
}

}  // namespace cheetah
