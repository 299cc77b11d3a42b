// SPDX-License-Identifier: MIT
#include "serve/http/byte_stream.h"

#include <boost/asio/ssl.hpp>

namespace cheetah {
namespace {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(Socket socket) : socket_(std::move(socket)) {}
  void handshake(std::function<void(const ErrorCode&)> done) override { done({}); }
  void read_some(char* data, size_t size, Done done) override {
    socket_.async_read_some(asio::buffer(data, size), std::move(done));
  }
  void write_some(const char* data, size_t size, Done done) override {
    socket_.async_write_some(asio::buffer(data, size), std::move(done));
  }
  Socket& socket() override { return socket_; }
  bool is_plain() const override { return true; }

 private:
  Socket socket_;
};

class TlsStream final : public ByteStream {
 public:
  TlsStream(Socket socket, ssl::context& context) : stream_(std::move(socket), context) {}
  void handshake(std::function<void(const ErrorCode&)> done) override {
    stream_.async_handshake(ssl::stream_base::server, std::move(done));
  }
  void read_some(char* data, size_t size, Done done) override {
    stream_.async_read_some(asio::buffer(data, size), std::move(done));
  }
  void write_some(const char* data, size_t size, Done done) override {
    stream_.async_write_some(asio::buffer(data, size), std::move(done));
  }
  Socket& socket() override { return stream_.next_layer(); }
  bool is_plain() const override { return false; }

 private:
  ssl::stream<Socket> stream_;
};

}  // namespace

void ByteStream::wait_for_error(std::function<void()> broken) {
  socket().async_wait(Socket::wait_error, [done = std::move(broken)](const ErrorCode&) { done(); });
}

// Under TLS no closing alert is sent: HTTP's own framing tells the client where a response ends.
void ByteStream::shutdown_send() {
  ErrorCode ignored;
  socket().shutdown(Socket::shutdown_send, ignored);
}

void ByteStream::close() {
  ErrorCode ignored;
  socket().close(ignored);
}

std::unique_ptr<ByteStream> make_plain_stream(ByteStream::Socket socket) {
  return std::make_unique<PlainStream>(std::move(socket));
}

std::unique_ptr<ByteStream> make_tls_stream(ByteStream::Socket socket, ssl::context& context) {
  return std::make_unique<TlsStream>(std::move(socket), context);
}

}  // namespace cheetah
