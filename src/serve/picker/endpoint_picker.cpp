// SPDX-License-Identifier: MIT
#include "serve/picker/endpoint_picker.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include "base/error.h"
#include "base/open_count.h"
#include "base/time.h"
#include "engine/tags/request_origin.h"
#include "serve/api/model_choice.h"
#include "serve/http/network_thread.h"
#include "serve/picker/grpc_server.h"
#include "serve/picker/picker_call.h"
#include "serve/picker/protobuf.h"
#include "serve/routes.h"

namespace cheetah {
namespace {

constexpr std::string_view kProcess = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";
constexpr std::string_view kHealth = "/grpc.health.v1.Health/Check";
constexpr std::string_view kObjective = "x-gateway-inference-objective";
constexpr int64_t kMostAsking = 256;
constexpr size_t kMostHeldBytes = size_t{256} << 20;  // of bodies, until their endpoints are chosen
constexpr std::chrono::seconds kPatience{10};

ImmediateAnswer refusal_of(const ApiError& error, ApiStyle style) {
  ImmediateAnswer answer{.status = error.status, .body = error_body(error, style)};
  if (error.retry_after_s)
    answer.retry_after_s = std::max<int64_t>(1, static_cast<int64_t>(*error.retry_after_s + 0.5));
  return answer;
}

std::string_view value_of(const PickerQuestion& question, std::string_view name) {
  for (const auto& [key, value] : question.headers)
    if (key == name) return value;
  return {};
}

std::string_view key_of(const PickerQuestion& question) {
  if (const auto key = value_of(question, "x-api-key"); !key.empty()) return key;
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view header = value_of(question, "authorization");
  if (header.size() < kScheme.size() || !same_ignoring_case(header.substr(0, kScheme.size()), kScheme))
    return {};
  return trim_blanks(header.substr(kScheme.size()));
}

RequestOrigin origin_in(const PickerQuestion& question, const Tenant& tenant, const std::string& model) {
  constexpr std::string_view kSecrets[] = {"authorization", "x-api-key", "cookie", "proxy-authorization"};
  RequestOrigin from{.tenant = tenant.name(), .model = model};
  for (const auto& [name, value] : question.headers)
    if (!name.starts_with(':') && std::ranges::find(kSecrets, name) == std::end(kSecrets))
      from.headers.emplace_back(name, value);
  return from;
}

// HealthCheckRequest{service = 1}, HealthCheckResponse{status = 1}: 1 serves, 2 does not.
class HealthCall final : public GrpcCall {
 public:
  HealthCall(const EndpointSource& source, std::shared_ptr<GrpcReply> reply)
      : source_(source), reply_(std::move(reply)) {}
  void on_message(std::string&& message) override {
    bool lives = false;
    try {
      ProtoReader reader(message);
      while (const auto field = reader.next()) lives = field->number == 1 && field->bytes == "liveness";
    } catch (const Error& error) {
      return reply_->finish(GrpcStatus::kInvalidArgument, error.what());
    }
    reply_->send(ProtoWriter().number(1, lives || source_.ready() ? 1 : 2).text());
    reply_->finish(GrpcStatus::kOk, "");
  }
  void on_half_closed() override {}

