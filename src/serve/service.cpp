// SPDX-License-Identifier: MIT
#include "serve/service.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "serve/api/json_text.h"
#include "serve/pool_answers.h"
#include "serve/web_page.h"

namespace cheetah {
namespace {

bool is_json(std::string_view content_type) {
  const std::string_view type = trim_blanks(content_type.substr(0, content_type.find(';')));
  return same_ignoring_case(type, "application/json") ||
         (type.size() > 5 && same_ignoring_case(type.substr(type.size() - 5), "+json"));
}

// "localhost:8000" -> "localhost", "[::1]:8000" -> "[::1]".
std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, std::min(host.find(']') + 1, host.size()));
  return host.substr(0, std::min(host.find(':'), host.size()));
}

HttpResponse json_response(const Json& value) {
  HttpResponse response;
  response.body = dump_json(value);
  return response;
}

}  // namespace

Service::Service(ServerShared& shared, BatchJobs& jobs)
    : shared_(shared),
      jobs_(jobs),
      id_prefix_("req_" + random_hex(6)),
      start_(std::chrono::steady_clock::now()),
      start_unix_s_(
          std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()) {
  CHEETAH_ASSERT(routes().size() < ServerCounters::kMaxRoutes, "every route has a row of counters");
}

void Service::use_threads(const std::vector<NetworkThread*>& threads) {
  threads_ = threads;
  for (const NetworkThread* thread : threads) runs_[thread];
}

std::string Service::new_request_id() { return format("{}{:08x}", id_prefix_, next_id_++); }

std::optional<HttpResponse> Service::check_head(HttpRequest& request) {
  const auto refused = [&](const ApiError& error) { return error_response(request, error); };
  if (const auto error = check_host(request)) return refused(*error);
  if (request.method == "OPTIONS") return preflight(request);
  const RouteMatch match = match_route(request.method, request.path());
  if (match.route && match.route->access == Access::kAdmin) return check_operator(request);
  const bool open = match.route && match.route->access == Access::kPublic;
  const auto tenant = tenant_of(request);
  if (!open && !tenant) {
    shared_.counters.reject(Rejection::kAuth);
    HttpResponse response = refused({.status = 401,
        .message = "the API key is missing or wrong: send it as 'Authorization: Bearer KEY'",
        .code = "invalid_api_key"});
    response.headers.push_back({"www-authenticate", "Bearer"});
    return response;
  }
  if (!match.route) {
    HttpResponse response = refused(match.error);
    if (!match.allow.empty()) response.headers.push_back({"allow", match.allow});
    return response;
  }
  const bool stored = match.route->kind == RouteKind::kFiles || match.route->kind == RouteKind::kBatches;
  if (stored)
    if (const auto error = check_state()) return refused(*error);
  if (match.route->kind != RouteKind::kApi) return std::nullopt;
  if (const auto error = check_body(request)) return refused(*error);
  if (const auto error = check_state()) return refused(*error);
  if (const auto wait = tenant->over_rate(std::chrono::steady_clock::now())) {
    shared_.counters.reject(Rejection::kRate);
    return refused({.status = 429,
        .message = "this key has sent more requests per minute than it may",
        .code = "rate_limit_exceeded",
        .retry_after_s = wait});
  }
  return std::nullopt;
}

// A page of another site can make a browser send requests here under that site's name (DNS rebinding); on a
// loopback address only names that mean this machine are answered.
std::optional<ApiError> Service::check_host(const HttpRequest& request) const {
  const std::string* host = request.find("host");
  if (!host || !is_loopback_host(shared_.config.listen.host)) return std::nullopt;
  const std::string_view name = without_port(*host);
  const auto known = [&](std::string_view other) { return same_ignoring_case(name, other); };
  if (known("localhost") || known("127.0.0.1") || known("[::1]") || known(shared_.config.listen.host))
    return std::nullopt;
  if (std::ranges::any_of(shared_.config.allowed_hosts, known)) return std::nullopt;
  return ApiError{.status = 403,
      .message = format("the host {} is not served here: start the server with --allowed-host to allow it",
          printable(name)),
      .code = "host_not_allowed"};
}

