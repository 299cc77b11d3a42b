#include "cluster/registry/http_channel.h"

#include <atomic>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace cheetah::cluster {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;
using Clock = std::chrono::steady_clock;
using SecureStream = asio::ssl::stream<tcp::socket>;
using Parser = http::response_parser<http::string_body>;

constexpr uint64_t kMostBodyBytes = uint64_t{64} << 20;

asio::ssl::context tls_context(const ServiceLogin& login) {
  asio::ssl::context context(asio::ssl::context::tls_client);
  error_code error;
  if (!login.tls) return context;
  context.set_verify_mode(asio::ssl::verify_peer);
  if (login.ca_file.empty())
    context.set_default_verify_paths(error);
  else
    context.load_verify_file(login.ca_file, error);
  if (error) throw Error(format("{}: {}: expected certificates as PEM", login.ca_file, error.message()));
  if (login.certificate_file.empty()) return context;
  context.use_certificate_chain_file(login.certificate_file, error);
  if (error)
    throw Error(format("{}: {}: expected certificates as PEM", login.certificate_file, error.message()));
  context.use_private_key_file(login.key_file, asio::ssl::context::pem, error);
  if (error) throw Error(format("{}: {}: expected a private key as PEM", login.key_file, error.message()));
  return context;
}

}  // namespace

// Asio with one operation at a time: start it, run the loop until it is done or its time is over.
struct HttpChannel::State {
  ServiceHost host;
  bool tls;
  asio::ssl::context context;
  asio::io_context io{1};
  tcp::resolver resolver{io};
  std::optional<tcp::socket> plain;
  std::optional<SecureStream> secure;
  beast::flat_buffer buffer;
  std::unique_ptr<Parser> parser;
  std::string lines;  // of a stream, not handed out yet
  std::atomic<bool> interrupted{false};

  State(ServiceHost to, const ServiceLogin& login)
      : host(std::move(to)), tls(login.tls), context(tls_context(login)) {}

  bool is_open() const { return plain.has_value() || secure.has_value(); }
  std::string name() const { return format("{}:{}", host.host, host.port); }

  void close() {
    resolver.cancel();
    plain.reset();
    secure.reset();
    buffer.clear();
    parser.reset();
    lines.clear();
  }

  // False: the time is over, and everything is closed. Throws Error when the operation fails.
  template <class Start>
  bool run(Time deadline, std::string_view doing, Start&& start) {
    bool done = false;
    error_code error;
    io.restart();
    start([&](error_code result, auto&&...) {
      error = result;
      done = true;
    });
    while (!done && !interrupted && Clock::now() < deadline) io.run_one_until(deadline);
    const bool in_time = done;
    if (!done) {
      // The streams stay alive until the operation has been told: it still refers to them.
      resolver.cancel();
      error_code ignored;
      if (plain) plain->close(ignored);
      if (secure) secure->next_layer().close(ignored);
      while (!done) io.restart(), io.run_one();
    }
    if (in_time && !error) return true;
    close();
    if (interrupted) throw Error(format("{}: {}: broken off", name(), doing));
    if (in_time) throw Error(format("{}: {}: {}", name(), doing, error.message()));
    return false;
  }
  template <class Start>
  void run_or_throw(Time deadline, std::string_view doing, Start&& start) {
    if (!run(deadline, doing, std::forward<Start>(start)))
      throw Error(format("{}: {}: no answer in time", name(), doing));
  }

  void connect(Time deadline) {
    tcp::resolver::results_type addresses;
    run_or_throw(deadline, "looking the host up", [&](auto done) {
      resolver.async_resolve(host.host, std::to_string(host.port),
                             [&, done](error_code error, auto found) mutable {
                               addresses = found;
                               done(error);
                             });
    });
    tcp::socket& socket = tls ? secure.emplace(io, context).next_layer() : plain.emplace(io);
    run_or_throw(deadline, "connecting", [&](auto done) { asio::async_connect(socket, addresses, done); });
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    if (!tls) return;
    SSL_set_tlsext_host_name(secure->native_handle(), host.host.c_str());
    secure->set_verify_callback(asio::ssl::host_name_verification(host.host));
    run_or_throw(deadline, "the TLS handshake",
                 [&](auto done) { secure->async_handshake(SecureStream::client, done); });
  }

