// SPDX-License-Identifier: MIT
// The part of Service that answers about models: which there are, how their engines do, loading and unloading them.
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "model/model.h"
#include "serve/api/llama_native.h"
#include "serve/api/ollama.h"
#include "serve/api/wanted_model.h"
#include "serve/pool_answers.h"
#include "serve/service.h"

namespace cheetah {
namespace {

// Answers 200 as soon as the engine is idle or takes a step, 503 when neither happens in time.
class EngineProbe final : public ExchangeListener {
 public:
  EngineProbe(std::shared_ptr<const Backend> backend, std::chrono::milliseconds limit,
      std::shared_ptr<Exchange> exchange, std::vector<HttpHeader> headers)
      : backend_(std::move(backend)),
        limit_(limit),
        exchange_(std::move(exchange)),
        headers_(std::move(headers)),
        start_(std::chrono::steady_clock::now()),
        first_steps_(backend_->engine.stats().steps) {}

  void look(ServeTime now) {
    const EngineStats stats = backend_->engine.stats();
    const bool idle = stats.running + stats.waiting + stats.swapped == 0;
    const bool healthy = idle || stats.steps > first_steps_;
    if (!healthy && now - start_ < limit_) return;
    HttpResponse response;
    response.status = healthy ? 200 : 503;
    response.headers = headers_;
    response.body = dump_json(Json{{"status", healthy ? "ok" : "stalled"}, {"steps", stats.steps},
        {"running", stats.running}, {"waiting", stats.waiting}});
    exchange_->respond(std::move(response));
  }
  void on_gone() override {}
  void on_tick(ServeTime now) override { look(now); }

