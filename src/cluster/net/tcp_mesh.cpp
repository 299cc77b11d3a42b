// SPDX-License-Identifier: MIT
#include "cluster/net/tcp_mesh.h"

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <optional>
#include <semaphore>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/format.h"
#include "base/random.h"
#include "cluster/net/link.h"
#include "cluster/net/link_keys.h"
#include "cluster/net/listen_endpoint.h"
#include "cluster/net/refusal_news.h"
#include "cluster/net/wish.h"

namespace cheetah::cluster {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kMostOpen = 1024;  // connections beside the established ones

std::string key_of(WorkerId peer) { return format("{:016x}", static_cast<uint64_t>(peer)); }
std::string key_of(const std::string& host, uint16_t port) { return format("at {}:{}", host, port); }

class TcpMesh final : public Mesh, public LinkOwner {
 public:
  explicit TcpMesh(const TcpMeshConfig& config);
  ~TcpMesh() override;

  void start(MeshEvents events) override;
  void connect(WorkerId peer, const std::string& host, uint16_t port) override;
  void connect_to(const std::string& host, uint16_t port) override;
  void disconnect(WorkerId peer) override;
  void disconnect_from(const std::string& host, uint16_t port) override;
  void send(WorkerId peer, std::string message) override;
  std::string seal(std::string_view text) const override { return keys_.seal(text); }
  std::optional<std::string> open(std::string_view sealed) const override { return keys_.open(sealed); }
  std::string host() const override { return host_; }
  uint16_t port() const override { return port_; }

 private:
  std::string objection(const Link& link, WorkerId peer) override;
  void on_established(Link& link) override;
  void on_refused(Link& link, const std::string& why, bool news) override;
  void on_message(Link& link, std::string&& message) override;
  void on_pressure(Link& link, bool pressed) override;
  void on_closed(Link& link, const std::string& why) override;

  void listen();
  void renew_credentials();
  SessionSetup session_setup(bool dials);
  void accept();
  void take(tcp::socket socket);
  void make_room();
  void tick();
  using WishPointer = std::shared_ptr<Wish>;  // shared with the operations in flight
  void wish(const std::string& key, WishPointer wish);
  void drop_wish(const std::string& key, std::optional<WorkerId> peer);
  bool stands(const WishPointer& wish) const;  // still wanted
  bool fulfilled(const Wish& wish) const;      // by a link that stands
  void try_later(const WishPointer& wish);
  void try_now(const WishPointer& wish);
  void connect_socket(const WishPointer& wish, const tcp::resolver::results_type& addresses);
  void on_connected(const WishPointer& wish);
  bool greets(WorkerId peer) const;
  WishPointer dialer_of(const Link& link) const;
  bool is_current(const Link& link) const;

  TcpMeshConfig config_;
  MeshEvents events_;
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{context_.get_executor()};
  tcp::acceptor acceptor_{context_};
  asio::steady_timer ticker_{context_}, accept_again_{context_};
  std::string host_;
  uint16_t port_ = 0;
  Philox jitter_;
  LinkKeys keys_;
  // Shared with the operations in flight.
  std::unordered_set<std::shared_ptr<Link>> open_;
  std::unordered_map<WorkerId, std::shared_ptr<Link>> links_;  // established: at most one to a peer
  std::map<std::string, WishPointer> wishes_;
  RefusalNews refusals_;
  std::counting_semaphore<> left_{0};  // the acceptor and all links are closed
  std::thread thread_;
};

TcpMesh::TcpMesh(const TcpMeshConfig& config)
    : config_(config), jitter_(static_cast<uint64_t>(config.self)), keys_(config.self) {
  listen();
}

// Also between links: transfers use the same ones.
void TcpMesh::renew_credentials() {
  try {
    config_.credentials.renew();
  } catch (const Error& error) {
    if (events_.on_refused) events_.on_refused("this worker", error.what());
  }
}

SessionSetup TcpMesh::session_setup(bool dials) {
  renew_credentials();
  return {.self = config_.self,
      .credentials = config_.credentials,
      .dials = dials,
      .key = keys_.own(),
      .wire = config_.wire};
}

void TcpMesh::listen() {
  const tcp::endpoint endpoint = endpoint_to_listen_on(context_, config_);
  ErrorCode error;
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error)
    throw Error(format(
        "cannot take peers at {} port {}: {}", printable(config_.host), config_.port, error.message()));
  host_ = endpoint.address().to_string();
  port_ = acceptor_.local_endpoint().port();
}

