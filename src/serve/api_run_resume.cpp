// SPDX-License-Identifier: MIT
// Calls whose client comes back for the rest of an answer.
#include <limits>

#include "base/hash.h"
#include "base/time.h"
#include "serve/api_run.h"

namespace cheetah {
namespace {

constexpr int64_t kMostChoices = 256;  // every event names the place of each

ServeTime now() { return std::chrono::steady_clock::now(); }

// A different seed for every request that names none: of its number and the start of the clock.
uint64_t fresh_seed(uint64_t number) {
  return split_mix64(static_cast<uint64_t>(now().time_since_epoch().count()), number);
}

int64_t num_choices(const std::vector<GenerationRequest>& requests) {
  int64_t sum = 0;
  for (const GenerationRequest& request : requests) sum += request.n;
  return sum;
}

// What answers takes up streams that another process began. With models that are loaded on demand there may be none yet.
bool can_go_on(const Backend* backend) { return backend != nullptr && backend->engine.can_go_on(); }

ApiError wrong_place(std::string message) {
  return {.status = 400,
      .message = std::move(message),
      .param = "last-event-id",
      .code = "invalid_last_event_id"};
}

}  // namespace

const std::string* ApiRun::place_header(const HttpRequest& request) {
  const std::string* given = request.find("last-event-id");
  return given != nullptr ? given : request.find("x-cheetah-resume");
}

// A whole answer that is asked for again under its key is the same answer: its seed follows from the key.
std::optional<ApiError> ApiRun::find_place() {
  const std::string* key = request_.find("idempotency-key");
  const bool kept = key != nullptr && !key->empty() && can_go_on(setting_.backend.get());
  answer_ = {.id = summary_.id,
      .unix_time = unix_seconds(),
      .seed = kept ? mix64(fnv1a(setting_.tenant->name() + "\n" + *key))
                   : fresh_seed(setting_.shared.next_request.load()),
      .model = ""};
  has_key_ = kept;
  const std::string* given = place_header(request_);
  if (given == nullptr) return std::nullopt;
  if (!can_go_on(setting_.backend.get()))
    return wrong_place("streams go on in a cluster alone: send the request without Last-Event-ID");
  from_ = StreamPlace::parse(*given);
  if (!from_)
    return wrong_place("Last-Event-ID is not the id of an event of this API: send the last one as it came");
  answer_ = from_->facts;
  return std::nullopt;
}

// For the model that answered the beginning.
void ApiRun::parse_for_beginning(ChosenCall& call) {
  if (!from_ || from_->facts.model.empty() || !std::holds_alternative<ApiCall>(call.result)) return;
  for (const ApiServices* other : setting_.backend->models()) {
    if (other->model_name != from_->facts.model || other == call.services) continue;
    call.result =
        parse_for_other_model(setting_.route.parser, request_.body, *call.services, *other, facts());
    degraded_from_ = call.services->model_name;
    call.services = other;
    return;
  }
  call.result =
      wrong_place("the model that began the answer is not served here any more: send the request again");
}

std::optional<ApiError> ApiRun::check_place() const {
  if (!from_) return std::nullopt;
  if (!call_.stream || call_.stream_type != kEventStream)
    return wrong_place(
        "only a stream goes on after an event: send \"stream\": true, as in the first request");
  if (std::ssize(from_->choices) != num_choices(call_.requests))
    return wrong_place("Last-Event-ID belongs to another request: send the body of the first one");
  return std::nullopt;
}

void ApiRun::number_events() {
  numbers_.reset();
  const int64_t count = num_choices(call_.requests);
  if (!call_.stream || call_.stream_type != kEventStream || !can_go_on(setting_.backend.get()) ||
      count > kMostChoices)
    return;
  answer_.model = degraded_from_.empty() ? "" : services_->model_name;
  choices_each_ = static_cast<size_t>(call_.requests.front().n);
  numbers_.emplace(answer_, static_cast<size_t>(count), from_);
}

// Tokens that are not generated again have no logprobs: of a whole answer all would be missed.
void ApiRun::say_what_client_has(
    size_t index, const GenerationRequest& request, RequestOrigin& origin) const {
  origin.may_come_back = numbers_.has_value() || (has_key_ && !call_.stream);
  const auto n = static_cast<size_t>(request.n);
  if (from_) {
    origin.has.emplace();
    for (size_t i = 0; i < n; ++i) origin.has->push_back(from_->choices[index * choices_each_ + i].tokens);
  } else if (has_key_ && !call_.stream) {
    const int64_t any = request.top_logprobs ? 0 : std::numeric_limits<int64_t>::max();
    origin.has = std::vector<int64_t>(n, any);
  }
}

}  // namespace cheetah
