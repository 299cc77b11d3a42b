// SPDX-License-Identifier: MIT
#include "hub/http_fetch.h"

#include <boost/asio/io_context.hpp>
#include <exception>
#include <map>

#include "base/error.h"
#include "base/format.h"
#include "base/time.h"
#include "net/http_client.h"

namespace cheetah::hub {
namespace {

constexpr int kMostHops = 5;
constexpr std::chrono::seconds kMostSilence{30};
constexpr std::chrono::milliseconds kPoll{100};  // how often `stop` is asked

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// The server of an address, and the rest of it with its query.
struct Target {
  Url server;
  std::string path;
  std::string key() const { return server.text(); }
};

Target target_of(const std::string& address) {
  const size_t scheme = address.find("://");
  const size_t slash =
      scheme == std::string::npos ? std::string::npos : address.find_first_of("/?#", scheme + 3);
  Target target;
  target.server = parse_url(address.substr(0, slash),
      {.name = "the hub's redirect", .example = "https://host/path", .needs_scheme = true});
  if (slash != std::string::npos) target.path = address.substr(slash, address.find('#') - slash);
  if (!target.path.starts_with('/')) target.path.insert(0, "/");
  return target;
}

// Relative to where we are: "/path" of the same server, or a whole address.
Target next_target(const Target& here, const std::string& location) {
  Target next = here;
  if (location.starts_with("//")) return target_of((here.server.tls ? "https:" : "http:") + location);
  if (location.starts_with('/'))
    next.path = location;
  else
    next = target_of(location);
  for (const char c : next.path)
    if (c <= ' ' || c >= 0x7F)
      throw Error("the hub redirects to an address with a character that is not allowed");
  if (here.server.tls && !next.server.tls) throw Error("the hub redirects from https to http: refused");
  return next;
}

// One answer. A redirect's body is dropped; an exception of a sink waits until the loop can throw it.
struct Answer : ResponseHandler {
  void on_location(const std::string& text) override { location = text; }
  void on_head(int got, const std::string&) override {
    heard();
    status = got;
    if (!is_redirect(status) && sinks->head) keep([&] { sinks->head(status); });
  }
  void on_body(std::string_view bytes) override {
    heard();
    if (!is_redirect(status) && !thrown) keep([&] { sinks->body(bytes); });
  }
  void on_done(const HttpOutcome& result) override {
    outcome = result;
    done = true;
  }
  void heard() { last_word = SteadyClock::now(); }
  template <class Call>
  void keep(Call call) {
    try {
      call();
    } catch (...) {
      thrown = std::current_exception();
    }
  }

  const HttpFetch::Sinks* sinks = nullptr;
  std::string location;
  int status = 0;
  HttpOutcome outcome;
  std::exception_ptr thrown;
  SteadyTime last_word = SteadyClock::now();
  bool done = false;
};

}  // namespace

struct HttpFetch::State {
  State(const HubSettings& given, Stop asked) : settings(given), stop(std::move(asked)) {}

  HttpClient& client_for(const Target& target) {
    auto& client = clients[target.key()];
    if (client) return *client;
    HttpPeer peer{.url = target.server};
    peer.url.path = "";
    peer.tls.ca_file = settings.ca_file;
    if (const auto proxy = proxy_for(settings, target.server)) {
      peer.proxy = proxy->url;
      peer.proxy_authorization = proxy->authorization;
    }
    client = std::make_unique<HttpClient>(io, peer);
    return *client;
  }

  // Ends the exchange; its handlers run, so that nothing refers to it.
  void abandon(HttpClient& client) {
    client.interrupt();
    client.close_idle();
    io.restart();
    io.poll();
  }

  std::shared_ptr<Answer> ask(const Target& target, int64_t from, const Sinks& sinks) {
    HttpClient& client = client_for(target);
    ClientRequest request{.path = target.path};
    const bool is_hub =
        target.server.host == settings.endpoint.host && target.server.port == settings.endpoint.port;
    if (is_hub && !settings.token.empty())
      request.headers.emplace_back("Authorization", "Bearer " + settings.token);
    if (from > 0) request.headers.emplace_back("Range", format("bytes={}-", from));
    auto answer = std::make_shared<Answer>();  // shared with the client until the answer is over
    answer->sinks = &sinks;
    client.send(request, answer);
    while (!answer->done) {
      io.restart();
      io.run_one_for(kPoll);
      const bool stopped = stop();
      const bool silent = SteadyClock::now() - answer->last_word > kMostSilence;
      if (answer->done || (!answer->thrown && !stopped && !silent)) continue;
      abandon(client);
      if (answer->thrown) std::rethrow_exception(answer->thrown);
      if (stopped) throw Error("interrupted");
      throw Transient{format("{}: silent for {} s", target.server.host, kMostSilence.count())};
    }
    if (answer->thrown) std::rethrow_exception(answer->thrown);
    if (answer->outcome.failure != HttpFailure::kNone)
      throw Transient{format("{}: {}", target.server.host, answer->outcome.detail)};
    return answer;
  }

  HubSettings settings;
  Stop stop;
  boost::asio::io_context io{1};
  std::map<std::string, std::unique_ptr<HttpClient>> clients;
};

HttpFetch::HttpFetch(const HubSettings& settings, Stop stop)
    : state_(std::make_unique<State>(settings, std::move(stop))) {}
HttpFetch::~HttpFetch() = default;

int HttpFetch::get(const std::string& path, int64_t from, const Sinks& sinks) {
  Target target{.server = state_->settings.endpoint, .path = state_->settings.endpoint.path + path};
  for (int hop = 0; hop < kMostHops; ++hop) {
    const auto answer = state_->ask(target, from, sinks);
    if (!is_redirect(answer->status)) return answer->status;
    if (answer->location.empty()) throw Error("the hub redirects without an address");
    target = next_target(target, answer->location);
  }
  throw Error(format("the hub redirects more than {} times", kMostHops));
}

std::string HttpFetch::get_text(const std::string& path, size_t max_bytes) {
  std::string text;
  const Sinks sinks{.head = {}, .body = [&](std::string_view bytes) {
                      text.append(bytes);
                      if (text.size() > max_bytes)
                        throw Error(format("the hub's answer is larger than {} bytes", max_bytes));
                    }};
  const int status = get(path, 0, sinks);
  if (may_pass(status)) throw Transient{format("{}: answered {}", state_->settings.endpoint.host, status)};
  if (status != 200) throw Error(reason_of(status, path, state_->settings));
  return text;
}

std::string reason_of(int status, const std::string& what, const HubSettings& settings) {
  const std::string hub = settings.endpoint.text();
  if (status == 401 || status == 403)
    return settings.token.empty()
               ? format(
                     "{}: {} is private, gated or not there: accept its terms at the hub and give a token with HF_TOKEN "
                     "or --token-file",
                     hub, what)
               : format("{}: the token may not read {}: accept its terms at the hub, or use another token",
                     hub, what);
  if (status == 404) return format("{}: {} is not there", hub, what);
  return format("{}: answered {} for {}", hub, status, what);
}

bool may_pass(int status) { return status == 408 || status == 429 || status >= 500; }

}  // namespace cheetah::hub