 private:
  const EndpointSource& source_;
  const std::shared_ptr<GrpcReply> reply_;  // shared with the server
};

}  // namespace

struct EndpointPicker::State final : PickerDesk {
  State(PickerConfig setting, EndpointSource& decider)
      : config(std::move(setting)),
        source(decider),
        server({.host = config.server.listen.host,
                   .port = config.port,
                   .tls_cert = config.server.listen.tls_cert,
                   .tls_key = config.server.listen.tls_key,
                   .message_bytes = config.server.listen.limits.body_bytes + 65'536},
            [this](std::string_view path, std::shared_ptr<GrpcReply> reply) {
              return open(path, std::move(reply));
            }) {
    server.start();
  }
  // Who was asked has answered before the rest goes.
  ~State() override {
    parser.join();
    asking->wait_for_none(std::chrono::steady_clock::now() + kPatience);
  }

  std::unique_ptr<GrpcCall> open(std::string_view path, std::shared_ptr<GrpcReply> reply) {
    if (path == kProcess) return std::make_unique<PickerCall>(*this, std::move(reply), bodies);
    if (path == kHealth) return std::make_unique<HealthCall>(source, std::move(reply));
    return nullptr;
  }

  // On the server's thread. Bodies are read on another: a long prompt takes its time.
  void choose(PickerQuestion question, std::function<bool(PickerAnswer&&)> tell) override {
    if (*asking >= kMostAsking) {
      tell({.endpoints = {},
          .refusal = refusal_of({.status = 429,
                                    .message = "too many requests wait for an endpoint: try again",
                                    .code = "server_busy",
                                    .retry_after_s = 1},
              style_of_path(question.path))});
      return;
    }
    asking->add();
    auto shared = std::make_shared<PickerQuestion>(std::move(question));  // std::function copies
    boost::asio::post(parser, [this, shared, tell = std::move(tell)]() mutable {
      ask(*shared, [this, tell = std::move(tell), open = asking](PickerAnswer&& answer) {
        auto kept = std::make_shared<PickerAnswer>(std::move(answer));
        server.thread().run([this, kept, tell] {
          const uint64_t ticket = kept->ticket;
          if (!tell(std::move(*kept)) && ticket != 0) source.used({.ticket = ticket});
        });
        open->remove();
      });
    });
  }

  void ended(const PickerOutcome& outcome) override {
    source.used({.ticket = outcome.ticket,
        .answered = outcome.answered,
        .first_byte = outcome.first_byte,
        .total = outcome.total});
  }

  // On the parser's thread.
  void ask(PickerQuestion& question, std::function<void(PickerAnswer&&)> tell) {
    const ApiStyle style = style_of_path(question.path);
    const std::shared_ptr<Tenant> tenant = config.server.keys.find(key_of(question));
    if (!tenant)
      return tell({.endpoints = {},
          .refusal = refusal_of(
              {.status = 401,
                  .message = "the API key is missing or wrong: send it as 'Authorization: Bearer KEY'",
                  .code = "invalid_api_key"},
              style)});
    EndpointQuestion asked;
    asked.objective = value_of(question, kObjective);
    asked.subset = std::move(question.subset);
    if (const auto error = read_request(question, *tenant, asked.request))
      return tell({.endpoints = {}, .refusal = refusal_of(*error, style)});
    source.choose(std::move(asked), [tell = std::move(tell), style](EndpointAnswer&& answer) {
      PickerAnswer told{.endpoints = {}, .ticket = answer.ticket};
      for (const std::string& endpoint : answer.endpoints)
        told.endpoints += (told.endpoints.empty() ? "" : ",") + endpoint;
      if (answer.endpoints.empty())
        told.refusal = refusal_of({.status = answer.status,
                                      .message = answer.why,
                                      .code = answer.code,
                                      .retry_after_s = answer.retry_after_s},
            style);
      tell(std::move(told));
    });
  }

  // The first request of a call stands for all; what is no call of the API goes to any worker with time.
  std::optional<ApiError> read_request(
      const PickerQuestion& question, const Tenant& tenant, GenerationRequest& request) const {
    const ApiServices* services = config.models.front();
    const RouteMatch match = match_route(question.method, question.path);
    if (match.route != nullptr && match.route->kind == RouteKind::kApi && !question.body.empty()) {
      const CallFacts facts{.id = "picked",
          .unix_time = unix_seconds(),
          .now = std::chrono::steady_clock::now(),
          .cache_salt = tenant.cache_salt(),
          .tenant = tenant.name()};
      ChosenCall call = parse_for_model(match.route->parser, question.body, config.models, facts);
      if (auto* error = std::get_if<ApiError>(&call.result)) return std::move(*error);
      if (call.services != nullptr) services = call.services;
      auto& requests = std::get<ApiCall>(call.result).requests;
      if (!requests.empty()) request = std::move(requests.front());
    }
    request.tag = origin_in(question, tenant, services->model_name);
    return std::nullopt;
  }

  const PickerConfig config;
  EndpointSource& source;
  PickerBodies bodies{
      .most_each = static_cast<size_t>(config.server.listen.limits.body_bytes), .left = kMostHeldBytes};
  std::shared_ptr<OpenCount> asking =
      std::make_shared<OpenCount>();  // questions without an answer; with those
  boost::asio::thread_pool parser{1};
  GrpcServer server;  // last: its calls end before the rest
};

EndpointPicker::EndpointPicker(const PickerConfig& config, EndpointSource& source)
    : state_(std::make_unique<State>(config, source)) {}
EndpointPicker::~EndpointPicker() = default;
uint16_t EndpointPicker::port() const { return state_->server.port(); }

}  // namespace cheetah
