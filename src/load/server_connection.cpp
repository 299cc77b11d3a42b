#include "load/server_connection.h"

#include <sys/socket.h>

#include <boost/asio/connect.hpp>
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
  ServerConnection::ErrorCode ignored;
  socket.set_option(tcp::no_delay(true), ignored);
}

bool nothing_to_read(tcp::socket& socket) {
  char byte = 0;
  return recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
         (errno == EAGAIN || errno == EWOULDBLOCK);
}

class PlainConnection : public ServerConnection {
 public:
  explicit PlainConnection(asio::io_context& context) : socket_(context) {}

  void open(const Endpoints& endpoints, Done done) override {
    asio::async_connect(socket_, endpoints,
                        [this, done = std::move(done)](const ErrorCode& error, const tcp::endpoint&) {
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

class TlsConnection : public ServerConnection {
 public:
  TlsConnection(asio::io_context& context, asio::ssl::context& tls, std::string host)
      : stream_(context, tls), host_(std::move(host)) {}

  void open(const Endpoints& endpoints, Done done) override {
    SSL_set_tlsext_host_name(stream_.native_handle(), host_.c_str());
    stream_.set_verify_callback(asio::ssl::host_name_verification(host_));
    asio::async_connect(stream_.next_layer(), endpoints,
                        [this, done = std::move(done)](const ErrorCode& error, const tcp::endpoint&) {
                          if (error) return done(error);
                          send_without_delay(stream_.next_layer());
                          stream_.async_handshake(asio::ssl::stream_base::client, done);
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
  asio::ssl::stream<tcp::socket> stream_;
  std::string host_;
};

}  // namespace

std::unique_ptr<ServerConnection> make_server_connection(asio::io_context& context, asio::ssl::context* tls,
                                                         const std::string& host) {
  if (tls == nullptr) return std::make_unique<PlainConnection>(context);
  return std::make_unique<TlsConnection>(context, *tls, host);
}

}  // namespace cheetah
