// SPDX-License-Identifier: MIT
#include "net/http_channel.h"

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

// Keeps what has come of one response. A read may bring several lines, or half of one.
struct Received : ResponseHandler {
  void on_head(int response_status, const std::string&) override { status = response_status; }
  void on_body(std::string_view bytes) override { body.append(bytes); }
  void on_done(const HttpOutcome& result) override { outcome = result; }

  // Without its end; nullopt: no whole line has come.
  std::optional<std::string> take_line() {
    const size_t end = body.find('\n', from);
    if (end == std::string::npos) return std::nullopt;
    std::string line = body.substr(from, end - from);
    from = end + 1;
    if (from == body.size() || from > kCompactBytes) body.erase(0, std::exchange(from, 0));
    return line;
  }
  size_t size() const { return body.size() - from; }

  static constexpr size_t kCompactBytes = 1 << 20;
  int status = 0;
  std::string body;
  size_t from = 0;  // where the next line begins
  std::optional<HttpOutcome> outcome;
};

}  // namespace

struct HttpChannel::State {
  explicit State(const HttpPeer& peer) : url(peer.url), client(io, peer) {}

  std::string name() const { return format("{}:{}", url.host, url.port); }

  [[noreturn]] void fail(std::string_view why) {
    close();
    throw Error(format("{}: {}", name(), why));
  }

  // Runs the loop until `enough` holds. False: the time is over.
  template <class Enough>
  bool wait(SteadyTime deadline, Enough enough) {
    while (!enough()) {
      if (interrupted) fail("interrupted");
      if (SteadyClock::now() >= deadline) return false;
      io.restart();
      io.run_one_until(deadline);
    }
    return true;
  }

  std::shared_ptr<Received> start(const ClientRequest& request) {
    if (interrupted) fail("interrupted");
    close_stream();
    auto response = std::make_shared<Received>();  // shared with the client until the response is over
    client.send(request, response);
    return response;
  }

  void check(const Received& response) {
    if (response.outcome && response.outcome->failure != HttpFailure::kNone) fail(response.outcome->detail);
  }

  // Ends what is open; its last handlers run, so that nothing refers to it any more.
  void close_stream() {
    client.interrupt();
    stream.reset();
    io.restart();
    io.poll();
  }
  void close() {
    close_stream();
    client.close_idle();
  }

  Url url;
  boost::asio::io_context io{1};
  HttpClient client;
  std::shared_ptr<Received> stream;
  std::atomic<bool> interrupted{false};
};

HttpChannel::HttpChannel(const HttpPeer& peer) : state_(std::make_unique<State>(peer)) {}

HttpChannel::~HttpChannel() = default;

HttpChannel::Answer HttpChannel::send(
    const ClientRequest& request, SteadyClock::duration limit, size_t max_body_bytes) {
  State& state = *state_;
  const SteadyTime deadline = SteadyClock::now() + limit;
  const auto response = state.start(request);
  const auto too_large = [&] { return response->body.size() > max_body_bytes; };
  const auto enough = [&] { return response->outcome || too_large(); };
  if (!state.wait(deadline, enough)) state.fail("no answer in time");
  if (too_large()) state.fail(format("the answer is larger than {} bytes", max_body_bytes));
  state.check(*response);
  return {response->status, std::move(response->body)};
}

int HttpChannel::open_stream(const ClientRequest& request, SteadyClock::duration limit) {
  State& state = *state_;
  const SteadyTime deadline = SteadyClock::now() + limit;
  const auto response = state.start(request);
  if (!state.wait(deadline, [&] { return response->status != 0 || response->outcome; }))
    state.fail("no answer in time");
  state.check(*response);
  state.stream = response;
  return response->status;
}

std::optional<std::string> HttpChannel::read_line(SteadyClock::duration limit) {
  State& state = *state_;
  if (!state.stream) state.fail("no stream is open");
  const auto response = state.stream;
  std::optional<std::string> line;
  const bool in_time = state.wait(SteadyClock::now() + limit, [&] {
    line = response->take_line();
    return line || response->outcome || response->size() > kMostBodyBytes;
  });
  if (line) return line;
  if (!in_time) {
    state.close();
    return std::nullopt;
  }
  if (!response->outcome) state.fail("a line has no end");
  if (response->outcome->failure == HttpFailure::kNone && response->size() > 0) {
    state.stream->body.erase(0, std::exchange(response->from, 0));
    return std::exchange(response->body, {});
  }
  state.check(*response);
  state.fail("the stream has ended");
}

void HttpChannel::close() { state_->close(); }

void HttpChannel::interrupt() {
  state_->interrupted = true;
  boost::asio::post(state_->io, [] {});
}

}  // namespace cheetah
