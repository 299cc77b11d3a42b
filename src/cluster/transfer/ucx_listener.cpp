#include "cluster/transfer/ucx_listener.h"

#include <netinet/in.h>
#include <ucs/async/async_fwd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/format.h"

namespace cheetah::cluster::transfer {
namespace {

std::span<const std::byte> ip_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET6)
    return std::as_bytes(std::span(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, 1));
  return std::as_bytes(std::span(&reinterpret_cast<const sockaddr_in&>(address).sin_addr, 1));
}

// Whether a socket of this address is `bound`'s, or was accepted by it.
bool came_by(const sockaddr_storage& address, const sockaddr_storage& bound) {
  if (address.ss_family != bound.ss_family || port_of(address) != port_of(bound)) return false;
  const auto ip = ip_of(bound);
  const bool any = std::all_of(ip.begin(), ip.end(), [](std::byte byte) { return byte == std::byte{0}; });
  return any || std::ranges::equal(ip, ip_of(address));
}

bool is_listening(int fd) {
  int listening = 0;
  socklen_t size = sizeof(listening);
  return ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening;
}

std::vector<int> sockets_of(const sockaddr_storage& bound) {
  std::vector<int> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const std::string name = entry.path().filename().string();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 && came_by(address, bound))
      found.push_back(fd);
  }
  return found;
}

// Returns when the thread is in none of their handlers and will enter none.
void take_from_ucx_thread(const std::vector<int>& sockets, bool listening) {
  for (const int fd : sockets)
    if (is_listening(fd) == listening) ucs_async_remove_handler(fd, 1);
}

}  // namespace

UcxAcceptor::UcxAcceptor(ucp_worker_h worker, const std::string& host, uint16_t port,
                         ucp_listener_conn_callback_t on_connection, void* context) {
  const SocketAddress wanted(host, port);
  ucp_listener_params_t params{};
  params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  params.sockaddr = wanted.raw();
  params.conn_handler = {on_connection, context};
  check_ucx(format("listening on {}:{}", host, port).c_str(),
            ucp_listener_create(worker, &params, &listener_));
  ucp_listener_attr_t attributes{};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  const ucs_status_t asked = ucp_listener_query(listener_, &attributes);
  if (asked != UCS_OK) ucp_listener_destroy(std::exchange(listener_, nullptr));
  check_ucx("ucp_listener_query", asked);
  bound_ = attributes.sockaddr;
  address_ = format("{}:{}", host, port_of(bound_));
}

// UCX 1.13 gives every connection it accepts a pointer to the listener, and its own thread follows it when
// the peer's first bytes come, even after the listener was destroyed. So these sockets are taken from that
// thread: first the one that makes more of them.
void UcxAcceptor::close() {
  if (!listener_) return;
  take_from_ucx_thread(sockets_of(bound_), true);
  take_from_ucx_thread(sockets_of(bound_), false);
  ucp_listener_destroy(std::exchange(listener_, nullptr));
}

}  // namespace cheetah::cluster::transfer
