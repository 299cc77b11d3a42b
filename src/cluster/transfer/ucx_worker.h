// SPDX-License-Identifier: MIT
#pragma once
// UCX's objects with their lifetimes, and its status codes as Errors.
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

// `transports` as in UCX_TLS; empty: what UCX finds, best first. Of the network interfaces UCX uses only that which
// has the address `host`, and those without addresses (shared memory, RDMA); all of them for "0.0.0.0" and "::".
UcxContext make_ucx_context(const std::string& transports, const std::string& host);
UcxWorker make_ucx_worker(ucp_context_h context);

std::string address_of(ucp_worker_h worker);

}  // namespace cheetah::cluster::transfer
