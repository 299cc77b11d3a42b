#include "load/http_client.h"

#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>

#include "base/error.h"
#include "base/format.h"
#include "load/response_parser.h"

namespace cheetah {

namespace asio = boost::asio;

// One request on its connection. Alive while a handler of Asio holds it; finish() lets go of it.
class HttpClient::Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(HttpClient& client, std::string message, std::shared_ptr<ResponseHandler> handler)
      : client_(client),
        message_(std::move(message)),
        handler_(std::move(handler)),
        timer_(client.context_) {}

  void start() {
    timer_.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        std::chrono::duration<double>(client_.options_.timeout_s)));
    timer_.async_wait([self = shared_from_this()](const ServerConnection::ErrorCode& error) {
      if (!error)
        self->finish(RequestFailure::kTimeout,
                     format("no whole answer in {:g} s", self->client_.options_.timeout_s));
    });
    connection_ = client_.take_idle();
    connection_ ? converse() : connect();
  }

  void finish(RequestFailure failure, std::string detail) {
    if (finished_) return;
    finished_ = true;
    timer_.cancel();
    client_.open_.erase(this);
    if (connection_ && failure == RequestFailure::kNone && wrote_ && response_->keep_alive())
      client_.idle_.push_back(std::move(connection_));
    else if (connection_)
      connection_->close();
    handler_->on_done({failure, std::move(detail)});
    handler_.reset();
  }

 private:
  void connect() {
    connection_ = make_server_connection(client_.context_, client_.tls_ ? &*client_.tls_ : nullptr,
                                         client_.options_.url.host);
    connection_->open(client_.endpoints_,
                      [self = shared_from_this()](const ServerConnection::ErrorCode& error) {
                        if (self->finished_) return;
                        if (error) return self->finish(RequestFailure::kConnect, error.message());
                        self->converse();
                      });
  }

  // Reads from the start: a server may refuse a body before it has all of it.
  void converse() {
    response_ = std::make_unique<ResponseParser>([this](std::string_view bytes) { on_body(bytes); });
    connection_->write(message_, [self = shared_from_this()](const ServerConnection::ErrorCode& error) {
      self->wrote_ = !error;  // a failure shows in the read
    });
    read();
  }

  void read() {
    connection_->read(asio::buffer(buffer_),
                      [self = shared_from_this()](const ServerConnection::ErrorCode& error, size_t size) {
                        if (self->finished_) return;
                        error ? self->on_end(error) : self->on_bytes(size);
                      });
  }

  void on_bytes(size_t size) {
    try {
      response_->feed({buffer_.data(), size});
    } catch (const Error& error) {
      return finish(RequestFailure::kNotAStream, error.what());
    }
    tell_head();
    if (response_->done()) return finish(RequestFailure::kNone, "");
    read();
  }

  void on_end(const ServerConnection::ErrorCode& error) {
    const bool closed = error == asio::error::eof || error == asio::ssl::error::stream_truncated;
    if (!closed) return finish(RequestFailure::kCut, error.message());
    try {
      response_->feed_eof();
    } catch (const Error& cut) {
      return finish(RequestFailure::kCut, cut.what());
    }
    tell_head();
    finish(RequestFailure::kNone, "");
  }

  void on_body(std::string_view bytes) {
    tell_head();
    handler_->on_body(bytes);
  }

  void tell_head() {
    if (told_head_ || !response_->has_head()) return;
    told_head_ = true;
    handler_->on_head(response_->status(), response_->content_type());
  }

  HttpClient& client_;
  std::string message_;
  std::shared_ptr<ResponseHandler> handler_;  // shared with the caller until on_done
  asio::steady_timer timer_;
  std::unique_ptr<ServerConnection> connection_;
  std::unique_ptr<ResponseParser> response_;
  std::array<char, 16384> buffer_;
  bool wrote_ = false, told_head_ = false, finished_ = false;
};

namespace {

ServerConnection::Endpoints look_up(asio::io_context& context, const ServerUrl& url) {
  ServerConnection::ErrorCode error;
  auto endpoints = asio::ip::tcp::resolver(context).resolve(url.host, url.port, error);
  if (error) throw Error(format("{}: the host cannot be found: {}", url.text(), error.message()));
  return endpoints;
}

}  // namespace

HttpClient::HttpClient(asio::io_context& context, const ServerOptions& options)
    : context_(context), options_(options), endpoints_(look_up(context, options.url)) {
  if (!options.url.tls) return;
  tls_.emplace(asio::ssl::context::tls_client);
  tls_->set_default_verify_paths();
  tls_->set_verify_mode(options.tls_insecure ? asio::ssl::verify_none : asio::ssl::verify_peer);
}

HttpClient::~HttpClient() = default;

void HttpClient::send(std::string_view method, const std::string& path, std::string body,
                      std::shared_ptr<ResponseHandler> handler) {
  std::string message = format("{} {}{} HTTP/1.1\r\nHost: {}\r\nUser-Agent: cheetah-bench\r\nAccept: */*\r\n",
                               method, options_.url.path, path, options_.url.host_header());
  if (!options_.api_key.empty()) message += format("Authorization: Bearer {}\r\n", options_.api_key);
  if (method == "POST")
    message += format("Content-Type: application/json\r\nContent-Length: {}\r\n", body.size());
  message += "\r\n" + body;
  auto exchange = std::make_shared<Exchange>(*this, std::move(message), std::move(handler));
  open_.insert(exchange.get());
  exchange->start();
}

void HttpClient::interrupt() {
  std::vector<std::shared_ptr<Exchange>> open;
  for (Exchange* exchange : open_) open.push_back(exchange->shared_from_this());
  for (const auto& exchange : open) exchange->finish(RequestFailure::kInterrupted, "");
}

// The server may have closed a kept connection meanwhile: then another, or a fresh one, is used.
std::unique_ptr<ServerConnection> HttpClient::take_idle() {
  while (!idle_.empty()) {
    auto connection = std::move(idle_.back());
    idle_.pop_back();
    if (connection->is_idle()) return connection;
  }
  return nullptr;
}

}  // namespace cheetah
