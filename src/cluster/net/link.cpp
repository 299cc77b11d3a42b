// SPDX-License-Identifier: MIT
#include "cluster/net/link.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/time.h"

namespace cheetah::cluster {
namespace {

namespace asio = boost::asio;
constexpr size_t kBuffersAtOnce = 32;
// A refused peer's last words are read for so long, so that ours are not lost with the connection.
constexpr std::chrono::milliseconds kLinger{500};

}  // namespace

Link::Link(Socket socket, SessionSetup setup, const TcpMeshConfig& config, LinkOwner& owner)
    : socket_(std::move(socket)),
      session_(with_objection(setup)),
      config_(config),
      owner_(owner),
      dials_(setup.dials),
      start_(std::chrono::steady_clock::now()),
      last_received_(start_),
      last_progress_(start_),
      last_ping_(start_) {
  ErrorCode gone;
  if (const auto endpoint = socket_.remote_endpoint(gone); !gone) remote_ = endpoint.address().to_string();
}

SessionSetup Link::with_objection(SessionSetup setup) {
  setup.objection = [this](WorkerId peer) { return owner_.objection(*this, peer); };
  return setup;
}

void Link::start() {
  ErrorCode ignored;  // a socket that cannot do without delay still works
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  enqueue(session_.opening());
  read();
}

void Link::read() {
  socket_.async_read_some(
      asio::buffer(buffer_), [self = shared_from_this()](const ErrorCode& error, size_t size) {
        if (self->closed_) return;
        if (error == asio::error::eof) return self->end("the peer closed the link");
        if (error) return self->end(error.message());
        self->take({self->buffer_.data(), size});
        if (!self->closed_) self->read();
      });
}

void Link::take(std::string_view bytes) {
  if (refused()) return;
  last_received_ = std::chrono::steady_clock::now();
  std::string reply;
  std::vector<Packet> packets;
  using Kind = HandshakeEnd::Kind;
  try {
    session_.receive(bytes, reply, packets);
  } catch (const HandshakeEnd& end) {
    return refuse(end.what(), end.kind() == Kind::kRefusedByPeer, end.kind() == Kind::kUnneeded);
  } catch (const Error& error) {
    return refuse(error.what(), true);
  }
  enqueue(std::move(reply));
  if (session_.established() && !std::exchange(announced_, true)) owner_.on_established(*this);
  take_packets(packets);
}

void Link::take_packets(std::vector<Packet>& packets) {
  for (Packet& packet : packets) {
    if (closed_) return;
    if (packet.type == PacketType::kMessage) owner_.on_message(*this, std::move(packet.payload));
    if (packet.type == PacketType::kPing) enqueue(session_.seal(PacketType::kPong, {}));
  }
}

// Tells a stranger why, so that a person can read it at both ends, and leaves.
void Link::refuse(const std::string& why, bool news, bool tell) {
  if (announced_) return close(why);
  ErrorCode ignored;  // it fits an empty socket buffer, or is lost with the connection
  socket_.non_blocking(true, ignored);
  if (tell) socket_.write_some(asio::buffer(session_.refusal(why, !news)), ignored);
  socket_.shutdown(Socket::shutdown_send, ignored);
  refused_at_ = std::chrono::steady_clock::now();
  owner_.on_refused(*this, why, news);
  if (!tell) close(why);
}

// Who dialed and goes again has no use for the link, or only looked whether the port is open: no news.
void Link::end(const std::string& why) {
  if (dials_ && !announced_ && !refused())
    owner_.on_refused(*this, why + " before it had proved who it is", true);
  close(why);
}

void Link::send(std::string_view message) {
  CHEETAH_ASSERT(message.size() <= kMaxMessageBytes, "messages keep to their limit");
  if (closed_ || finishing_) return;
  enqueue(session_.seal(PacketType::kMessage, message));
  if (queue_bytes_ > config_.most_bytes)
    return close(format("the peer takes messages too slowly: {} bytes wait for it", queue_bytes_));
  if (queue_bytes_ >= config_.pressed_bytes && !std::exchange(pressed_, true))
    owner_.on_pressure(*this, true);
}

void Link::enqueue(std::string bytes) {
  if (closed_ || refused() || bytes.empty()) return;
  if (queue_.empty()) last_progress_ = std::chrono::steady_clock::now();
  queue_bytes_ += bytes.size();
  queue_.push_back(std::move(bytes));
  if (num_writing_ == 0) write();
}

void Link::write() {
  std::vector<asio::const_buffer> buffers;
  for (size_t i = 0; i < std::min(queue_.size(), kBuffersAtOnce); ++i)
    buffers.push_back(asio::buffer(queue_[i]));
  num_writing_ = buffers.size();
  const auto progress = [self = shared_from_this()](const ErrorCode& error, size_t) -> size_t {
    self->last_progress_ = std::chrono::steady_clock::now();
    return error ? 0 : size_t{1} << 20;
  };
  asio::async_write(
      socket_, buffers, progress, [self = shared_from_this()](const ErrorCode& error, size_t size) {
        if (self->closed_ || self->refused()) return;
        if (error) return self->end(error.message());
        self->on_written(size);
      });
}

void Link::on_written(size_t bytes) {
  queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(num_writing_));
  queue_bytes_ -= bytes;
  num_writing_ = 0;
  if (queue_bytes_ <= config_.relieved_bytes && std::exchange(pressed_, false))
    owner_.on_pressure(*this, false);
  if (!queue_.empty()) return write();
  if (finishing_) close("this worker leaves");
}

void Link::finish() {
  finishing_ = true;
  if (queue_.empty()) close("this worker leaves");
}

void Link::close(const std::string& why) {
  if (std::exchange(closed_, true)) return;
  const auto self = shared_from_this();  // the owner lets go of it
  ErrorCode ignored;
  socket_.shutdown(Socket::shutdown_both, ignored);
  socket_.close(ignored);
  owner_.on_closed(*this, why);
}

void Link::tick(Time now) {
  if (closed_) return;
  if (refused()) {
    if (now - *refused_at_ > kLinger) close("refused");
    return;
  }
  if (!session_.established()) {
    if (now - start_ > config_.handshake_time)
      refuse(format("no proof within {} s", seconds(config_.handshake_time)), true);
    return;
  }
  if (now - last_received_ > config_.dead_after)
    return close(format("the peer was silent for {} s", seconds(config_.dead_after)));
  if (!queue_.empty() && now - last_progress_ > config_.dead_after)
    return close(format("the peer took nothing for {} s", seconds(config_.dead_after)));
  if (now - last_ping_ < config_.ping_interval) return;
  last_ping_ = now;
  enqueue(session_.seal(PacketType::kPing, {}));
}

}  // namespace cheetah::cluster
