#include "cluster/net/tcp_mesh.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/connect.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fstream>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/format.h"
#include "base/random.h"
#include "cluster/net/link.h"

namespace cheetah::cluster {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

tcp::endpoint listen_endpoint(asio::io_context& context, const TcpMeshConfig& config) {
  ErrorCode error;
  const auto found =
      tcp::resolver(context).resolve(config.host, std::to_string(config.port), tcp::resolver::passive, error);
  if (error || found.empty())
    throw Error(format("{}: is no address of this machine ({})", printable(config.host), error.message()));
  const tcp::endpoint endpoint = found.begin()->endpoint();
  if (!endpoint.address().is_loopback() && config.secret.empty())
    throw Error(
        format("refusing to take peers at {} without a shared secret: give every worker the same "
               "--secret-file",
               printable(config.host)));
  return endpoint;
}

// A peer that a link is wanted to.
struct Wish {
  explicit Wish(asio::io_context& context) : timer(context), resolver(context), socket(context) {}
  std::string host;
  uint16_t port = 0;
  milliseconds retry{0};
  asio::steady_timer timer;  // when to try next, or to give up on connecting
  tcp::resolver resolver;
  tcp::socket socket;          // while it connects
  std::shared_ptr<Link> link;  // while it proves itself
};

class TcpMesh final : public Mesh, public LinkOwner {
 public:
  explicit TcpMesh(const TcpMeshConfig& config);
  ~TcpMesh() override;

  void start(MeshEvents events) override;
  void connect(WorkerId peer, const std::string& host, uint16_t port) override;
  void disconnect(WorkerId peer) override;
  void send(WorkerId peer, std::string message) override;
  std::string host() const override { return host_; }
  uint16_t port() const override { return port_; }

 private:
  std::string objection(const Link& link) override;
  void on_established(Link& link) override;
  void on_message(Link& link, std::string&& message) override;
  void on_pressure(Link& link, bool pressed) override;
  void on_closed(Link& link, const std::string& why) override;

  void listen();
  void accept();
  void take(tcp::socket socket);
  void tick();
  void try_later(WorkerId peer, Wish& wish);
  void try_now(WorkerId peer);
  void connect_to(WorkerId peer, Wish& wish, const tcp::resolver::results_type& addresses);
  void on_connected(WorkerId peer, Wish& wish);
  bool greets(WorkerId peer) const;
  Wish* wish_for(WorkerId peer, const Wish* same);
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
  // Shared with the operations in flight.
  std::unordered_set<std::shared_ptr<Link>> open_;
  std::unordered_map<WorkerId, std::shared_ptr<Link>> links_;  // established: at most one to a peer
  std::unordered_map<WorkerId, std::shared_ptr<Wish>> wishes_;
  int64_t strangers_ = 0;
  std::atomic<bool> left_ = false;  // the acceptor and all links are closed
  std::thread thread_;
};

TcpMesh::TcpMesh(const TcpMeshConfig& config) : config_(config), jitter_(static_cast<uint64_t>(config.self)) {
  listen();
}

void TcpMesh::listen() {
  const tcp::endpoint endpoint = listen_endpoint(context_, config_);
  ErrorCode error;
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error)
    throw Error(format("cannot take peers at {} port {}: {}", printable(config_.host), config_.port,
                       error.message()));
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
    left_ = open_.empty();
  });
  const auto until = steady_clock::now() + kFlushTime;
  while (!left_ && steady_clock::now() < until) std::this_thread::sleep_for(milliseconds(1));
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
  if (strangers_ >= config_.max_strangers) return;  // the socket closes
  ++strangers_;
  const SessionSetup setup{.self = config_.self, .secret = config_.secret, .dials = false, .expected = {}};
  auto link = std::make_shared<Link>(std::move(socket), setup, config_, *this);
  open_.insert(link);
  link->start();
}

