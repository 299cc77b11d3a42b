// SPDX-License-Identifier: MIT
#include "serve/http/connection.h"

#include <boost/asio/error.hpp>

#include "base/format.h"
#include "base/time.h"

namespace cheetah {
namespace {

ServeTime now() { return std::chrono::steady_clock::now(); }

// What a client may call a request in our logs.
bool is_request_id(std::string_view text) {
  return !text.empty() && text.size() <= 128 &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:") ==
             std::string_view::npos;
}

}  // namespace

Connection::Connection(std::unique_ptr<ByteStream> stream, Setting setting)
    : stream_(std::move(stream)),
      setting_(std::move(setting)),
      parser_(setting_.limits),
      phase_start_(now()) {}

void Connection::start() {
  stream_->handshake([self = shared_from_this()](const ByteStream::ErrorCode& error) {
    if (self->phase_ == Phase::kClosed) return;
    if (error) return self->close();
    self->phase_ = Phase::kIdle;
    self->phase_start_ = now();
    self->read();
  });
}

void Connection::read() {
  if (reading_ || read_ended_ || phase_ == Phase::kClosed) return;
  if (phase_ == Phase::kRunning && std::ssize(input_) >= setting_.limits.pipelined_bytes) return;
  reading_ = true;
  stream_->read_some(read_buffer_.data(), read_buffer_.size(),
      [self = shared_from_this()](const ByteStream::ErrorCode& error, size_t count) {
        self->reading_ = false;
        self->on_read(error, count);
      });
}

void Connection::on_read(const ByteStream::ErrorCode& error, size_t count) {
  if (phase_ == Phase::kClosed) return;
  if (error) return on_read_end(error == boost::asio::error::eof);
  if (phase_ != Phase::kLingering) {
    input_.append(read_buffer_.data(), count);
    process();
  }
  read();
}

// A client that only stopped sending still gets its response. (The end of a TLS stream ends both ways.)
void Connection::on_read_end(bool orderly) {
  if (!orderly || phase_ != Phase::kRunning) return close();
  read_ended_ = true;
  if (exchange_->finished_) return;
  const bool can_be_asked = exchange_->begun_ || exchange_->chunks_;
  if (!stream_->is_plain() || !can_be_asked) return close();
  answer_half_closed();
}

// TCP tells us the same of a client that reads on and of one that left, until we send something: the latter's
// system answers with a reset. A stream soon sends; otherwise an interim response, which every HTTP/1.1
// client skips, is the question.
void Connection::answer_half_closed() {
  stream_->wait_for_error([self = shared_from_this()] { self->close(); });
  if (exchange_->begun_) return;
  send("HTTP/1.1 100 Continue\r\n\r\n");
  flush();
}

void Connection::process() {
  while (phase_ <= Phase::kBody && !input_.empty() && parse()) {
  }
}

// One stretch of parsing; false when more bytes are needed or the request is on its way.
bool Connection::parse() {
  if (phase_ == Phase::kIdle) {
    phase_ = Phase::kHead;
    phase_start_ = request_start_ = now();
    record_ = {};
    parser_.reset();
  }
  std::string_view data = input_;
  parser_.consume(data);
  const size_t consumed = input_.size() - data.size();
  record_.bytes_in += static_cast<int64_t>(consumed);
  input_.erase(0, consumed);
  if (parser_.error()) {
    refuse(*parser_.error());
    return false;
  }
  if (parser_.head_ready() && !on_head()) return false;
  if (parser_.done()) {
    dispatch();
    return false;
  }
  return !input_.empty();
}

// The head is complete: whether to read the body.
bool Connection::on_head() {
  HttpRequest request = parser_.request();
  name_request(request);
  const std::string* expect = request.find("expect");
  if (expect && !same_ignoring_case(*expect, "100-continue")) {
    refuse({417, "expectation_failed", "the only expectation understood is 100-continue"});
    return false;
  }
  if (auto answer = setting_.handler.check_head(request)) {
    open_exchange(request, request.keep_alive);
    answer_at_once(std::move(*answer), request.keep_alive && !request.has_body);
    return false;
  }
  if (expect && request.has_body && input_.empty()) {
    send("HTTP/1.1 100 Continue\r\n\r\n");
    flush();
  }
  phase_ = Phase::kBody;
  parser_.accept_body();
  return true;
}

void Connection::name_request(HttpRequest& request) {
  request.address = setting_.address;
  const std::string* given = request.find("x-request-id");
  request.id = !record_.id.empty()                         ? record_.id
               : given != nullptr && is_request_id(*given) ? *given
                                                           : setting_.handler.new_request_id();
  record_.id = request.id;
}

void Connection::open_exchange(const HttpRequest& request, bool keep_alive) {
  phase_ = Phase::kRunning;
  setting_.answers.add();
  record_.id = request.id;
  record_.method = request.method;
  record_.target = request.target;
  record_.address = request.address;
  exchange_ = std::make_shared<Exchange>(this, setting_.thread, keep_alive && !winding_down_,
      request.minor_version == 1, request.method == "HEAD");
}

void Connection::dispatch() {
  HttpRequest request = parser_.take();
  name_request(request);
  open_exchange(request, request.keep_alive);
  const auto exchange = exchange_;  // the answer may come, and end it, within the call
  setting_.handler.handle(std::move(request), exchange);
}

void Connection::answer_at_once(HttpResponse response, bool keep_alive) {
  if (!keep_alive) response.close = true;
  response.headers.push_back({"x-request-id", record_.id});
  const auto exchange = exchange_;
  exchange->respond(std::move(response));
}

void Connection::refuse(const HttpError& error) {
  HttpRequest request = parser_.take();
  name_request(request);
  open_exchange(request, false);
  answer_at_once(setting_.handler.refuse(request, error), false);
}

void Connection::on_tick(ServeTime at) {
  const HttpLimits& limits = setting_.limits;
  if (write_pending_ && at - last_progress_ > limits.write_stall) return close();
  switch (phase_) {
    case Phase::kHandshake:
      if (at - phase_start_ > limits.header_time) close();
      break;
    case Phase::kIdle:
      if (at - phase_start_ > limits.idle_time) close();
      break;
    case Phase::kHead:
      if (at - phase_start_ > limits.header_time) refuse(too_slow("headers"));
      break;
    case Phase::kBody:
      check_progress(at);
      break;
    case Phase::kRunning:
      if (exchange_ && exchange_->listener_) std::shared_ptr(exchange_->listener_)->on_tick(at);
      break;
    case Phase::kLingering:
      if (at - phase_start_ > limits.linger_time) close();
      break;
    case Phase::kClosed:
      break;
  }
}

void Connection::check_progress(ServeTime at) {
  const HttpLimits& limits = setting_.limits;
  const auto elapsed = at - phase_start_;
  const double wanted = seconds(phase_start_, at) * static_cast<double>(limits.body_bytes_per_s);
  const bool crawls = elapsed > limits.body_grace && static_cast<double>(record_.bytes_in) < wanted;
  if (elapsed > limits.request_time || crawls) refuse(too_slow("body"));
}

HttpError Connection::too_slow(const char* what) const {
  return {408, "request_timeout", format("the {} did not arrive in time", what)};
}

void Connection::send(std::string_view bytes) {
  out_ += bytes;
  record_.bytes_out += std::ssize(bytes);
}

void Connection::flush() {
  if (write_pending_ || phase_ == Phase::kClosed) {
    if (std::ssize(out_) > setting_.limits.unsent_bytes && exchange_ && !exchange_->finished_) return close();
    return watch_backlog();
  }
  if (out_.empty()) {
    if (exchange_ && exchange_->finished_) end_exchange();
    return;
  }
  writing_.clear();
  std::swap(out_, writing_);
  written_ = 0;
  last_progress_ = now();
  write_pending_ = true;
  stream_->write_some(writing_.data(), writing_.size(),
      [self = shared_from_this()](
          const ByteStream::ErrorCode& error, size_t count) { self->on_written(error, count); });
}

void Connection::on_written(const ByteStream::ErrorCode& error, size_t count) {
  if (phase_ == Phase::kClosed) return;
  if (error) return close();
  last_progress_ = now();
  written_ += count;
  if (written_ < writing_.size()) {
    stream_->write_some(writing_.data() + written_, writing_.size() - written_,
        [self = shared_from_this()](
            const ByteStream::ErrorCode& failure, size_t more) { self->on_written(failure, more); });
    return;
  }
  write_pending_ = false;
  if (writing_.capacity() > 64 << 10) std::string().swap(writing_);
  watch_backlog();
  flush();
}

// The answerer is told when too much waits here, and when half of that is gone.
void Connection::watch_backlog() {
  if (!exchange_ || !exchange_->listener_) return;
  const int64_t most = setting_.limits.pause_bytes;
  const bool full = std::ssize(out_) > (backlogged_ ? most / 2 : most);
  if (full == backlogged_) return;
  backlogged_ = full;
  std::shared_ptr(exchange_->listener_)->on_backlog(full);
}

// The response is on its way in full: the next request, or the end.
void Connection::end_exchange() {
  record(false);
  const auto exchange = std::move(exchange_);
  setting_.answers.remove();
  exchange->detach();
  if (close_after_ || winding_down_) return linger();
  backlogged_ = false;
  phase_ = Phase::kIdle;
  phase_start_ = now();
  process();
  if (read_ended_ && phase_ <= Phase::kBody) return close();
  read();
}

// Closing with unread bytes would reset the connection and take the response from the client's hands.
void Connection::linger() {
  if (read_ended_) return close();
  phase_ = Phase::kLingering;
  phase_start_ = now();
  input_.clear();
  stream_->shutdown_send();
  read();
}

void Connection::wind_down() {
  winding_down_ = true;
  if (phase_ == Phase::kIdle || phase_ == Phase::kHandshake) close();
}

void Connection::record(bool cut_off) {
  record_.status = exchange_->status_;
  record_.duration_s = seconds(request_start_, now());
  record_.cut_off = cut_off;
  setting_.handler.on_finished(record_);
}

void Connection::close() {
  if (phase_ == Phase::kClosed) return;
  const auto self = shared_from_this();
  phase_ = Phase::kClosed;
  stream_->close();
  if (const auto exchange = std::move(exchange_)) {
    const auto listener = exchange->listener_;
    exchange_ = exchange;
    record(true);
    exchange_.reset();
    setting_.answers.remove();
    exchange->detach();
    if (listener) listener->on_gone();
  }
  setting_.on_closed(*this);
}

}  // namespace cheetah