// What was sent before goes out first, as far as the peers take it within a short time.
TcpMesh::~TcpMesh() {
  if (!thread_.joinable()) return;
  constexpr milliseconds kFlushTime{500};
  asio::post(context_, [this] {
    acceptor_.close();
    wishes_.clear();
    for (const auto& link : std::vector(open_.begin(), open_.end()))
      link->established() ? link->finish() : link->close("this worker leaves");
    if (open_.empty()) left_.release();
  });
  static_cast<void>(left_.try_acquire_for(kFlushTime));
  context_.stop();
  thread_.join();
}

void TcpMesh::start(MeshEvents events) {
  events_ = std::move(events);
  accept();
  tick();
  thread_ = std::thread([this] { context_.run(); });
}

void TcpMesh::accept() {
  acceptor_.async_accept([this](const ErrorCode& error, tcp::socket socket) {
    if (error == asio::error::operation_aborted || !acceptor_.is_open()) return;
    if (!error) {
      take(std::move(socket));
      return accept();
    }
    accept_again_.expires_after(milliseconds(50));  // out of descriptors: those in use will come back
    accept_again_.async_wait([this](const ErrorCode& stopped) {
      if (!stopped) accept();
    });
  });
}

void TcpMesh::take(tcp::socket socket) {
  if (open_.size() >= links_.size() + kMostOpen) return;  // the socket closes
  make_room();
  auto link = std::make_shared<Link>(std::move(socket), session_setup(false), config_, *this);
  open_.insert(link);
  link->start();
}

// The peer that has been silent for longest gives way.
void TcpMesh::make_room() {
  const auto is_stranger = [](const auto& link) {
    return !link->dials() && !link->established() && !link->refused();
  };
  if (std::ranges::count_if(open_, is_stranger) < config_.max_strangers) return;
  std::shared_ptr<Link> oldest;
  for (const auto& link : open_)
    if (is_stranger(link) && (!oldest || link->start_time() < oldest->start_time())) oldest = link;
  oldest->close("too many strangers at once");
}

// The shortest time-out is kept to about a quarter.
void TcpMesh::tick() {
  const auto shortest = std::min({config_.ping_interval, config_.dead_after, config_.handshake_time});
  ticker_.expires_after(std::clamp(shortest / 4, milliseconds(2), milliseconds(250)));
  ticker_.async_wait([this](const ErrorCode& error) {
    if (error) return;
    const Time now = steady_clock::now();
    for (const auto& link : std::vector(open_.begin(), open_.end())) link->tick(now);
    renew_credentials();
    tick();
  });
}

void TcpMesh::send(WorkerId peer, std::string message) {
  if (message.size() > kMaxMessageBytes)
    throw Error(format("a message of {} bytes: a peer takes {} at most", message.size(), kMaxMessageBytes));
  asio::post(context_, [this, peer, bytes = std::move(message)] {
    const auto found = links_.find(peer);
    if (found != links_.end()) std::shared_ptr(found->second)->send(bytes);
  });
}

void TcpMesh::connect(WorkerId peer, const std::string& host, uint16_t port) {
  auto wanted = std::make_shared<Wish>(context_);
  wanted->peer = peer;
  wanted->host = host;
  wanted->port = port;
  asio::post(context_, [this, wanted] { wish(key_of(*wanted->peer), wanted); });
}

