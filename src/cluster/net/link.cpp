#include "cluster/net/link.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace cheetah::cluster {
namespace {

namespace asio = boost::asio;
constexpr size_t kBuffersAtOnce = 32;

double seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1000; }

}  // namespace

Link::Link(Socket socket, SessionSetup setup, const TcpMeshConfig& config, LinkOwner& owner)
    : socket_(std::move(socket)),
      session_(setup),
      config_(config),
      owner_(owner),
      dials_(setup.dials),
      start_(std::chrono::steady_clock::now()),
      last_received_(start_),
      last_progress_(start_),
      last_ping_(start_) {}

void Link::start() {
  ErrorCode ignored;  // a socket that cannot do without delay still works
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  enqueue(session_.opening());
  read();
}

void Link::read() {
  socket_.async_read_some(asio::buffer(buffer_),
                          [self = shared_from_this()](const ErrorCode& error, size_t size) {
                            if (self->closed_) return;
                            if (error == asio::error::eof) return self->close("the peer closed the link");
                            if (error) return self->close(error.message());
                            self->take({self->buffer_.data(), size});
                            if (!self->closed_) self->read();
                          });
}

void Link::take(std::string_view bytes) {
  last_received_ = std::chrono::steady_clock::now();
  std::string reply;
  std::vector<Packet> packets;
  try {
    session_.receive(bytes, reply, packets);
  } catch (const Error& error) {
    return refuse(error.what());
  }
  if (peer() && !std::exchange(introduced_, true))
    if (const std::string objection = owner_.objection(*this); !objection.empty()) return refuse(objection);
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
void Link::refuse(const std::string& why) {
  if (!session_.established() && !dials_) {
    ErrorCode ignored;  // it fits an empty socket buffer, or is lost with the connection
    socket_.non_blocking(true, ignored);
    socket_.write_some(asio::buffer(Session::refusal(why)), ignored);
  }
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
  if (closed_ || bytes.empty()) return;
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
  asio::async_write(socket_, buffers, progress,
                    [self = shared_from_this()](const ErrorCode& error, size_t size) {
                      if (self->closed_) return;
                      if (error) return self->close(error.message());
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
  if (!session_.established()) {
    if (now - start_ > config_.handshake_time)
      refuse(format("no proof within {} s", seconds(config_.handshake_time)));
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
