#pragma once
// Where a worker takes connections, and how it stops to.
#include "cluster/transfer/ucx_worker.h"

namespace cheetah::cluster::transfer {

class UcxAcceptor {
 public:
  // `on_connection` is called with `context` in ucp_worker_progress(). Throws Error.
  UcxAcceptor(ucp_worker_h worker, const std::string& host, uint16_t port,
              ucp_listener_conn_callback_t on_connection, void* context);
  ~UcxAcceptor() { close(); }
  UcxAcceptor(const UcxAcceptor&) = delete;
  UcxAcceptor& operator=(const UcxAcceptor&) = delete;

  const std::string& address() const { return address_; }
  void reject(ucp_conn_request_h request) { ucp_listener_reject(listener_, request); }
  // The worker must go next: no connection that came this way tells of its end any more.
  void close();

 private:
  ucp_listener_h listener_ = nullptr;
  sockaddr_storage bound_{};
  std::string address_;
};

}  // namespace cheetah::cluster::transfer
