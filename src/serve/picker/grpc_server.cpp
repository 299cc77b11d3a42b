// SPDX-License-Identifier: MIT
#include "serve/picker/grpc_server.h"

#include <openssl/ssl.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <unordered_set>

#include "base/error.h"
#include "base/format.h"
#include "net/tls_context.h"
#include "serve/picker/grpc_connection.h"

namespace cheetah {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr std::chrono::milliseconds kTick{1000}, kAcceptPause{50};

// gRPC clients speak HTTP/2 and say so in the handshake.
int choose_http2(SSL*, const unsigned char** chosen, unsigned char* size, const unsigned char* offered,
    unsigned offered_size, void*) {
  static constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, size, kHttp2, sizeof kHttp2, offered, offered_size) !=
      OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

struct GrpcServer::State {
  State(GrpcConfig setting, OpenGrpcCall open_call) : config(std::move(setting)), open(std::move(open_call)) {
    if (!config.tls_cert.empty()) {
      tls = server_tls_context(config.tls_cert, config.tls_key);
      SSL_CTX_set_alpn_select_cb(tls->native_handle(), choose_http2, nullptr);
    }
    ErrorCode error;
    tcp::resolver resolver(thread.context());
    const auto found =
        resolver.resolve(config.host, std::to_string(config.port), tcp::resolver::passive, error);
    if (!error && found.empty()) error = asio::error::host_not_found;
    if (!error) acceptor.open(found.begin()->endpoint().protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(found.begin()->endpoint(), error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error)
      throw Error(format("--endpoint-picker-port: cannot listen on {} port {}: {}", printable(config.host),
          config.port, error.message()));
    port = acceptor.local_endpoint().port();
  }

  void accept() {
    acceptor.async_accept([this](const ErrorCode& error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (!error) {
        take(std::move(socket));
        return accept();
      }
      accept_again.expires_after(kAcceptPause);  // out of descriptors: those in use will come back
      accept_again.async_wait([this](const ErrorCode& stopped) {
        if (!stopped) accept();
      });
    });
  }

  void take(tcp::socket socket) {
    if (static_cast<int64_t>(connections.size()) >= config.connections) return;  // the socket closes
    ErrorCode ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::keep_alive(true), ignored);
    auto stream = tls ? make_tls_stream(std::move(socket), *tls) : make_plain_stream(std::move(socket));
    auto connection = std::make_shared<GrpcConnection>(std::move(stream),
        GrpcConnection::Setting{config, open, totals,
            [this](GrpcConnection& closed) { connections.erase(closed.shared_from_this()); }});
    connections.insert(connection);
    connection->start();
  }

  void tick() {
    thread.tick_every(kTick, [this](ServeTime now) {
      const std::vector<std::shared_ptr<GrpcConnection>> all(connections.begin(), connections.end());
      for (const auto& each : all) each->on_tick(now);
      return true;
    });
  }

  const GrpcConfig config;
  const OpenGrpcCall open;
  GrpcTotals totals;
  NetworkThread thread;
  std::shared_ptr<asio::ssl::context> tls;  // shared by the connections
  tcp::acceptor acceptor{thread.context()};
  asio::steady_timer accept_again{thread.context()};
  std::unordered_set<std::shared_ptr<GrpcConnection>> connections;  // shared with the operations in flight
  uint16_t port = 0;
};

GrpcServer::GrpcServer(const GrpcConfig& config, OpenGrpcCall open)
    : state_(std::make_unique<State>(config, std::move(open))) {}

GrpcServer::~GrpcServer() {
  state_->thread.stop();
  const auto all = std::exchange(state_->connections, {});
  for (const auto& each : all) each->close();
}

void GrpcServer::start() {
  state_->thread.run([state = state_.get()] {
    state->accept();
    state->tick();
  });
  state_->thread.start();
}

uint16_t GrpcServer::port() const { return state_->port; }
NetworkThread& GrpcServer::thread() { return state_->thread; }
bool grpc_is_built_in() { return true; }

}  // namespace cheetah
