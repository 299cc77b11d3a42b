// SPDX-License-Identifier: MIT
// Processes of one machine: a sender writes straight into the receiver's arena, which it has mapped; a socket
// carries the small messages and, by ending, tells that the process at its other end is gone. The system
// closes a dead process's sockets only after its memory, so when the end has been read nothing of it can
// land.
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "cluster/transfer/session_transport.h"
#include "cluster/transfer/unix_socket.h"

namespace cheetah::cluster::transfer {
namespace {

class SharedMemoryTransport final : public SessionTransport {
 public:
  SharedMemoryTransport(const TransferConfig& config, EventSink& sink)
      : SessionTransport(config, sink),
        arena_(config.num_slots, config.slot_bytes, config.arena),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!wake_) throw_system_error("eventfd");
    thread_ = std::thread([this] { loop(); });
  }
  ~SharedMemoryTransport() override {
    stop_work_beside();
    orders_.close();
    wake_up();
    thread_.join();
  }

  std::string address() const override { return listener_.name(); }
  ArenaView arena() const override { return arena_.view(); }
  void post(TransportOrder order) override {
    orders_.post(std::move(order));
    wake_up();
  }

 private:
  struct Link {
    UnixLink socket;
    UniqueFd attached;  // that came with the last message
    std::unique_ptr<SharedArena> theirs;
  };

  void wake_up() const {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);  // full: awake already
  }

  LinkId open_link(const std::string& address) override {
    UnixLink socket(connect_unix(address));
    const LinkId link = next_link();
    links_.emplace(link, Link{std::move(socket), {}, nullptr});
    return link;
  }
  void carry(LinkId link, std::string bytes, bool with_arena) override {
    UnixLink& socket = links_.at(link).socket;
    for (size_t at = 0; at < bytes.size(); at += kMaxControlBytes)
      socket.send(bytes.substr(at, kMaxControlBytes), with_arena && at == 0 ? arena_.fd() : -1);
  }
  void close_link(LinkId link) override { links_.at(link).socket.shut_down(); }
  AgentWelcome own_arena(LinkId link) override {
    AgentWelcome welcome = SessionTransport::own_arena(link);
    welcome.device_handle = arena_.device_handle();
    return welcome;
  }
  void learn_arena(LinkId link, const AgentWelcome& theirs) override {
    Link& mine = links_.at(link);
    mine.theirs = std::make_unique<SharedArena>(std::move(mine.attached), theirs);
  }
  bool transmit(LinkId link, PushOrder& order, WriterNumber writer, std::string& why) override {
    try {
      const Written written = write_slab(order, links_.at(link).theirs->view(), writer, config_.midway);
      if (written.result == WriteResult::kLanded) {
        say(link, SlabNotice{order.id, order.slot.slot, order.slot.generation, order.bytes, written.checksum,
                      order.notify});
        return true;
      }
      if (written.result != WriteResult::kRefused)
        say(link, WriteEnded{order.slot.slot, order.slot.generation});
      why = why_not(written.result);
    } catch (const Error& error) {  // of the device
      why = error.what();
    }
    return false;
  }

  void loop() {
    std::vector<pollfd> waits;
    std::vector<LinkId> order;
    std::vector<TransportOrder> taken;
    while (!orders_.closed()) {
      waits = {{wake_.get(), POLLIN, 0}, {listener_.fd(), POLLIN, 0}};
      order.clear();
      for (const auto& [link, state] : links_) {
        const short events = state.socket.wants_to_write() ? POLLIN | POLLOUT : POLLIN;
        waits.push_back({state.socket.fd(), events, 0});
        order.push_back(link);
      }
      ::poll(waits.data(), waits.size(), 1000);
      if (waits[0].revents) {
        uint64_t count;
        [[maybe_unused]] const ssize_t read = ::read(wake_.get(), &count, sizeof count);
      }
      if (waits[1].revents) accept_one();
      for (size_t i = 0; i < order.size(); ++i)
        if (waits[i + 2].revents) serve(order[i]);
      orders_.take_all(taken);
      for (TransportOrder& command : taken) {
        if (orders_.closed()) break;
        obey(command);
      }
      give_up_on_silent_peers(std::chrono::steady_clock::now());
    }
  }
  void accept_one() {
    UniqueFd fd = listener_.accept();
    if (!fd) return;
    const LinkId link = next_link();
    links_.emplace(link, Link{UnixLink(std::move(fd)), {}, nullptr});
    accepted(link);
  }
  void serve(LinkId link) {
    Link& mine = links_.at(link);
    mine.socket.flush();
    UnixLink::Received received;
    for (;;) {
      const UnixLink::Status status = mine.socket.receive(received);
      if (status == UnixLink::Status::kNothing) return;
      if (status == UnixLink::Status::kEnd) break;
      mine.attached = std::move(received.attached);
      heard(link, received.bytes);
    }
    links_.erase(link);
    closed(link, "transfer peer: closed the connection or died");
  }

  SharedArena arena_;
  UnixListener listener_;
  UniqueFd wake_;
  Mailbox<TransportOrder> orders_;
  std::map<LinkId, Link> links_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Transport> make_shared_memory_transport(const TransferConfig& config, EventSink& sink) {
  return std::make_unique<SharedMemoryTransport>(config, sink);
}

}  // namespace cheetah::cluster::transfer