// The shortest time-out is kept to about a quarter.
void TcpMesh::tick() {
  const auto shortest = std::min({config_.ping_interval, config_.dead_after, config_.handshake_time});
  ticker_.expires_after(std::clamp(shortest / 4, milliseconds(2), milliseconds(250)));
  ticker_.async_wait([this](const ErrorCode& error) {
    if (error) return;
    const Time now = steady_clock::now();
    for (const auto& link : std::vector(open_.begin(), open_.end())) link->tick(now);
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
  asio::post(context_, [this, peer, host, port] {
    auto& wish = wishes_[peer];
    if (wish && wish->host == host && wish->port == port) return;
    wish = std::make_shared<Wish>(context_);  // what the old one had begun ends by itself
    wish->host = host;
    wish->port = port;
    try_now(peer);
  });
}

void TcpMesh::disconnect(WorkerId peer) {
  asio::post(context_, [this, peer] {
    if (const auto wish = wishes_.find(peer); wish != wishes_.end()) {
      const auto dialing = wish->second->link;
      wishes_.erase(wish);
      if (dialing) dialing->close("no longer wanted");
    }
    if (const auto found = links_.find(peer); found != links_.end())
      std::shared_ptr(found->second)->close("no longer wanted");
  });
}

// The wish for `peer`, if it is still the one that an operation was started for.
Wish* TcpMesh::wish_for(WorkerId peer, const Wish* same) {
  const auto found = wishes_.find(peer);
  return found != wishes_.end() && found->second.get() == same ? found->second.get() : nullptr;
}

void TcpMesh::try_later(WorkerId peer, Wish& wish) {
  wish.retry = std::clamp(wish.retry * 2, config_.first_retry, config_.last_retry);
  // Up to half as long again, so that peers that lost each other together do not meet again together.
  const auto wait =
      std::chrono::duration_cast<steady_clock::duration>(wish.retry * (1 + 0.5 * jitter_.next_uniform()));
  wish.timer.expires_after(wait);
  wish.timer.async_wait([this, peer, same = wishes_[peer]](const ErrorCode& error) {
    if (!error && wish_for(peer, same.get())) try_now(peer);
  });
}

// A connection from that peer is proving itself.
bool TcpMesh::greets(WorkerId peer) const {
  return std::any_of(open_.begin(), open_.end(), [&](const std::shared_ptr<Link>& link) {
    return !link->established() && !link->dials() && link->peer() == peer;
  });
}

void TcpMesh::try_now(WorkerId peer) {
  const std::shared_ptr<Wish> wish = wishes_[peer];
  if (wish->link || links_.contains(peer)) return;  // tried again when that one closes
  if (greets(peer)) return try_later(peer, *wish);
  wish->resolver.async_resolve(
      wish->host, std::to_string(wish->port),
      [this, peer, wish](const ErrorCode& error, const tcp::resolver::results_type& addresses) {
        if (!wish_for(peer, wish.get())) return;
        if (error || links_.contains(peer)) return try_later(peer, *wish);
        connect_to(peer, *wish, addresses);
      });
}

void TcpMesh::connect_to(WorkerId peer, Wish& wish, const tcp::resolver::results_type& addresses) {
  const std::shared_ptr<Wish> same = wishes_[peer];
  wish.socket = tcp::socket(context_);
  wish.timer.expires_after(config_.handshake_time);
  wish.timer.async_wait([same](const ErrorCode& error) {
    ErrorCode ignored;
    if (!error) same->socket.close(ignored);  // ends the attempt
  });
  asio::async_connect(wish.socket, addresses,
                      [this, peer, same](const ErrorCode& error, const tcp::endpoint&) {
                        if (!wish_for(peer, same.get())) return;
                        same->timer.cancel();
                        if (error || links_.contains(peer)) return try_later(peer, *same);
                        on_connected(peer, *same);
                      });
}

void TcpMesh::on_connected(WorkerId peer, Wish& wish) {
  const SessionSetup setup{.self = config_.self, .secret = config_.secret, .dials = true, .expected = peer};
  ++strangers_;
  wish.link = std::make_shared<Link>(std::move(wish.socket), setup, config_, *this);
  open_.insert(wish.link);
  wish.link->start();
}

// Two peers that dial each other at once would end with two links or with none: the dial of the lesser id
// stands.
std::string TcpMesh::objection(const Link& link) {
  if (link.dials() || *link.peer() < config_.self) return {};
  const auto wish = wishes_.find(*link.peer());
  if (wish == wishes_.end() || !wish->second->link) return {};
  return "both peers dial at once; the other connection stands";
}

// The newest link stands: a peer makes a second one only when it has lost the first, whatever this side still
// believes of that.
void TcpMesh::on_established(Link& link) {
  --strangers_;
  const WorkerId peer = *link.peer();
  const auto self = link.shared_from_this();
  if (const auto old = links_.find(peer); old != links_.end())
    std::shared_ptr(old->second)->close("replaced by a newer link of the same peer");
  links_[peer] = self;
  if (const auto wish = wishes_.find(peer); wish != wishes_.end()) {
    wish->second->retry = milliseconds(0);
    wish->second->timer.cancel();
    const auto dialing = std::exchange(wish->second->link, nullptr);
    if (dialing && dialing != self) dialing->close("the peer's own connection stands");
  }
  if (events_.on_up) events_.on_up(peer);
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
  if (!acceptor_.is_open()) left_ = open_.empty();
  if (!link.established()) --strangers_;
  // A dialed link knows whom it wanted even before the peer has answered.
  for (const auto& [peer, wish] : wishes_)
    if (wish->link.get() == &link) {
      wish->link = nullptr;
      return try_later(peer, *wish);
    }
  if (!link.established() || !is_current(link)) return;
  const WorkerId peer = *link.peer();
  links_.erase(peer);
  if (events_.on_down) events_.on_down(peer, why);
  if (const auto wish = wishes_.find(peer); wish != wishes_.end()) try_later(peer, *wish->second);
}

}  // namespace

std::unique_ptr<Mesh> make_tcp_mesh(const TcpMeshConfig& config) { return std::make_unique<TcpMesh>(config); }

std::string read_secret_file(const std::string& path) {
  struct stat info = {};
  std::ifstream file(path, std::ios::binary);
  std::string secret;
  if (!file || stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || !std::getline(file, secret))
    throw Error(format("{}: cannot be read as a file with a secret", printable(path, 256)));
  if ((info.st_mode & (S_IROTH | S_IWOTH)) != 0)
    throw Error(
        format("{}: every user of this machine can read the secret: chmod 600 it", printable(path, 256)));
  if (!secret.empty() && secret.back() == '\r') secret.pop_back();
  if (secret.size() < 16)
    throw Error(format("{}: a secret of {} bytes: expected at least 16, e.g. from openssl rand -hex 32",
                       printable(path, 256), secret.size()));
  return secret;
}

}  // namespace cheetah::cluster
