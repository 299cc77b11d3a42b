// SPDX-License-Identifier: MIT
#include "serve/picker/picker_call.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "serve/api/api_error.h"

namespace cheetah {
namespace {

constexpr size_t kPieceBytes = 62'000;  // gateways take pieces of up to 64 KiB

std::string value_of(const std::vector<std::pair<std::string, std::string>>& headers, std::string_view name) {
  const auto found = std::ranges::find(headers, name, &std::pair<std::string, std::string>::first);
  return found == headers.end() ? "" : found->second;
}

}  // namespace

PickerCall::PickerCall(PickerDesk& desk, std::shared_ptr<GrpcReply> reply, PickerBodies& bodies)
    : desk_(desk), reply_(std::move(reply)), bodies_(bodies), start_(std::chrono::steady_clock::now()) {}

PickerCall::~PickerCall() {
  forget_body();
  if (outcome_.ticket == 0) return;
  outcome_.total =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start_);
  desk_.ended(outcome_);
}

void PickerCall::on_message(std::string&& message) {
  try {
    take(parse_processing_request(message));
  } catch (const Error& error) {
    reply_->finish(GrpcStatus::kInvalidArgument, error.what());
  }
}

// An answer that is still to come is waited for.
void PickerCall::on_half_closed() {
  half_closed_ = true;
  if (choice_ != Choice::kAsked) reply_->finish(GrpcStatus::kOk, "");
}

void PickerCall::take(ProcessingRequest&& request) {
  if (request.modes) modes_ = *request.modes;
  if (request.subset && !question_.subset) question_.subset = std::move(request.subset);
  if (request.observed_only || !request.phase) return;
  switch (*request.phase) {
    case ProcessingPhase::kRequestHeaders:
      return on_request_headers(request);
    case ProcessingPhase::kRequestBody:
      return on_request_body(request);
    case ProcessingPhase::kRequestTrailers:
      return on_request_trailers();
    case ProcessingPhase::kResponseHeaders:
    case ProcessingPhase::kResponseBody:
    case ProcessingPhase::kResponseTrailers:
      return on_response(request);
  }
}

// What an endpoint can be chosen by is in the body; where that does not come in time, by the headers.
void PickerCall::on_request_headers(ProcessingRequest& request) {
  if (!question_.headers.empty()) throw Error("the request's headers came twice");
  question_.headers = std::move(request.headers);
  question_.method = value_of(question_.headers, ":method");
  question_.path = value_of(question_.headers, ":path");
  question_.path.resize(std::min(question_.path.find('?'), question_.path.size()));
  const bool waits = modes_.request == BodyMode::kBuffered || modes_.request == BodyMode::kBufferedPartial;
  if (request.end_of_stream) {
    body_ended_ = true;
    return choose(ProcessingPhase::kRequestHeaders);
  }
  if (duplex()) return;
  if (waits) return reply_->send(continue_text(ProcessingPhase::kRequestHeaders));
  choose(ProcessingPhase::kRequestHeaders);
}

bool PickerCall::add_to_body(std::string_view piece) {
  const bool too_large = body_.size() + piece.size() > bodies_.most_each;
  if (too_large || piece.size() > bodies_.left) {
    ApiError error{.status = 413,
        .message = format("the body has more than {} bytes", bodies_.most_each),
        .code = "request_too_large"};
    if (!too_large)
      error = {
          .status = 429, .message = "too many large bodies come at once: try again", .code = "server_busy"};
    refuse({.status = error.status, .body = error_body(error, ApiStyle::kOpenAi)});
    return false;
  }
  body_ += piece;
  bodies_.left -= piece.size();
  return true;
}

void PickerCall::forget_body() {
  bodies_.left += body_.size();
  std::string().swap(body_);
}

void PickerCall::on_request_body(ProcessingRequest& request) {
  if (choice_ == Choice::kRefused) return;
  if (choice_ != Choice::kNotAsked) {  // it was made by the headers
    if (choice_ == Choice::kAsked || duplex()) throw Error("a body out of turn");
    return reply_->send(continue_text(ProcessingPhase::kRequestBody));
  }
  if (!add_to_body(request.body)) return;
  if (duplex() && !request.end_of_stream) return;
  body_ended_ = true;
  choose(duplex() ? ProcessingPhase::kRequestHeaders : ProcessingPhase::kRequestBody);
}

void PickerCall::on_request_trailers() {
  if (choice_ == Choice::kRefused) return;
  if (choice_ == Choice::kNotAsked) {
    trailers_ = true;
    return choose(ProcessingPhase::kRequestHeaders);
  }
  if (choice_ == Choice::kAsked) throw Error("trailers out of turn");
  reply_->send(continue_text(ProcessingPhase::kRequestTrailers));
}

void PickerCall::choose(ProcessingPhase answered_phase) {
  answered_phase_ = answered_phase;
  choice_ = Choice::kAsked;
  question_.body = body_;
  desk_.choose(std::move(question_), [this, alive = std::weak_ptr(alive_)](PickerAnswer&& answer) {
    if (alive.expired()) return false;
    chosen(std::move(answer));
    return true;
  });
}

void PickerCall::chosen(PickerAnswer&& answer) {
  outcome_.ticket = answer.ticket;
  if (answer.refusal) {
    refuse(std::move(*answer.refusal));
  } else {
    choice_ = Choice::kMade;
    reply_->send(destination_text(answered_phase_, answer.endpoints));
    duplex() ? return_body() : forget_body();
  }
  if (half_closed_) reply_->finish(GrpcStatus::kOk, "");
}

void PickerCall::return_body() {
  const std::string_view all = body_;
  for (size_t at = 0; at < all.size(); at += kPieceBytes)
    reply_->send(body_piece_text(ProcessingPhase::kRequestBody, all.substr(at, kPieceBytes),
        !trailers_ && at + kPieceBytes >= all.size()));
  if (trailers_) reply_->send(continue_text(ProcessingPhase::kRequestTrailers));
  forget_body();
}

void PickerCall::refuse(ImmediateAnswer answer) {
  choice_ = Choice::kRefused;
  forget_body();
  reply_->send(immediate_text(answer));
}

void PickerCall::on_response(const ProcessingRequest& request) {
  const ProcessingPhase phase = *request.phase;
  if (phase == ProcessingPhase::kResponseHeaders) {
    const auto status = to_integer(value_of(request.headers, ":status"));
    outcome_.answered = status && *status < 400;
    outcome_.first_byte =
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start_);
  }
  const bool echo = phase == ProcessingPhase::kResponseBody && modes_.response == BodyMode::kFullDuplex;
  reply_->send(echo ? body_piece_text(phase, request.body, request.end_of_stream) : continue_text(phase));
}

}  // namespace cheetah
