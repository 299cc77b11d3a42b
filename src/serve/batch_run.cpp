// SPDX-License-Identifier: MIT
#include "serve/batch_run.h"

#include <chrono>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "engine/tags/request_origin.h"
#include "serve/api/body.h"
#include "serve/api/failure.h"
#include "serve/api/fields.h"
#include "serve/api/json_text.h"
#include "serve/api/model_choice.h"
#include "serve/api/request_fields.h"

namespace cheetah {
namespace {

struct LineText {
  std::string custom_id, url, body;
};

// Throws ApiFailure.
LineText read_line(std::string_view text, const std::string& endpoint) {
  const OrderedJson json = parse_body(text);
  Fields fields(json, "");
  LineText line{.custom_id = fields.required_string("custom_id", 512),
      .url = fields.required_string("url", 256),
      .body = {}};
  const std::string method = fields.string("method", 16).value_or("POST");
  if (method != "POST")
    refuse("invalid_value", "method", format("method must be POST, got \"{}\"", printable(method)));
  if (!endpoint.empty() && line.url != endpoint)
    refuse("invalid_value", "url",
        format("url must be {}, as the batch says, got \"{}\"", endpoint, printable(line.url)));
  const OrderedJson* body = fields.object("body");
  if (!body) fields.missing("body");
  line.body = dump_ordered(*body);
  return line;
}

// The custom_id of a line that is otherwise wrong; "" where it has none.
std::string custom_id_of(std::string_view text) {
  const OrderedJson json = OrderedJson::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("custom_id") || !json["custom_id"].is_string()) return "";
  return json["custom_id"].get<std::string>();
}

}  // namespace

struct BatchRun::Line {
  std::string custom_id, id;
  ApiStyle style = ApiStyle::kOpenAi;
  std::unique_ptr<ResponseWriter> writer;
  std::vector<RequestId> ids;
  int64_t left = 0;
  std::optional<ApiError> error;
};

BatchRun::BatchRun(GenerationBackend& engine, std::vector<const ApiServices*> models, BatchSettings settings)
    : engine_(engine),
      models_(std::move(models)),
      settings_(std::move(settings)),
      inbox_(std::make_shared<Mailbox<Arrived>>()) {}

BatchRun::~BatchRun() { inbox_->close(); }

BatchCounts BatchRun::run(const Next& next, const Done& done, const std::function<bool()>& stop) {
  constexpr std::chrono::milliseconds kLook{100};
  done_ = &done;
  bool more = true;
  std::vector<Arrived> batch;
  while (!stop()) {
    while (more && std::ssize(open_) < settings_.window) {
      const auto line = next();
      more = line.has_value();
      if (line && line->find_first_not_of(" \t\r\n") != std::string::npos) start(*line);
    }
    if (!more && open_.empty()) return counts_;
    inbox_->wait_until(std::chrono::steady_clock::now() + kLook);
    inbox_->take_all(batch);
    for (Arrived& arrived : batch) take(arrived);
  }
  cancel_all();
  return counts_;
}

void BatchRun::start(std::string_view text) {
  const int64_t number = counts_.total++;
  auto line = std::make_unique<Line>();
  line->id = format("{}-{}", settings_.id, number);
  Line& started = *line;
  open_.emplace(number, std::move(line));
  if (const auto error = submit(started, text))
    return end(number, error->status, error_body(*error, started.style));
}

std::optional<ApiError> BatchRun::submit(Line& line, std::string_view text) {
  const int64_t number = counts_.total - 1;
  LineText read;
  const ApiResult readable = guarded([&] {
    read = read_line(text, settings_.endpoint);
    return ApiCall{};
  });
  line.custom_id = read.custom_id.empty() ? custom_id_of(text) : read.custom_id;
  if (const auto* error = std::get_if<ApiError>(&readable)) return *error;
  const RouteMatch match = match_route("POST", read.url);
  if (!match.route || match.route->kind != RouteKind::kApi || match.route->style == ApiStyle::kOllama)
    return ApiError{.status = 404,
        .message = format("there is nothing at {}", printable(read.url)),
        .code = "unknown_route"};
  line.style = match.route->style;
  CallFacts facts;
  facts.id = line.id;
  facts.unix_time =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  facts.seed = static_cast<uint64_t>(number);
  facts.now = std::chrono::steady_clock::now();
  facts.cache_salt = settings_.cache_salt;
  ChosenCall chosen = parse_for_model(match.route->parser, read.body, models_, facts);
  if (const auto* error = std::get_if<ApiError>(&chosen.result)) return *error;
  ApiCall& call = std::get<ApiCall>(chosen.result);
  if (call.stream)
    return ApiError{.message = "body.stream must not be true in a batch",
        .param = "body.stream",
        .code = "invalid_value"};
  if (call.requests.empty()) {
    end(number, 200, std::move(call.body));
    return std::nullopt;
  }
  line.writer = std::move(call.writer);
  line.left = std::ssize(call.requests);
  for (size_t i = 0; i < call.requests.size(); ++i) {
    GenerationRequest& request = call.requests[i];
    request.id = RequestId{settings_.next_request ? settings_.next_request() : next_request_++};
    request.priority = std::max(request.priority, settings_.priority);
    RequestOrigin origin{.tenant = settings_.tenant, .call = "", .trace = "", .headers = {}};
    origin.model = chosen.services->model_name;
    request.tag = std::move(origin);
    line.ids.push_back(request.id);
    engine_.submit(std::move(request), [inbox = inbox_, number, i](GenerationEvent&& event) {
      inbox->post({number, i, std::move(event)});
    });
  }
  return std::nullopt;
}

void BatchRun::take(Arrived& arrived) {
  const auto at = open_.find(arrived.line);
  if (at == open_.end()) return;
  Line& line = *at->second;
  const GenerationEvent& event = arrived.event;
  if (event.finish == FinishReason::kError || event.finish == FinishReason::kCancelled)
    line.error = generation_error(event);
  else
    line.writer->on_event(arrived.index, event);
  if (!event.done || --line.left > 0) return;
  if (line.error) return end(arrived.line, line.error->status, error_body(*line.error, line.style));
  end(arrived.line, 200, line.writer->finish());
}

void BatchRun::end(int64_t number, int status, std::string body) {
  const auto at = open_.find(number);
  const Line& line = *at->second;
  ++(status == 200 ? counts_.completed : counts_.failed);
  (*done_)(
      format(
          R"({{"id":{},"custom_id":{},"response":{{"status_code":{},"request_id":{},"body":{}}},"error":null}})",
          json_string(line.id), json_string(line.custom_id), status, json_string(line.id), body),
      counts_);
  open_.erase(at);
}

void BatchRun::cancel_all() {
  for (const auto& [number, line] : open_)
    for (const RequestId id : line->ids) engine_.cancel(id);
  open_.clear();
}

}  // namespace cheetah
