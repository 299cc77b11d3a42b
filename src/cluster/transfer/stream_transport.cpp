// SPDX-License-Identifier: MIT
#include "cluster/transfer/stream_transport.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/format.h"

namespace cheetah::cluster::transfer {
namespace {

constexpr uint8_t kWords = 0, kSlab = 1;
constexpr size_t kPieceStart = 1 + sizeof(uint32_t);
constexpr size_t kMostPiece = size_t{64} << 10;  // of a session or of a slab's header
constexpr size_t kBuffer = size_t{256} << 10;
constexpr size_t kMostAtOnce = size_t{8} << 20;  // from one link, before others have their turn

std::string piece_start(uint8_t kind, size_t bytes) {
  std::string start(1, static_cast<char>(kind));
  const auto size = static_cast<uint32_t>(bytes);
  return start.append(reinterpret_cast<const char*>(&size), sizeof size);
}

}  // namespace

StreamTransport::StreamTransport(const TransferConfig& config, EventSink& sink)
    : SessionTransport(config, sink),
      arena_(config.num_slots, config.slot_bytes),
      arena_view_(arena_.view()),
      listener_(config.host, config.port),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      buffer_(kBuffer) {
  if (!wake_) throw_system_error("eventfd");
}

void StreamTransport::stop() {
  stop_work_beside();
  orders_.close();
  wake_up();
  if (thread_.joinable()) thread_.join();
}

void StreamTransport::wake_up() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);  // full: awake already
}

void StreamTransport::post(TransportOrder order) {
  orders_.post(std::move(order));
  wake_up();
}

// ---- What the sessions ask for ----

LinkId StreamTransport::open_link(const std::string& address) {
  StreamLink socket(connect_stream(address));
  const LinkId link = next_link();
  links_.emplace(link, Link{std::move(socket)});
  return link;
}

void StreamTransport::carry(LinkId id, std::string bytes, bool) {
  Link& link = links_.at(id);
  for (size_t at = 0; at < bytes.size(); at += kMostPiece) {
    const auto piece = std::string_view(bytes).substr(at, kMostPiece);
    link.socket.send(piece_start(kWords, piece.size()).append(piece));
  }
  if (!link.socket.flush()) link.failed = true;
}

bool StreamTransport::transmit(LinkId id, PushOrder& order, WriterNumber, std::string& why) {
  if (!order.sealed) {
    why = "transfer: only the shm transfer reaches the device's memory";
    return false;
  }
  Link& link = links_.at(id);
  std::string head = piece_start(kSlab, order.sealed->header.size()) + order.sealed->header;
  if (config_.midway) config_.midway();
  link.socket.send(std::move(head), std::move(order.sealed->bytes), static_cast<size_t>(order.bytes));
  if (!link.socket.flush()) link.failed = true;
  return true;
}

// ---- What comes ----

OpenedNotice StreamTransport::opened(LinkId link, std::string_view header) const {
  const auto keys = keys_of(link);
  if (!keys) throw Error("transfer peer: sent a slab before it had proved what it is");
  return open_notice(header, keys);
}

bool StreamTransport::begin_slab(LinkId link, const OpenedNotice& slab) {
  const SlabNotice& notice = slab.notice;
  const SlotWords& words = arena_view_.words;
  if (notice.slot >= words.size() || notice.bytes > arena_view_.slot_bytes ||
      !words.begin_write(notice.slot, notice.generation, writer_here(link))) {
    refuse(link, notice, why_not(WriteResult::kRefused));
    return false;
  }
  if (config_.midway) config_.midway();
  return true;
}

void StreamTransport::end_slab(LinkId link, const OpenedNotice& slab, const std::string& failure) {
  const SlabNotice& notice = slab.notice;
  const WriterNumber writer = writer_here(link);
  const SlotWords& words = arena_view_.words;
  if (!failure.empty()) {
    words.abandon_write(notice.slot, notice.generation, writer);
    return refuse(link, notice, failure);
  }
  if (words.finish_write(notice.slot, notice.generation, writer)) return landed(link, notice, slab.seal);
  refuse(link, notice, why_not(WriteResult::kUnwanted));
}

void StreamTransport::take_header(LinkId id, Link& link, std::string_view header) {
  Arriving arriving{.slab = opened(id, header)};
  arriving.left = arriving.slab.notice.bytes;
  if (begin_slab(id, arriving.slab)) arriving.to = arena_view_.slot(arriving.slab.notice.slot);
  link.arriving = std::move(arriving);
  take_slab(id, link, 0);
}

void StreamTransport::take_slab(LinkId id, Link& link, size_t bytes) {
  Arriving& arriving = *link.arriving;
  if (arriving.to) arriving.to += bytes;
  arriving.left -= static_cast<int64_t>(bytes);
  if (arriving.left > 0) return;
  const Arriving done = *std::exchange(link.arriving, std::nullopt);
  if (done.to) end_slab(id, done.slab);
}

