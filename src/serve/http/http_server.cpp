// SPDX-License-Identifier: MIT
#include "serve/http/http_server.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <future>
#include <map>
#include <unordered_set>

#include "base/error.h"
#include "base/format.h"
#include "net/tls_context.h"
#include "serve/http/connection.h"
#include "serve/http/unix_listener.h"

namespace cheetah {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using local = asio::local::stream_protocol;
using ErrorCode = boost::system::error_code;

const std::string kLocalPeer = "unix";  // a connection's address where it came over the Unix socket

// The soft limit on descriptors is often 1,024; the hard one is ours to use.
int64_t raise_descriptor_limit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur == RLIM_INFINITY ? int64_t{1} << 20 : static_cast<int64_t>(limit.rlim_cur);
}

// Ticks come often enough for the shortest limit to be kept to about a quarter.
std::chrono::milliseconds tick_interval(const HttpLimits& limits) {
  const auto shortest = std::min({limits.header_time, limits.request_time, limits.idle_time,
      limits.write_stall, limits.linger_time, limits.body_grace});
  return std::clamp(shortest / 4, std::chrono::milliseconds(10), std::chrono::milliseconds(250));
}

tcp::endpoint resolve(const ListenConfig& config, asio::io_context& context) {
  ErrorCode error;
  tcp::resolver resolver(context);
  const auto found =
      resolver.resolve(config.host, std::to_string(config.port), tcp::resolver::passive, error);
  if (error || found.empty())
    throw Error(
        format("--host {}: is not an address of this machine ({})", printable(config.host), error.message()));
  return found.begin()->endpoint();
}

}  // namespace

// The connections of one thread; touched by that thread alone.
struct ThreadConnections {
  explicit ThreadConnections(NetworkThread& owner) : thread(owner) {}
  NetworkThread& thread;
  std::unordered_set<std::shared_ptr<Connection>> open;  // shared with the operations in flight
  bool ticking = false;
  bool winding_down = false;
};

struct HttpServer::State {
  State(const ListenConfig& listen, HttpHandler& calls) : config(listen), handler(calls) {
    for (int i = 0; i < std::max(1, config.threads); ++i) {
      threads.push_back(std::make_unique<NetworkThread>());
      connections.push_back(std::make_unique<ThreadConnections>(*threads.back()));
    }
    const int64_t descriptors = raise_descriptor_limit();
    config.limits.connections =
        std::clamp<int64_t>(config.limits.connections, 1, std::max<int64_t>(1, descriptors - 64));
    if (!config.tls_cert.empty()) tls = server_tls_context(config.tls_cert, config.tls_key);
    asio::io_context& first = threads[0]->context();
    acceptor = std::make_unique<tcp::acceptor>(first);
    local_acceptor = std::make_unique<local::acceptor>(first);
    retry = std::make_unique<asio::steady_timer>(first);
    if (config.tcp) listen_at(resolve(config, first));
    if (config.uds.empty()) return;
    unix_listener = std::make_unique<UnixListener>(config.uds, config.uds_mode);
    local_acceptor->assign(local(), unix_listener->take_descriptor());
  }

  void listen_at(const tcp::endpoint& endpoint) {
    ErrorCode error;
    acceptor->open(endpoint.protocol(), error);
    if (!error) acceptor->set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor->bind(endpoint, error);
    if (!error) acceptor->listen(asio::socket_base::max_listen_connections, error);
    if (error == asio::error::address_in_use)
      throw Error(
          format("port {} is in use on {}: another server runs there; stop it or choose another with --port "
                 "(0 picks a free one)",
              config.port, config.host));
    if (error == asio::error::access_denied)
      throw Error(
          format("port {} needs rights this user lacks: choose one above 1023 with --port", config.port));
    if (error)
      throw Error(
          format("cannot listen on {} port {}: {}", printable(config.host), config.port, error.message()));
    port = acceptor->local_endpoint().port();
  }

  void accept() {
    const size_t turn = next_thread++ % threads.size();
    acceptor->async_accept(
        threads[turn]->context(), [this, turn](const ErrorCode& error, tcp::socket socket) {
          if (error == asio::error::operation_aborted) return;
          if (error) return accept_later();  // out of descriptors: those in use will come back
          take(std::move(socket), turn);
          accept();
        });
  }

  // A connection is read and written alike whatever it came over, so that its socket becomes one like the others.
  void accept_local() {
    const size_t turn = next_thread++ % threads.size();
    local_acceptor->async_accept(
        threads[turn]->context(), [this, turn](const ErrorCode& error, local::socket socket) {
          if (error == asio::error::operation_aborted) return;
          ErrorCode failed = error;
          const auto descriptor = failed ? -1 : socket.release(failed);
          if (failed) return accept_later();
          hand_over(tcp::socket(threads[turn]->context(), tcp::v4(), descriptor), kLocalPeer, true, turn);
          accept_local();
        });
  }

  void accept_all() {
    if (acceptor->is_open()) accept();
    if (local_acceptor->is_open()) accept_local();
  }

  void accept_later() {
    ErrorCode ignored;
    acceptor->cancel(ignored);  // both begin again
    local_acceptor->cancel(ignored);
    retry->expires_after(std::chrono::milliseconds(50));
    retry->async_wait([this](const ErrorCode& error) {
      if (!error) accept_all();
    });
  }

