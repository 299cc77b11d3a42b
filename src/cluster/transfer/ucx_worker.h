#pragma once
// UCX's objects with their lifetimes, and its status codes as Errors.
#include <sys/socket.h>
#include <ucp/api/ucp.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

namespace cheetah::cluster::transfer {

// Throws Error: "transfer: ucp_ep_create: Destination is unreachable".
void check_ucx(const char* call, ucs_status_t status);

template <auto Destroy>
struct UcxDestroy {
  template <class T>
  void operator()(T* object) const {
    Destroy(object);
  }
};
using UcxContext = std::unique_ptr<ucp_context, UcxDestroy<ucp_cleanup>>;
using UcxWorker = std::unique_ptr<ucp_worker, UcxDestroy<ucp_worker_destroy>>;

// `transports` as in UCX_TLS; empty: what UCX finds, best first.
UcxContext make_ucx_context(const std::string& transports);
UcxWorker make_ucx_worker(ucp_context_h context);

// Where a worker listens or connects to: "127.0.0.1:4711".
class SocketAddress {
 public:
  SocketAddress(const std::string& host, uint16_t port);  // throws Error
  static SocketAddress parse(const std::string& text);    // throws Error
  ucs_sock_addr_t raw() const { return {reinterpret_cast<const sockaddr*>(&storage_), size_}; }

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

uint16_t port_of(const sockaddr_storage& address);

}  // namespace cheetah::cluster::transfer