// One piece, or what there is of a slab; false: more must come first.
bool StreamTransport::take_piece(LinkId id, Link& link, std::string_view& rest) {
  if (link.arriving) {
    const size_t some = std::min(rest.size(), static_cast<size_t>(link.arriving->left));
    if (some == 0) return false;
    if (link.arriving->to) std::memcpy(link.arriving->to, rest.data(), some);
    rest.remove_prefix(some);
    take_slab(id, link, some);
    return true;
  }
  if (rest.size() < kPieceStart) return false;
  uint32_t size = 0;
  std::memcpy(&size, rest.data() + 1, sizeof size);
  const auto kind = static_cast<uint8_t>(rest[0]);
  if (size > kMostPiece || kind > kSlab) throw Error("transfer peer: does not keep to the protocol");
  if (rest.size() < kPieceStart + size) return false;
  const std::string_view piece = rest.substr(kPieceStart, size);
  rest.remove_prefix(kPieceStart + size);
  kind == kSlab ? take_header(id, link, piece) : heard(id, piece);
  return true;
}

void StreamTransport::take(LinkId id, Link& link) {
  std::string_view rest = link.heard;
  while (!link.failed && take_piece(id, link, rest)) {
  }
  link.heard.erase(0, link.heard.size() - rest.size());
}

void StreamTransport::serve(LinkId id, Link& link) {
  if (!link.socket.flush()) link.failed = true;
  for (size_t taken = 0; !link.failed && taken < kMostAtOnce;) {
    // Straight into its slot, once a slab is on its way.
    const bool straight = link.arriving && link.arriving->to && link.heard.empty();
    std::span<std::byte> into = buffer_;
    if (straight) into = {link.arriving->to, static_cast<size_t>(link.arriving->left)};
    size_t got = 0;
    const StreamLink::Status status = link.socket.receive(into, got);
    if (status == StreamLink::Status::kNothing) return;
    if (status == StreamLink::Status::kEnd) {
      link.failed = true;
      return;
    }
    taken += got;
    try {
      if (straight) {
        take_slab(id, link, got);
      } else {
        link.heard.append(reinterpret_cast<const char*>(into.data()), got);
        take(id, link);
      }
    } catch (const Error& error) {
      fail_link(id, error.what());
    }
  }
}

void StreamTransport::accept_one() {
  UniqueFd fd = listener_.accept();
  if (!fd) return;
  const LinkId link = next_link();
  links_.emplace(link, Link{StreamLink(std::move(fd))});
  accepted(link);
}

void StreamTransport::close_failed() {
  std::vector<LinkId> gone;
  for (auto& [id, link] : links_) {
    if (!link.failed) continue;
    if (!std::exchange(link.closing, true)) begin_close(id);
    if (may_close(id)) gone.push_back(id);
  }
  for (const LinkId id : gone) {
    Link link = std::move(links_.extract(id).mapped());
    static_cast<void>(link.socket.flush());  // its last words
    if (link.arriving && link.arriving->to) {
      const SlabNotice& notice = link.arriving->slab.notice;
      arena_view_.words.abandon_write(notice.slot, notice.generation, writer_here(id));
    }
    closed(id, link.why);
  }
}

// ---- The inner thread ----

void StreamTransport::wait(bool busy) {
  waits_ = {{wake_.get(), POLLIN, 0}, {listener_.fd(), POLLIN, 0}};
  waiting_for_.clear();
  bool closing = false;
  for (const auto& [id, link] : links_) {
    closing |= link.failed;
    if (link.failed) continue;
    waits_.push_back(
        {link.socket.fd(), static_cast<short>(link.socket.wants_to_write() ? POLLIN | POLLOUT : POLLIN), 0});
    waiting_for_.push_back(id);
  }
  const int more = busy ? -2 : more_to_wait_for();
  if (more >= 0) waits_.push_back({more, POLLIN, 0});
  ::poll(waits_.data(), waits_.size(), more == -2 ? 0 : closing ? 1 : 1000);
}

void StreamTransport::loop() {
  std::vector<TransportOrder> taken;
  bool busy = false;
  while (!orders_.closed()) {
    wait(busy);
    if (waits_[0].revents) {
      uint64_t count;
      [[maybe_unused]] const ssize_t read = ::read(wake_.get(), &count, sizeof count);
    }
    if (waits_[1].revents) accept_one();
    for (size_t i = 0; i < waiting_for_.size(); ++i)
      if (waits_[i + 2].revents) serve(waiting_for_[i], links_.at(waiting_for_[i]));
    orders_.take_all(taken);
    for (TransportOrder& order : taken) {
      if (orders_.closed()) break;
      obey(order);
    }
    busy = progress();
    give_up_on_silent_peers(std::chrono::steady_clock::now());
    close_failed();
  }
}

namespace {

class TcpTransport final : public StreamTransport {
 public:
  TcpTransport(const TransferConfig& config, EventSink& sink) : StreamTransport(config, sink) { start(); }
  ~TcpTransport() override { stop(); }
};

}  // namespace

std::unique_ptr<Transport> make_tcp_transport(const TransferConfig& config, EventSink& sink) {
  return std::make_unique<TcpTransport>(config, sink);
}

}  // namespace cheetah::cluster::transfer
