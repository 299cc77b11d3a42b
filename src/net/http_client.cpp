// SPDX-License-Identifier: MIT
#include "net/http_client.h"

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <unordered_set>

#include "base/error.h"
#include "base/format.h"
#include "base/time.h"
#include "net/client_connection.h"
#include "net/response_parser.h"

namespace cheetah {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;

struct HttpClient::State {
  State(asio::io_context& loop, const HttpPeer& to) : context(loop), peer(to), resolver(loop) {
    if (peer.url.tls) tls = client_tls_context(peer.tls);
  }

  std::string message_of(const ClientRequest& request) const {
    const bool asks_proxy = peer.proxy && !peer.url.tls;  // by the whole address
    std::string message = format("{} {}{}{} HTTP/1.1\r\nHost: {}\r\nUser-Agent: {}\r\nAccept: */*\r\n",
        request.method, asks_proxy ? "http://" + peer.url.host_header() : "", peer.url.path, request.path,
        peer.url.host_header(), peer.user_agent);
    if (asks_proxy) message += proxy_field();
    for (const auto& [name, value] : request.headers) message += format("{}: {}\r\n", name, value);
    if (request.method != "GET") message += format("Content-Length: {}\r\n", request.body.size());
    return message + "\r\n" + request.body;
  }

  std::string proxy_field() const {
    return peer.proxy_authorization.empty() ? ""
                                            : format("Proxy-Authorization: {}\r\n", peer.proxy_authorization);
  }

  // What a proxy is asked before TLS begins; "" without one.
  std::string tunnel() const {
    if (!peer.proxy || !peer.url.tls) return "";
    const std::string to = format("{}:{}", peer.url.host, peer.url.port);
    return format("CONNECT {} HTTP/1.1\r\nHost: {}\r\n{}\r\n", to, to, proxy_field());
  }

  // Where connections go: the server, or the proxy before it.
  const Url& first_hop() const { return peer.proxy ? *peer.proxy : peer.url; }

  // The server may have closed a kept connection: then the next one, or a new one, is used.
  std::unique_ptr<ClientConnection> take_idle() {
    while (!idle.empty()) {
      auto connection = std::move(idle.back());
      idle.pop_back();
      if (connection->is_idle()) return connection;
    }
    return nullptr;
  }

  asio::io_context& context;
  HttpPeer peer;
  std::shared_ptr<asio::ssl::context> tls;  // null for a plain peer; shared as tls_context.h says
  asio::ip::tcp::resolver resolver;
  ClientConnection::Endpoints endpoints;  // empty: not looked up yet
  std::vector<std::unique_ptr<ClientConnection>> idle;
  std::unordered_set<Exchange*> open;
};

// One request on its connection. Alive while a handler of Asio holds it; finish() lets go of it.
class HttpClient::Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(State& client, const ClientRequest& request, std::shared_ptr<ResponseHandler> handler)
      : client_(client),
        message_(client.message_of(request)),
        timeout_s_(request.timeout_s),
        handler_(std::move(handler)),
        timer_(client.context) {}

  void start() {
    if (timeout_s_ > 0) {
      timer_.expires_after(from_seconds(timeout_s_));
      timer_.async_wait([self = shared_from_this()](const ErrorCode& error) {
        if (!error)
          self->finish(HttpFailure::kTimeout, format("no complete answer in {:g} s", self->timeout_s_));
      });
    }
    connection_ = client_.take_idle();
    if (connection_) return converse();
    if (client_.endpoints.empty()) return look_up();
    connect();
  }

  void finish(HttpFailure failure, std::string detail) {
    if (finished_) return;
    finished_ = true;
    timer_.cancel();
    client_.open.erase(this);
    if (connection_ && failure == HttpFailure::kNone && wrote_ && response_->keep_alive())
      client_.idle.push_back(std::move(connection_));
    else if (connection_)
      connection_->close();
    const auto handler = std::move(handler_);
    handler->on_done({failure, std::move(detail)});
  }

