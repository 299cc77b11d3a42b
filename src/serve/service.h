// SPDX-License-Identifier: MIT
#pragma once
// Answers HTTP requests: routes, rights, limits, and the small answers that need no engine. Called on the
// network threads.
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "serve/api_run.h"
#include "serve/backend.h"
#include "serve/batch_jobs.h"
#include "serve/http/exchange.h"
#include "serve/idempotency.h"
#include "serve/metrics.h"
#include "serve/routes.h"

namespace cheetah {

// The key in either header; "" for none.
std::string_view key_of(const HttpRequest& request);

class Service final : public HttpHandler {
 public:
  Service(ServerShared& shared, BatchJobs& jobs);
  // Once, before the threads start.
  void use_threads(const std::vector<NetworkThread*>& threads);
  // Called with every finished call, on its network thread.
  void on_run_ended(std::function<void(const ApiRun&)> observer) { observer_ = std::move(observer); }

  std::optional<HttpResponse> check_head(HttpRequest& request) override;
  void handle(HttpRequest&& request, std::shared_ptr<Exchange> exchange) override;
  HttpResponse refuse(const HttpRequest& request, const HttpError& error) override;
  std::string new_request_id() override;
  void on_finished(const ExchangeRecord& record) override;
  void on_connections(int64_t open) override;

 private:
  // The calls that run on one thread, for DELETE /v1/requests/{id}. Clients choose ids, so two calls
  // may share one.
  using Runs = std::unordered_multimap<std::string, std::weak_ptr<ApiRun>>;

  HttpResponse error_response(const HttpRequest& request, const ApiError& error) const;
  void add_fixed_headers(const HttpRequest& request, HttpResponse& response) const;
  std::optional<ApiError> check_host(const HttpRequest& request) const;
  std::optional<ApiError> check_body(const HttpRequest& request) const;
  std::optional<ApiError> check_state() const;
  std::optional<HttpResponse> check_operator(const HttpRequest& request) const;
  HttpResponse preflight(const HttpRequest& request) const;
  std::shared_ptr<Tenant> tenant_of(const HttpRequest& request) const;
  std::optional<ApiError> claim_key(const std::string& key, const HttpRequest& request);

  void run_api(const Route& route, HttpRequest&& request, std::shared_ptr<Exchange> exchange);
  void cancel_run(const HttpRequest& request, const std::string& id, std::shared_ptr<Exchange> exchange);
  void look_on(size_t thread, std::shared_ptr<struct Search> search);
  void check_engine(const HttpRequest& request, std::shared_ptr<Exchange> exchange);
  void ask_operator(HttpRequest&& request, const std::string& path, std::shared_ptr<Exchange> exchange);
  HttpResponse small_answer(const RouteMatch& match, const HttpRequest& request);
  std::string status() const;  // "ok", or why no request is answered
  HttpResponse health(std::string_view status) const;
  HttpResponse decisions(const HttpRequest& request) const;
  HttpResponse models(const RouteMatch& match) const;
  HttpResponse other_servers_answer(RouteKind kind, const HttpRequest& request) const;
  void kept_response(const HttpRequest& request, const std::string& path, std::shared_ptr<Exchange> exchange);
  void change_models(RouteKind kind, const HttpRequest& request, std::shared_ptr<Exchange> exchange);
  std::optional<ApiError> check_origin(const HttpRequest& request) const;
  HttpResponse page(const HttpRequest& request) const;
  ServerNumbers numbers(const Backend* backend) const;
  std::string metrics() const;
  size_t route_index(const ExchangeRecord& record) const;

  ServerShared& shared_;
  BatchJobs& jobs_;
  std::string id_prefix_;  // differs from one start of the server to the next
  std::atomic<uint64_t> next_id_ = 1;
  ServeTime start_;
  double start_unix_s_;
  std::vector<NetworkThread*> threads_;
  std::map<const NetworkThread*, Runs> runs_;  // each entry is its thread's alone
  IdempotencyKeys idempotency_;
  std::function<void(const ApiRun&)> observer_;
};

}  // namespace cheetah