void TcpMesh::connect_to(const std::string& host, uint16_t port) {
  auto wanted = std::make_shared<Wish>(context_);
  wanted->by_address = true;
  wanted->host = host;
  wanted->port = port;
  asio::post(context_, [this, wanted] { wish(key_of(wanted->host, wanted->port), wanted); });
}

void TcpMesh::wish(const std::string& key, WishPointer wanted) {
  WishPointer& known = wishes_[key];
  if (known && known->host == wanted->host && known->port == wanted->port) return;
  known = wanted;  // what the old one had begun ends by itself
  try_now(wanted);
}

void TcpMesh::disconnect(WorkerId peer) {
  asio::post(context_, [this, peer] { drop_wish(key_of(peer), peer); });
}

void TcpMesh::disconnect_from(const std::string& host, uint16_t port) {
  asio::post(context_, [this, key = key_of(host, port)] { drop_wish(key, std::nullopt); });
}

void TcpMesh::drop_wish(const std::string& key, std::optional<WorkerId> peer) {
  if (const auto found = wishes_.find(key); found != wishes_.end()) {
    if (!peer) peer = found->second->peer;
    const auto dialing = found->second->link;
    wishes_.erase(found);
    if (dialing) dialing->close("no longer wanted");
  }
  if (const auto found = peer ? links_.find(*peer) : links_.end(); found != links_.end())
    std::shared_ptr(found->second)->close("no longer wanted");
}

bool TcpMesh::stands(const WishPointer& wish) const {
  return std::any_of(wishes_.begin(), wishes_.end(), [&](const auto& entry) { return entry.second == wish; });
}

bool TcpMesh::fulfilled(const Wish& wish) const { return wish.peer && links_.contains(*wish.peer); }

void TcpMesh::try_later(const WishPointer& wish) {
  wish->retry = std::clamp(wish->retry * 2, config_.first_retry, config_.last_retry);
  // Up to half as long again, so that peers that lost each other together do not meet again together.
  const auto wait =
      std::chrono::duration_cast<steady_clock::duration>(wish->retry * (1 + 0.5 * jitter_.next_uniform()));
  wish->timer.expires_after(wait);
  wish->timer.async_wait([this, wish](const ErrorCode& error) {
    if (!error && stands(wish)) try_now(wish);
  });
}

// A connection from that peer is proving itself.
bool TcpMesh::greets(WorkerId peer) const {
  return std::any_of(open_.begin(), open_.end(), [&](const std::shared_ptr<Link>& link) {
    return !link->established() && !link->refused() && !link->dials() && link->peer() == peer;
  });
}

void TcpMesh::try_now(const WishPointer& wish) {
  if (wish->link || fulfilled(*wish)) return;  // tried again when that one closes
  if (wish->peer && !wish->by_address && greets(*wish->peer)) return try_later(wish);
  wish->resolver.async_resolve(wish->host, std::to_string(wish->port),
      [this, wish](const ErrorCode& error, const tcp::resolver::results_type& addresses) {
        if (!stands(wish)) return;
        if (error || fulfilled(*wish)) return try_later(wish);
        connect_socket(wish, addresses);
      });
}

void TcpMesh::connect_socket(const WishPointer& wish, const tcp::resolver::results_type& addresses) {
  wish->socket = tcp::socket(context_);
  wish->timer.expires_after(config_.handshake_time);
  wish->timer.async_wait([wish](const ErrorCode& error) {
    ErrorCode ignored;
    if (!error) wish->socket.close(ignored);  // ends the attempt
  });
  asio::async_connect(wish->socket, addresses, [this, wish](const ErrorCode& error, const tcp::endpoint&) {
    if (!stands(wish)) return;
    wish->timer.cancel();
    if (error || fulfilled(*wish)) return try_later(wish);
    on_connected(wish);
  });
}