  void send(std::string_view path, std::string body, std::string_view authorization, Time deadline) {
    if (interrupted) throw Error(format("{}: broken off", name()));
    if (!is_open()) connect(deadline);
    http::request<http::string_body> request(http::verb::post, {path.data(), path.size()}, 11);
    request.set(http::field::host, name());
    request.set(http::field::content_type, "application/json");
    request.set("Grpc-Metadata-hasleader", "true");  // a member that has lost its cluster says so
    if (!authorization.empty())
      request.set(http::field::authorization, {authorization.data(), authorization.size()});
    request.body() = std::move(body);
    request.prepare_payload();
    run_or_throw(deadline, "sending", [&](auto done) {
      secure ? http::async_write(*secure, request, done) : http::async_write(*plain, request, done);
    });
    parser = std::make_unique<Parser>();
  }
};

HttpChannel::HttpChannel(ServiceHost host, const ServiceLogin& login)
    : state_(std::make_unique<State>(std::move(host), login)) {}

HttpChannel::~HttpChannel() = default;

HttpChannel::Answer HttpChannel::post(std::string_view path, std::string body, std::string_view authorization,
                                      Duration limit) {
  State& state = *state_;
  const Time deadline = Clock::now() + limit;
  state.send(path, std::move(body), authorization, deadline);
  state.parser->body_limit(kMostBodyBytes);
  state.run_or_throw(deadline, "reading the answer", [&](auto done) {
    state.secure ? http::async_read(*state.secure, state.buffer, *state.parser, done)
                 : http::async_read(*state.plain, state.buffer, *state.parser, done);
  });
  Answer answer{static_cast<int>(state.parser->get().result_int()), std::move(state.parser->get().body())};
  if (!state.parser->keep_alive()) state.close();
  return answer;
}

int HttpChannel::open_stream(std::string_view path, std::string body, std::string_view authorization,
                             Duration limit) {
  State& state = *state_;
  const Time deadline = Clock::now() + limit;
  state.send(path, std::move(body), authorization, deadline);
  state.parser->body_limit(boost::none);
  state.run_or_throw(deadline, "reading the answer", [&](auto done) {
    state.secure ? http::async_read_header(*state.secure, state.buffer, *state.parser, done)
                 : http::async_read_header(*state.plain, state.buffer, *state.parser, done);
  });
  return static_cast<int>(state.parser->get().result_int());
}

std::optional<std::string> HttpChannel::read_line(Duration limit) {
  State& state = *state_;
  const Time deadline = Clock::now() + limit;
  while (true) {
    if (const size_t end = state.lines.find('\n'); end != std::string::npos) {
      std::string line = state.lines.substr(0, end);
      state.lines.erase(0, end + 1);
      return line;
    }
    if (!state.is_open() || state.parser == nullptr || state.parser->is_done()) {
      const std::string rest = std::exchange(state.lines, {});
      state.close();
      if (!rest.empty()) return rest;
      throw Error(format("{}: the stream has ended", state.name()));
    }
    const bool in_time = state.run(deadline, "reading the stream", [&](auto done) {
      state.secure ? http::async_read_some(*state.secure, state.buffer, *state.parser, done)
                   : http::async_read_some(*state.plain, state.buffer, *state.parser, done);
    });
    if (!in_time) return std::nullopt;
    state.lines += std::exchange(state.parser->get().body(), {});
    if (state.lines.size() > kMostBodyBytes) throw Error(format("{}: a line has no end", state.name()));
  }
}

void HttpChannel::close() { state_->close(); }

void HttpChannel::interrupt() {
  state_->interrupted = true;
  asio::post(state_->io, [] {});
}

}  // namespace cheetah::cluster