std::optional<ApiError> Service::check_body(const HttpRequest& request) const {
  const std::string* type = request.find("content-type");
  // Ollama's users write curl -d without a type; a browser, which must not pass so, names its origin.
  const bool any_type = style_of_path(request.path()) == ApiStyle::kOllama && !request.find("origin");
  if (any_type) return std::nullopt;
  if (!type || !is_json(*type))
    return ApiError{.status = 415,
        .message = "the body must be JSON: send 'Content-Type: application/json'",
        .code = "unsupported_media_type"};
  const std::string* coding = request.find("content-encoding");
  if (coding && !same_ignoring_case(*coding, "identity"))
    return ApiError{.status = 415,
        .message = "compressed bodies are not read: send the JSON as it is",
        .code = "unsupported_content_encoding"};
  return std::nullopt;
}

std::optional<ApiError> Service::check_state() const {
  const ServerState state = shared_.state;
  if (!shared_.config.api)
    return ApiError{.status = 404,
        .message = "this is a worker of a cluster: send requests to its router",
        .code = "not_a_router"};
  if (state == ServerState::kReady) return std::nullopt;
  const bool loading = state == ServerState::kLoading;
  shared_.counters.reject(loading ? Rejection::kLoading : Rejection::kDraining);
  return ApiError{.status = 503,
      .message = loading ? "the model is still loading" : "the server is shutting down",
      .code = loading ? "model_loading" : "draining",
      .retry_after_s = loading ? 2 : 1};
}

std::string_view key_of(const HttpRequest& request) {
  if (const std::string* key = request.find("x-api-key")) return *key;
  const std::string* header = request.find("authorization");
  constexpr std::string_view kScheme = "bearer ";
  if (!header || header->size() < kScheme.size() ||
      !same_ignoring_case(std::string_view(*header).substr(0, kScheme.size()), kScheme))
    return {};
  return trim_blanks(std::string_view(*header).substr(kScheme.size()));
}

std::shared_ptr<Tenant> Service::tenant_of(const HttpRequest& request) const {
  return shared_.config.keys.find(key_of(request));
}

// CORS is off unless origins are named; then only those are told that they may read the answers.
void Service::add_fixed_headers(const HttpRequest& request, HttpResponse& response) const {
  response.headers.push_back({"x-content-type-options", "nosniff"});
  const std::string* origin = request.find("origin");
  if (!origin) return;
  const auto& allowed = shared_.config.cors_origins;
  const bool any = std::ranges::find(allowed, "*") != allowed.end();
  if (!any && std::ranges::find(allowed, *origin) == allowed.end()) return;
  response.headers.push_back({"access-control-allow-origin", any ? "*" : *origin});
  response.headers.push_back({"vary", "origin"});
  response.headers.push_back({"access-control-expose-headers", "x-request-id, retry-after"});
}

HttpResponse Service::preflight(const HttpRequest& request) const {
  HttpResponse response{.status = 204, .body = "", .content_type = "", .headers = {}};
  response.headers.push_back({"allow", "GET, HEAD, POST, DELETE, OPTIONS"});
  const size_t before = response.headers.size() + 1;
  add_fixed_headers(request, response);
  if (response.headers.size() == before) return response;  // no CORS for this origin
  response.headers.push_back({"access-control-allow-methods", "GET, POST, DELETE"});
  response.headers.push_back({"access-control-allow-headers",
      "authorization, content-type, x-api-key, x-request-id, anthropic-version, traceparent, last-event-id, "
      "x-cheetah-resume"});
  response.headers.push_back({"access-control-max-age", "600"});
  return response;
}

HttpResponse Service::error_response(const HttpRequest& request, const ApiError& error) const {
  HttpResponse response;
  response.status = error.status;
  response.body = error_body(error, style_of_path(request.path()));
  if (error.retry_after_s)
    response.headers.push_back(
        {"retry-after", format("{:.0f}", std::max(1.0, std::ceil(*error.retry_after_s)))});
  add_fixed_headers(request, response);
  return response;
}

HttpResponse Service::refuse(const HttpRequest& request, const HttpError& error) {
  return error_response(request, {.status = error.status, .message = error.message, .code = error.code});
}