void TcpMesh::on_connected(const WishPointer& wish) {
  SessionSetup setup = session_setup(true);
  if (!wish->by_address) setup.expected = wish->peer;
  wish->link = std::make_shared<Link>(std::move(wish->socket), setup, config_, *this);
  open_.insert(wish->link);
  wish->link->start();
}

TcpMesh::WishPointer TcpMesh::dialer_of(const Link& link) const {
  for (const auto& [key, wish] : wishes_)
    if (wish->link.get() == &link) return wish;
  return nullptr;
}

// Two peers that dial each other at once would end with two links or with none: the dial of the lesser id
// stands. Who dials an address and finds a peer it is linked to already has no use for a second link.
std::string TcpMesh::objection(const Link& link, WorkerId peer) {
  if (link.dials()) {
    const WishPointer wish = dialer_of(link);
    if (!wish || !wish->by_address) return {};
    wish->peer = peer;
    return links_.contains(peer) ? "linked to that peer already" : "";
  }
  if (peer < config_.self) return {};
  const auto dials_it = [&](const auto& entry) { return entry.second->link && entry.second->peer == peer; };
  if (std::none_of(wishes_.begin(), wishes_.end(), dials_it)) return {};
  return "both peers dial at once; the other connection stands";
}

// The newest link stands: a peer makes a second one only when it has lost the first, whatever this side still
// believes of that.
void TcpMesh::on_established(Link& link) {
  const WorkerId peer = *link.peer();
  keys_.learn(peer, link.peer_key());
  const auto self = link.shared_from_this();
  if (const auto old = links_.find(peer); old != links_.end())
    std::shared_ptr(old->second)->close("replaced by a newer link of the same peer");
  links_[peer] = self;
  for (const auto& [key, wish] : std::map(wishes_)) {
    if (wish->peer != peer) continue;
    wish->retry = milliseconds(0);
    wish->timer.cancel();
    const auto dialing = std::exchange(wish->link, nullptr);
    if (dialing && dialing != self) dialing->close("the peer's own connection stands");
  }
  if (events_.on_up) events_.on_up(peer);
}

// The link goes on for a moment, until the peer has heard of it; the dialer tries again meanwhile.
void TcpMesh::on_refused(Link& link, const std::string& why, bool news) {
  if (const WishPointer wish = dialer_of(link)) {
    wish->link = nullptr;
    if (!fulfilled(*wish)) try_later(wish);
  }
  if (news && events_.on_refused && refusals_.is_news(link.remote(), why, steady_clock::now()))
    events_.on_refused(link.remote(), why);
}

bool TcpMesh::is_current(const Link& link) const {
  const auto found = links_.find(*link.peer());
  return found != links_.end() && found->second.get() == &link;
}

void TcpMesh::on_message(Link& link, std::string&& message) {
  if (events_.on_message && is_current(link)) events_.on_message(*link.peer(), std::move(message));
}

void TcpMesh::on_pressure(Link& link, bool pressed) {
  if (events_.on_pressure && is_current(link)) events_.on_pressure(*link.peer(), pressed);
}

void TcpMesh::on_closed(Link& link, const std::string& why) {
  open_.erase(link.shared_from_this());
  if (!acceptor_.is_open() && open_.empty()) left_.release();
  if (const WishPointer wish = dialer_of(link)) {
    wish->link = nullptr;
    if (!fulfilled(*wish)) try_later(wish);
    return;
  }
  if (!link.established() || !is_current(link)) return;
  const WorkerId peer = *link.peer();
  links_.erase(peer);
  if (events_.on_down) events_.on_down(peer, why);
  for (const auto& [key, wish] : wishes_)
    if (wish->peer == peer && !wish->link) try_later(wish);
}

}  // namespace

std::unique_ptr<Mesh> make_tcp_mesh(const TcpMeshConfig& config) { return std::make_unique<TcpMesh>(config); }

}  // namespace cheetah::cluster
