// SPDX-License-Identifier: MIT
#pragma once
// A byte stream to a server, plain or TLS. Internal to net: includes Asio.
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace cheetah {

class ClientConnection {
 public:
  using ErrorCode = boost::system::error_code;
  using Endpoints = boost::asio::ip::tcp::resolver::results_type;
  using Done = std::function<void(const ErrorCode&)>;
  using Read = std::function<void(const ErrorCode&, size_t)>;

  virtual ~ClientConnection() = default;
  // Handlers run on the context's thread, never inside these calls. The connection, the bytes and the buffer
  // live until they have.
  virtual void open(const Endpoints& endpoints, Done done) = 0;
  virtual void write(std::string_view bytes, Done done) = 0;
  virtual void read(boost::asio::mutable_buffer buffer, Read done) = 0;
  // While nothing is being read: the peer has neither closed the connection nor sent anything.
  virtual bool is_idle() = 0;
  virtual void close() = 0;  // pending handlers get operation_aborted
};

// `tls`: null for a plain stream; else `host` is the name the certificate must hold. `tunnel`: what to ask of the proxy at
// the other end before TLS begins, "" for none.
std::unique_ptr<ClientConnection> make_client_connection(boost::asio::io_context& context,
    boost::asio::ssl::context* tls, const std::string& host, const std::string& tunnel);

}  // namespace cheetah