 private:
  void look_up() {
    const Url& url = client_.first_hop();
    client_.resolver.async_resolve(url.host, url.port,
        [self = shared_from_this()](const ErrorCode& error, const ClientConnection::Endpoints& found) {
          if (self->finished_) return;
          if (error)
            return self->finish(HttpFailure::kConnect,
                format("the host {} cannot be found: {}", self->client_.first_hop().host, error.message()));
          self->client_.endpoints = found;
          self->connect();
        });
  }

  void connect() {
    connection_ =
        make_client_connection(client_.context, client_.tls.get(), client_.peer.url.host, client_.tunnel());
    connection_->open(client_.endpoints, [self = shared_from_this()](const ErrorCode& error) {
      if (self->finished_) return;
      if (error) {
        self->client_.endpoints = {};  // the name may mean another address by now
        const auto& proxy = self->client_.peer.proxy;
        return self->finish(HttpFailure::kConnect,
            proxy ? format("proxy {}: {}", proxy->text(), error.message()) : error.message());
      }
      self->converse();
    });
  }

  // Reads from the start: a server may refuse a body before it has all of it.
  void converse() {
    response_ = std::make_unique<ResponseParser>([this](std::string_view bytes) { on_body(bytes); });
    connection_->write(message_, [self = shared_from_this()](const ErrorCode& error) {
      self->wrote_ = !error;  // a failure shows in the read
    });
    read();
  }

  void read() {
    connection_->read(
        asio::buffer(buffer_), [self = shared_from_this()](const ErrorCode& error, size_t size) {
          if (self->finished_) return;
          error ? self->on_end(error) : self->on_bytes(size);
        });
  }

  void on_bytes(size_t size) {
    try {
      response_->feed({buffer_.data(), size});
    } catch (const Error& error) {
      return finish(HttpFailure::kNotHttp, error.what());
    }
    if (finished_) return;  // the handler gave up
    tell_head();
    if (response_->done()) return finish(HttpFailure::kNone, "");
    read();
  }

  void on_end(const ErrorCode& error) {
    const bool closed = error == asio::error::eof || error == asio::ssl::error::stream_truncated;
    if (!closed) return finish(HttpFailure::kCut, error.message());
    try {
      response_->feed_eof();
    } catch (const Error& cut) {
      return finish(HttpFailure::kCut, cut.what());
    }
    tell_head();
    finish(HttpFailure::kNone, "");
  }

  void on_body(std::string_view bytes) {
    tell_head();
    if (!finished_) handler_->on_body(bytes);
  }

  void tell_head() {
    if (told_head_ || !response_->has_head()) return;
    told_head_ = true;
    if (const std::string location = response_->header("Location"); !location.empty())
      handler_->on_location(location);
    handler_->on_head(response_->status(), response_->header("Content-Type"));
  }

  State& client_;
  std::string message_;
  double timeout_s_;
  std::shared_ptr<ResponseHandler> handler_;  // shared with the caller until on_done
  asio::steady_timer timer_;
  std::unique_ptr<ClientConnection> connection_;
  std::unique_ptr<ResponseParser> response_;
  std::array<char, 16384> buffer_;
  bool wrote_ = false, told_head_ = false, finished_ = false;
};

HttpClient::HttpClient(asio::io_context& context, const HttpPeer& peer)
    : state_(std::make_unique<State>(context, peer)) {}

HttpClient::~HttpClient() = default;

void HttpClient::look_up() {
  const Url& url = state_->first_hop();
  ErrorCode error;
  state_->endpoints = state_->resolver.resolve(url.host, url.port, error);
  if (error) throw Error(format("{}: the host cannot be found: {}", url.text(), error.message()));
}

void HttpClient::send(const ClientRequest& request, std::shared_ptr<ResponseHandler> handler) {
  auto exchange = std::make_shared<Exchange>(*state_, request, std::move(handler));
  state_->open.insert(exchange.get());
  exchange->start();
}

void HttpClient::interrupt() {
  std::vector<std::shared_ptr<Exchange>> open;
  for (Exchange* exchange : state_->open) open.push_back(exchange->shared_from_this());
  for (const auto& exchange : open) exchange->finish(HttpFailure::kInterrupted, "");
}

void HttpClient::close_idle() { state_->idle.clear(); }

}  // namespace cheetah