 private:
  const std::shared_ptr<const Backend> backend_;  // shared: it stays as long
  std::chrono::milliseconds limit_;
  std::shared_ptr<Exchange> exchange_;
  std::vector<HttpHeader> headers_;
  ServeTime start_;
  uint64_t first_steps_;
};

}  // namespace

void Service::check_engine(const HttpRequest& request, std::shared_ptr<Exchange> exchange) {
  auto backend = shared_.first_backend();
  HttpResponse response = health(backend ? "ok" : status());
  response.headers.push_back({"x-request-id", request.id});
  if (!backend) return exchange->respond(std::move(response));
  auto probe = std::make_shared<EngineProbe>(
      std::move(backend), shared_.config.engine_stall, exchange, response.headers);
  exchange->listen(probe);
  probe->look(std::chrono::steady_clock::now());
}

// What clients of Ollama, llama.cpp and vLLM ask for.
HttpResponse Service::other_servers_answer(RouteKind kind, const HttpRequest& request) const {
  const ModelPool* const pool = shared_.pool;
  HttpResponse response;
  if (kind == RouteKind::kIsSleeping) {
    const auto all = pool ? pool->models() : std::vector<ModelStatus>();
    const bool asleep = std::ranges::any_of(all, &ModelStatus::asleep);
    response.body = format("{{\"is_sleeping\":{}}}", asleep);
    return response;
  }
  if (kind == RouteKind::kOllamaTags || kind == RouteKind::kOllamaLoaded) {
    const bool tags = kind == RouteKind::kOllamaTags;
    if (pool) {
      response.body = tags ? ollama_tags(pool->models()) : ollama_loaded(pool->models());
    } else {
      const Backend* const backend = shared_.backend;
      const auto models = backend ? backend->models() : std::vector<const ApiServices*>();
      response.body = tags ? ollama_tags(models) : ollama_loaded(models);
    }
    return response;
  }
  const std::string wanted = request.query_value("model");
  std::shared_ptr<const Backend> backend;
  for (auto& one : shared_.backends())
    if (!backend && (wanted.empty() || one->services.model_name == wanted)) backend = std::move(one);
  if (!backend && status() != "ok") return health(status());
  if (!backend)
    return error_response(
        request, {.status = 503,
                     .message = "the model is not loaded: a request to it, or POST /models/load, "
                                "loads it",
                     .code = "model_not_loaded"});
  response.body = kind == RouteKind::kProps ? llama_props(backend->services)
                                            : llama_slots(backend->services, backend->engine.stats().running);
  return response;
}

HttpResponse Service::models(const RouteMatch& match) const {
  std::vector<Json> all;
  if (const ModelPool* const pool = shared_.pool) {
    all = model_list(pool->models());
    std::ranges::sort(all, {}, [](const Json& one) { return one["id"].get<std::string>(); });
  } else if (const Backend* const backend = shared_.backend) {
    for (const ApiServices* services : backend->models())
      for (const std::string& name : services->names()) all.push_back(model_json(*services, name));
  }
  HttpResponse response;
  if (match.route->kind == RouteKind::kModels) {
    response.body = dump_json(Json{{"object", "list"}, {"data", std::move(all)}});
    return response;
  }
  const auto found = std::ranges::find_if(all, [&](const Json& one) { return one["id"] == match.parameter; });
  if (found != all.end()) {
    response.body = dump_json(*found);
    return response;
  }
  response.status = 404;
  response.body =
      error_body({.status = 404,
                     .message = format("the model '{}' is not served here", printable(match.parameter)),
                     .param = "model",
                     .code = "model_not_found"},
          ApiStyle::kOpenAi);
  return response;
}

// A page of another site can send a POST without a body; what it may not read it shall not cause either.
std::optional<ApiError> Service::check_origin(const HttpRequest& request) const {
  const std::string* const origin = request.find("origin");
  const std::string* const host = request.find("host");
  if (!origin || (host && origin->ends_with("://" + *host))) return std::nullopt;
  const auto& allowed = shared_.config.cors_origins;
  if (std::ranges::any_of(allowed, [&](const std::string& one) { return one == "*" || one == *origin; }))
    return std::nullopt;
  return ApiError{.status = 403,
      .message = "a page of another site may not do this: --cors-origin allows its origin",
      .code = "origin_not_allowed"};
}

// /models/load answers at once, as llama.cpp does; the others once it is done.
void Service::change_models(RouteKind kind, const HttpRequest& request, std::shared_ptr<Exchange> exchange) {
  const auto answer = [this, request, exchange](const std::optional<ApiError>& error) {
    exchange->thread().run([this, request, exchange, error] {
      HttpResponse response;
      if (error)
        response = error_response(request, *error);
      else
        response.body = R"({"success":true})";
      response.headers.push_back({"x-request-id", request.id});
      exchange->respond(std::move(response));
    });
  };
  if (const auto error = check_origin(request)) return answer(error);
  if (const auto error = check_state()) return answer(error);
  ModelPool* const pool = shared_.pool;
  if (!pool)
    return answer(ApiError{.status = 501,
        .message =
            "this server keeps its one model: start it with several, --models-dir or --enable-sleep-mode to "
            "load and unload them",
        .code = "unsupported_operation"});
  std::string model = wanted_model(request.body).name;
  if (model.empty()) model = request.query_value("model");
  const bool needs_name = kind == RouteKind::kLoadModel || kind == RouteKind::kUnloadModel;
  if (needs_name && model.empty())
    return answer(ApiError{.status = 400,
        .message = "model is missing: send {\"model\": NAME}",
        .param = "model",
        .code = "missing_required_parameter"});
  switch (kind) {
    case RouteKind::kLoadModel: {
      const auto all = pool->models();
      if (std::ranges::none_of(all, [&](const ModelStatus& one) { return one.model.answers_to(model); }))
        return pool->load(model, answer);  // says which there are
      pool->load(model, [](const std::optional<ApiError>&) {});
      return answer(std::nullopt);
    }
    case RouteKind::kUnloadModel:
      return pool->unload(model, answer);
    case RouteKind::kSleep:
      return pool->sleep(model, answer);
    default:
      return pool->wake_up(model, answer);
  }
}

}  // namespace cheetah
