// SPDX-License-Identifier: MIT
#pragma once
// A connected socket, plain or under TLS. All calls and all handlers on the thread of its io_context.
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>
#include <functional>
#include <memory>
#include <string>

namespace boost::asio::ssl {
class context;
}

namespace cheetah {

class ByteStream {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using ErrorCode = boost::system::error_code;
  using Done = std::function<void(const ErrorCode&, size_t)>;

  virtual ~ByteStream() = default;
  virtual void handshake(std::function<void(const ErrorCode&)> done) = 0;
  virtual void read_some(char* data, size_t size, Done done) = 0;
  virtual void write_some(const char* data, size_t size, Done done) = 0;
  virtual Socket& socket() = 0;
  virtual bool is_plain() const = 0;

  // Calls back when the connection breaks, or is closed here.
  void wait_for_error(std::function<void()> broken);
  void shutdown_send();  // the peer reads what was sent and then an end
  void close();
};

std::unique_ptr<ByteStream> make_plain_stream(ByteStream::Socket socket);
std::unique_ptr<ByteStream> make_tls_stream(ByteStream::Socket socket, boost::asio::ssl::context& context);

}  // namespace cheetah
