// SPDX-License-Identifier: MIT
// From the bytes of a call to its requests, for the model it names or, where the engine wants that, another.
#include <chrono>

#include "serve/api/wanted_model.h"
#include "serve/api_run.h"
#include "serve/model_pool.h"

namespace cheetah {
namespace {

ServeTime now() { return std::chrono::steady_clock::now(); }

}  // namespace

ApiError ApiRun::internal_error() {
  return {.status = 500, .message = "the server failed to answer this request", .code = "internal_error"};
}

void ApiRun::start() {
  exchange_->listen(shared_from_this());
  if (const auto error = find_place()) {
    setting_.shared.counters.reject(Rejection::kBadRequest);
    fail(*error);
    return end();
  }
  setting_.shared.counters.parsing.add();
  setting_.shared.parse_elsewhere([self = shared_from_this()] {
    if (self->setting_.backend)
      self->parse();
    else
      self->choose_model();
  });
}

// On a parser thread. The model may have to be loaded first; the call is parsed with what it then has.
void ApiRun::choose_model() {
  const WantedModel wanted = wanted_model(request_.body);
  setting_.shared.pool.load()->acquire({.model = wanted.name, .keep_alive_s = wanted.keep_alive_s},
      [self = shared_from_this()](ModelPool::Answer answer) {
        if (auto* lease = std::get_if<ModelLease>(&answer)) {
          self->setting_.backend = std::move(*lease);
          return self->setting_.shared.parse_elsewhere([self] { self->parse(); });
        }
        auto refused =
            std::make_shared<ChosenCall>(ChosenCall{std::get<ApiError>(std::move(answer)), nullptr});
        self->exchange_->thread().run([self, refused] { self->on_parsed(std::move(*refused)); });
      });
}

CallFacts ApiRun::facts() const {
  CallFacts facts;
  facts.id = answer_.id;
  facts.unix_time = answer_.unix_time;
  facts.seed = answer_.seed;
  facts.now = now();
  facts.cache_salt = setting_.tenant->cache_salt();
  facts.tenant = setting_.tenant->name();
  facts.archive = setting_.shared.archive;
  facts.timings = request_.find("x-cheetah-timings") != nullptr;
  return facts;
}

// On a parser thread.
void ApiRun::parse() {
  auto call = std::make_shared<ChosenCall>();  // shared: std::function must be copyable
  try {
    *call = parse_for_model(setting_.route.parser, request_.body, setting_.backend->models(), facts());
    parse_for_beginning(*call);
  } catch (const std::exception& error) {
    setting_.shared.log.write(
        LogLevel::kError, "parser_failed", {{"request_id", summary_.id}, {"why", error.what()}});
    call->result = internal_error();
  }
  exchange_->thread().run([self = shared_from_this(), call] { self->on_parsed(std::move(*call)); });
}

void ApiRun::on_parsed(ChosenCall call) {
  take_result(std::move(call));
  setting_.shared.counters.parsing.remove();  // only now: draining waits for it, and then for the engine
}

void ApiRun::take_result(ChosenCall call) {
  summary_.parsed = now();
  services_ = call.services;
  if (answered_) return end();
  if (auto* error = std::get_if<ApiError>(&call.result)) {
    setting_.shared.counters.reject(Rejection::kBadRequest);
    fail(*error);
    return end();
  }
  call_ = std::move(std::get<ApiCall>(call.result));
  summary_.stream = call_.stream;
  if (const auto error = check_place()) {
    setting_.shared.counters.reject(Rejection::kBadRequest);
    fail(*error);
    return end();
  }
  if (call_.requests.empty()) {
    respond(200, std::move(call_.body));
    return end();
  }
  // An answer names one model: calls of several requests stay with theirs, and vectors of another are
  // useless.
  const bool may_change = !from_ && !setting_.backend->more_models.empty() && call_.requests.size() == 1 &&
                          call_.requests.front().pooling == Pooling::kNone;
  if (may_change)
    original_ = call_.requests.front();
  else
    std::string().swap(request_.body);
  describe_request();
  submit();
}

void ApiRun::change_model(const std::string& name) {
  const ApiServices* other = nullptr;
  for (const ApiServices* one : setting_.backend->models())
    if (one->model_name == name) other = one;
  if (other == nullptr || !original_) return on_changed(*services_, ApiError{});
  setting_.shared.counters.parsing.add();
  setting_.shared.parse_elsewhere([self = shared_from_this(), other] {
    auto result = std::make_shared<ApiResult>();
    try {
      *result = parse_for_other_model(
          self->setting_.route.parser, self->request_.body, *self->services_, *other, self->facts());
    } catch (const std::exception&) {
      *result = internal_error();
    }
    self->exchange_->thread().run([self, other, result] {
      self->on_changed(*other, std::move(*result));
      self->setting_.shared.counters.parsing.remove();
    });
  });
}

void ApiRun::on_changed(const ApiServices& services, ApiResult result) {
  std::string().swap(request_.body);
  if (answered_) {  // its client has left
    left_ = 0;
    return end();
  }
  auto* call = std::get_if<ApiCall>(&result);
  if (call && call->requests.size() == 1) {
    degraded_from_ = services_->model_name;
    services_ = &services;
    call_ = std::move(*call);
    describe_request();
  } else {
    call_.requests = {std::move(*original_)};
  }
  original_.reset();
  ids_.clear();
  send();
}

void ApiRun::describe_request() {
  const GenerationRequest& first = call_.requests.front();
  TracedRequest& traced = summary_.traced;
  const std::string_view path = setting_.route.path;
  traced.operation = first.pooling != Pooling::kNone ? "embeddings"
                     : path == "/completions"        ? "text_completion"
                                                     : "chat";
  traced.model = services_->model_name;
  traced.max_tokens = first.max_tokens;
  traced.temperature = first.sampling.temperature;
  traced.top_p = first.sampling.top_p;
  traced.top_k = first.sampling.top_k;
  traced.choices = first.n;
  traced.seed = first.seed;
  traced.stream = call_.stream;
}

}  // namespace cheetah