void Service::handle(HttpRequest&& request, std::shared_ptr<Exchange> exchange) {
  const RouteMatch match = match_route(request.method, request.path());
  switch (match.route->kind) {
    case RouteKind::kApi:
      return run_api(*match.route, std::move(request), std::move(exchange));
    case RouteKind::kCancel:
      return cancel_run(request, match.parameter, std::move(exchange));
    case RouteKind::kEngineHealth:
      return check_engine(request, std::move(exchange));
    case RouteKind::kAdmin:
      return ask_operator(std::move(request), match.parameter, std::move(exchange));
    case RouteKind::kResponses:
      return kept_response(request, match.parameter, std::move(exchange));
    case RouteKind::kLoadModel:
    case RouteKind::kUnloadModel:
    case RouteKind::kSleep:
    case RouteKind::kWakeUp:
      return change_models(match.route->kind, request, std::move(exchange));
    default:
      break;
  }
  HttpResponse response = small_answer(match, request);
  add_fixed_headers(request, response);
  response.headers.push_back({"x-request-id", request.id});
  exchange->respond(std::move(response));
}

HttpResponse Service::small_answer(const RouteMatch& match, const HttpRequest& request) {
  switch (match.route->kind) {
    case RouteKind::kLive:
      return health("ok");
    case RouteKind::kHealth:
    case RouteKind::kReady:
      return health(status());
    case RouteKind::kVersion:
      return json_response(
          {{"version", shared_.config.version}, {"commit", shared_.config.commit}, {"name", "cheetah"}});
    case RouteKind::kModels:
    case RouteKind::kModel:
      return models(match);
    case RouteKind::kFiles:
      return jobs_.files(request, tenant_of(request)->name(), match.parameter);
    case RouteKind::kBatches:
      return jobs_.batches(request, *tenant_of(request), match.parameter);
    case RouteKind::kOllamaTags:
    case RouteKind::kOllamaLoaded:
    case RouteKind::kProps:
    case RouteKind::kSlots:
    case RouteKind::kIsSleeping:
      return other_servers_answer(match.route->kind, request);
    case RouteKind::kStats:
      return json_response(stats_json(numbers(shared_.first_backend().get()), shared_.counters));
    case RouteKind::kDecisions:
      return decisions(request);
    case RouteKind::kMetrics: {
      HttpResponse response;
      response.content_type = "text/plain; version=0.0.4; charset=utf-8";
      response.body = metrics();
      return response;
    }
    default:
      return page(request);
  }
}

// The last lines of the scheduler's log; with ?request=ID, which timings name, what it decided about one request.
HttpResponse Service::decisions(const HttpRequest& request) const {
  constexpr int64_t kShown = 200;
  constexpr std::string_view kField = "request=";
  HttpResponse response;
  const std::string_view query = request.query();
  if (!query.starts_with(kField)) {
    response.content_type = "text/plain; charset=utf-8";
    for (const auto& backend : shared_.backends()) response.body += backend->engine.explain_last(kShown);
    return response;
  }
  const std::string_view text = query.substr(kField.size());
  uint64_t id = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), id);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) {
    response.status = 400;
    response.body =
        error_body({.status = 400,
                       .message = format("request: '{}' is not a number; timings.request_id of an "
                                         "answer is one",
                           printable(text)),
                       .param = "request",
                       .code = "invalid_value"},
            ApiStyle::kOpenAi);
    return response;
  }
  Json list = Json::array();
  for (const auto& backend : shared_.backends())
    for (const Decision& decision : backend->engine.decisions_of(RequestId{id}))
      list.push_back(decision_json(decision));
  return json_response({{"request_id", id}, {"decisions", std::move(list)}});
}

std::string Service::status() const {
  if (shared_.state == ServerState::kLoading) return "loading";
  if (shared_.state == ServerState::kDraining) return "draining";
  for (const auto& backend : shared_.backends())
    if (std::string why = backend->engine.out_of_service(); !why.empty()) return why;
  return "ok";
}