  // On thread 0: counts, then hands the socket to its thread.
  void take(tcp::socket socket, size_t turn) {
    ErrorCode error;
    const auto peer = socket.remote_endpoint(error).address();
    if (error) return;
    const std::string address = peer.to_string();
    hand_over(std::move(socket), address, config.limits.spare_loopback && peer.is_loopback(), turn);
  }

  // `spared`: from the limit on connections of one address.
  void hand_over(tcp::socket socket, const std::string& address, bool spared, size_t turn) {
    if (num_open >= config.limits.connections ||
        (!spared && per_address[address] >= config.limits.connections_per_address))
      return;  // the socket closes: answering each would serve the flood
    ++per_address[address];
    handler.on_connections(++num_open);
    ErrorCode error;  // a Unix socket has no such option
    socket.set_option(tcp::no_delay(true), error);
    if (config.limits.socket_bytes > 0)
      socket.set_option(tcp::socket::send_buffer_size(static_cast<int>(config.limits.socket_bytes)), error);
    auto stream = tls && address != kLocalPeer ? make_tls_stream(std::move(socket), *tls)
                                               : make_plain_stream(std::move(socket));
    auto shared = std::make_shared<std::unique_ptr<ByteStream>>(std::move(stream));  // std::function copies
    threads[turn]->run([this, shared, address, turn] { open(std::move(*shared), address, turn); });
  }

  void open(std::unique_ptr<ByteStream> stream, const std::string& address, size_t turn) {
    ThreadConnections& mine = *connections[turn];
    const auto on_closed = [this, &mine, address](Connection& connection) {
      mine.open.erase(connection.shared_from_this());
      threads[0]->run([this, address] { forget(address); });
    };
    auto connection = std::make_shared<Connection>(std::move(stream),
        Connection::Setting{mine.thread, handler, config.limits, address, on_closed, answers});
    mine.open.insert(connection);
    connection->start();
    if (std::exchange(mine.ticking, true)) return;
    mine.thread.tick_every(tick_interval(config.limits), [&mine](ServeTime now) {
      const std::vector<std::shared_ptr<Connection>> all(mine.open.begin(), mine.open.end());
      for (const auto& each : all) each->on_tick(now);
      return mine.ticking = !mine.open.empty();
    });
  }

  void forget(const std::string& address) {
    handler.on_connections(--num_open);
    const auto found = per_address.find(address);
    if (found != per_address.end() && --found->second == 0) per_address.erase(found);
  }

  // Runs `action` for each connection on its own thread; blocks until all have run.
  void with_all(const std::function<void(Connection&)>& action) {
    for (const auto& mine : connections) {
      std::promise<void> done;
      mine->thread.run([&] {
        const std::vector<std::shared_ptr<Connection>> all(mine->open.begin(), mine->open.end());
        for (const auto& each : all) action(*each);
        done.set_value();
      });
      done.get_future().wait();
    }
  }

  ListenConfig config;
  HttpHandler& handler;
  OpenCount answers;  // outlives the threads that count it
  std::vector<std::unique_ptr<NetworkThread>> threads;
  std::vector<std::unique_ptr<ThreadConnections>> connections;
  std::shared_ptr<asio::ssl::context> tls;
  std::unique_ptr<UnixListener> unix_listener;
  std::unique_ptr<tcp::acceptor> acceptor;
  std::unique_ptr<local::acceptor> local_acceptor;
  std::unique_ptr<asio::steady_timer> retry;
  uint16_t port = 0;
  size_t next_thread = 0;
  std::map<std::string, int64_t> per_address;  // thread 0's
  std::atomic<int64_t> num_open = 0;           // counted by thread 0, read by all
  bool running = false;
};

HttpServer::HttpServer(const ListenConfig& config, HttpHandler& handler)
    : state_(std::make_unique<State>(config, handler)) {}

HttpServer::~HttpServer() { stop(); }

void HttpServer::start() {
  state_->accept_all();
  state_->running = true;
  for (const auto& thread : state_->threads) thread->start();
}

uint16_t HttpServer::port() const { return state_->port; }

void HttpServer::wind_down() {
  state_->with_all([](Connection& each) { each.wind_down(); });
}

void HttpServer::stop() {
  if (!std::exchange(state_->running, false)) return;
  std::promise<void> closed;
  state_->threads[0]->run([this, &closed] {
    ErrorCode ignored;
    state_->acceptor->close(ignored);
    state_->local_acceptor->close(ignored);
    state_->retry->cancel();
    closed.set_value();
  });
  closed.get_future().wait();
  state_->with_all([](Connection& each) { each.close(); });
  for (const auto& thread : state_->threads) thread->stop();
}

std::vector<NetworkThread*> HttpServer::threads() {
  std::vector<NetworkThread*> all;
  for (const auto& thread : state_->threads) all.push_back(thread.get());
  return all;
}

int64_t HttpServer::num_connections() const { return state_->num_open; }

void HttpServer::wait_for_answers(SteadyTime until) { state_->answers.wait_for_none(until); }

bool is_loopback_host(const std::string& host) {
  if (host == "localhost") return true;
  ErrorCode error;
  const auto address = asio::ip::make_address(host, error);
  return !error && address.is_loopback();
}

}  // namespace cheetah
