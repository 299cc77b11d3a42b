// SPDX-License-Identifier: MIT
#include "net/client_connection.h"

#include <sys/socket.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>

namespace cheetah {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

// Small requests leave at once instead of waiting for an acknowledgement.
void send_without_delay(tcp::socket& socket) {
  ClientConnection::ErrorCode ignored;
  socket.set_option(tcp::no_delay(true), ignored);
}

bool nothing_to_read(tcp::socket& socket) {
  char byte = 0;
  return recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
         (errno == EAGAIN || errno == EWOULDBLOCK);
}

class PlainConnection final : public ClientConnection {
 public:
  explicit PlainConnection(asio::io_context& context) : socket_(context) {}

  void open(const Endpoints& endpoints, Done done) override {
    asio::async_connect(
        socket_, endpoints, [this, done = std::move(done)](const ErrorCode& error, const tcp::endpoint&) {
          if (!error) send_without_delay(socket_);
          done(error);
        });
  }
  void write(std::string_view bytes, Done done) override {
    asio::async_write(socket_, asio::const_buffer(bytes.data(), bytes.size()),
        [done = std::move(done)](const ErrorCode& error, size_t) { done(error); });
  }
  void read(asio::mutable_buffer buffer, Read done) override {
    socket_.async_read_some(buffer, std::move(done));
  }
  bool is_idle() override { return nothing_to_read(socket_); }
  void close() override {
    ErrorCode ignored;
    socket_.close(ignored);
  }

 private:
  tcp::socket socket_;
};

class TlsConnection final : public ClientConnection {
 public:
  TlsConnection(asio::io_context& context, asio::ssl::context& tls, std::string host, std::string tunnel)
      : stream_(context, tls), host_(std::move(host)), tunnel_(std::move(tunnel)) {}

  void open(const Endpoints& endpoints, Done done) override {
    SSL_set_tlsext_host_name(stream_.native_handle(), host_.c_str());
    stream_.set_verify_callback(asio::ssl::host_name_verification(host_));
    asio::async_connect(stream_.next_layer(), endpoints,
        [this, done = std::move(done)](const ErrorCode& error, const tcp::endpoint&) {
          if (error) return done(error);
          send_without_delay(stream_.next_layer());
          tunnel_.empty() ? shake_hands(done) : ask_proxy(done);
        });
  }
  void write(std::string_view bytes, Done done) override {
    asio::async_write(stream_, asio::const_buffer(bytes.data(), bytes.size()),
        [done = std::move(done)](const ErrorCode& error, size_t) { done(error); });
  }
  void read(asio::mutable_buffer buffer, Read done) override {
    stream_.async_read_some(buffer, std::move(done));
  }
  bool is_idle() override { return nothing_to_read(stream_.next_layer()); }
  void close() override {
    ErrorCode ignored;
    stream_.next_layer().close(ignored);
  }

 private:
  void shake_hands(const Done& done) { stream_.async_handshake(asio::ssl::stream_base::client, done); }

  // The proxy says nothing after its answer's head before we begin TLS.
  void ask_proxy(const Done& done) {
    asio::async_write(
        stream_.next_layer(), asio::buffer(tunnel_), [this, done](const ErrorCode& error, size_t) {
          if (error) return done(error);
          constexpr size_t kMostHeadBytes = 16384;
          asio::async_read_until(stream_.next_layer(), asio::dynamic_buffer(answer_, kMostHeadBytes),
              "\r\n\r\n", [this, done](const ErrorCode& failure, size_t) {
                if (failure) return done(failure);
                const bool opened = answer_.starts_with("HTTP/1.") && answer_.substr(8, 2) == " 2";
                opened ? shake_hands(done) : done(asio::error::access_denied);
              });
        });
  }

  asio::ssl::stream<tcp::socket> stream_;
  std::string host_, tunnel_, answer_;
};

}  // namespace

std::unique_ptr<ClientConnection> make_client_connection(
    asio::io_context& context, asio::ssl::context* tls, const std::string& host, const std::string& tunnel) {
  if (tls == nullptr) return std::make_unique<PlainConnection>(context);
  return std::make_unique<TlsConnection>(context, *tls, host, tunnel);
}

}  // namespace cheetah