std::string Service::metrics() const {
  const auto backends = shared_.backends();
  std::vector<std::string> texts;
  for (const auto& backend : backends)
    texts.push_back(metrics_text(numbers(backend.get()), shared_.counters));
  if (texts.empty()) texts.push_back(metrics_text(numbers(nullptr), shared_.counters));
  std::string text = texts.size() == 1 ? std::move(texts.front()) : merged_metrics(texts);
  if (const ModelPool* const pool = shared_.pool) text += pool_metrics(pool->models());
  if (shared_.state != ServerState::kLoading && shared_.more_metrics) text += shared_.more_metrics();
  return text;
}

HttpResponse Service::health(std::string_view status) const {
  HttpResponse response;
  response.status = status == "ok" ? 200 : 503;
  Json body = {{"status", status}};
  if (status == "loading")
    body["loading"] = loading_json(shared_.loading.read_bytes, shared_.loading.total_bytes);
  response.body = dump_json(body);
  return response;
}

HttpResponse Service::page(const HttpRequest& request) const {
  const auto file = web_file(request.path());
  HttpResponse response;
  if (!file)
    return error_response(
        request, {.status = 404, .message = "there is no page here", .code = "unknown_route"});
  response.headers = {{"content-security-policy", std::string(kWebPageSecurityPolicy)},
      {"referrer-policy", "no-referrer"}, {"etag", std::string(file->etag)}, {"cache-control", "no-cache"}};
  const std::string* known = request.find("if-none-match");
  if (known && *known == file->etag) {
    response.status = 304;
    response.content_type = "";
    return response;
  }
  response.content_type = file->content_type;
  response.body = file->content;
  return response;
}

// nullptr: no model is loaded.
ServerNumbers Service::numbers(const Backend* backend) const {
  ServerNumbers numbers;
  numbers.engine = backend ? backend->engine.stats() : empty_stats();
  if (backend) numbers.config = backend->engine.config();
  numbers.model = backend ? backend->services.model_name : "";
  numbers.version = shared_.config.version;
  numbers.ready = status() == "ok";
  if (shared_.state == ServerState::kLoading)
    numbers.loading = {shared_.loading.read_bytes, shared_.loading.total_bytes};
  if (backend) numbers.cluster = backend->engine.cluster_state();
  numbers.uptime_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  numbers.start_unix_s = start_unix_s_;
  numbers.rss_bytes = resident_bytes();
  return numbers;
}

void Service::on_connections(int64_t open) { shared_.counters.connections = open; }

size_t Service::route_index(const ExchangeRecord& record) const {
  const std::string_view target = record.target;
  const RouteMatch match = match_route(record.method, target.substr(0, target.find('?')));
  if (!match.route) return ServerCounters::kMaxRoutes - 1;
  auto row = static_cast<size_t>(match.route - routes().data());
  while (row > 0 && routes()[row - 1].path == match.route->path) --row;  // methods of one path share a row
  return row;
}

void Service::on_finished(const ExchangeRecord& record) {
  ServerCounters& counters = shared_.counters;
  const int status = record.status == 0 ? 499 : record.status;
  const auto status_class = static_cast<size_t>(std::clamp(status / 100 - 2, 0, 3));
  const size_t route = route_index(record);
  ++counters.responses[route][status_class];
  counters.bytes_in += static_cast<uint64_t>(record.bytes_in);
  counters.bytes_out += static_cast<uint64_t>(record.bytes_out);
  const bool api = route < routes().size() && routes()[route].kind == RouteKind::kApi;
  if (api && status < 400) return;  // its own line says more
  // Probes ask every few seconds, also while a model loads: their 503 is an answer.
  const bool probe = route < routes().size() && routes()[route].access == Access::kPublic;
  const bool expected = probe && shared_.state != ServerState::kReady;
  const LogLevel level = status >= 500 && !expected ? LogLevel::kWarning
                         : api                      ? LogLevel::kInfo
                                                    : LogLevel::kDebug;
  if (!shared_.log.wants(level)) return;
  const std::string_view target = record.target;
  shared_.log.write(level, "http",
      {{"request_id", record.id}, {"method", printable(record.method)},
          {"path", printable(target.substr(0, target.find('?')), 256)}, {"status", status},
          {"address", record.address}, {"bytes_in", record.bytes_in}, {"bytes_out", record.bytes_out},
          {"duration_ms", record.duration_s * 1e3}});
}

}  // namespace cheetah
