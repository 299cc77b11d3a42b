// The transport's inner thread, from UCX's first object to its last.
#include "cluster/transfer/ucx_transport.h"

#include <poll.h>

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace cheetah::cluster::transfer {
namespace {

constexpr Duration kLeaveLimit = std::chrono::milliseconds(500);

}  // namespace

UcxTransport::UcxTransport(const TransferConfig& config, EventSink& sink)
    : SessionTransport(config, sink),
      arena_(config.num_slots, config.slot_bytes),
      arena_view_(arena_.view()),
      context_(make_ucx_context(config.ucx_transports)),
      worker_(make_ucx_worker(context_.get())) {
  set_handler(kControl, on_control);
  set_handler(kSlab, on_slab);
  check_ucx("ucp_worker_get_efd", ucp_worker_get_efd(worker_.get(), &event_fd_));
  acceptor_.emplace(worker_.get(), config.host, config.port, on_connection, this);
  thread_ = std::thread([this] { loop(); });
}

UcxTransport::~UcxTransport() {
  stop_work_beside();
  orders_.close();
  ucp_worker_signal(worker_.get());
  thread_.join();
  worker_.reset();  // calls back for whatever leave() did not see end
  for (const auto& [handle, mapped] : memory_) ucp_mem_unmap(context_.get(), mapped);
}

void UcxTransport::set_handler(unsigned id, ucp_am_recv_callback_t callback) {
  ucp_am_handler_param_t param{};
  param.field_mask =
      UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  param.id = id;
  param.cb = callback;
  param.arg = this;
  check_ucx("ucp_worker_set_am_recv_handler", ucp_worker_set_am_recv_handler(worker_.get(), &param));
}

void UcxTransport::accept_waiting() {
  for (const ucp_conn_request_h request : std::exchange(waiting_, {})) {
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
    params.conn_request = request;
    try {
      accepted(add_endpoint(params));
    } catch (const Error&) {  // whoever it was has gone again
    }
  }
}

void UcxTransport::reject_waiting() {
  for (const ucp_conn_request_h request : std::exchange(waiting_, {})) acceptor_->reject(request);
}

void UcxTransport::begin_close(LinkId id, Link& link) {
  const ucp_ep_h endpoint = std::exchange(link.endpoint, nullptr);
  if (const auto at = by_endpoint_.find(endpoint); at != by_endpoint_.end() && at->second == id)
    by_endpoint_.erase(at);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint, &param);
  if (UCS_PTR_IS_PTR(request))
    link.closing = request;
  else
    link.closed = true;
}

void UcxTransport::close_failed() {
  std::vector<std::pair<LinkId, std::string>> gone;
  for (auto& [id, link] : links_) {
    if (link.failed && link.endpoint) begin_close(id, link);
    if (link.closing && ucp_request_check_status(link.closing) != UCS_INPROGRESS) {
      ucp_request_free(std::exchange(link.closing, nullptr));
      link.closed = true;
    }
    if (link.closed && link.receiving == 0) gone.emplace_back(id, link.why);
  }
  for (const auto& [id, why] : gone) {
    links_.erase(id);
    closed(id, why);
  }
}

bool UcxTransport::handle_heard() {
  const bool any = !heard_.empty();
  while (!heard_.empty()) {
    const auto [link, bytes] = std::move(heard_.front());
    heard_.pop_front();
    heard(link, bytes);
  }
  return any;
}

bool UcxTransport::turn() {
  bool busy = ucp_worker_progress(worker_.get()) > 0;
  accept_waiting();
  busy |= handle_heard();
  orders_.take_all(taken_);
  for (TransportOrder& order : taken_) {
    if (orders_.closed()) break;
    obey(order);
    ucp_worker_progress(worker_.get());
    busy = true;
  }
  close_failed();
  return busy;
}

void UcxTransport::sleep() {
  const ucs_status_t armed = ucp_worker_arm(worker_.get());
  if (armed != UCS_OK) return;  // something has come meanwhile
  bool closing = false;
  for (const auto& [id, link] : links_) closing |= link.failed;
  pollfd wait{event_fd_, POLLIN, 0};
  ::poll(&wait, 1, closing ? 1 : 1000);
}

void UcxTransport::loop() {
  while (!orders_.closed()) {
    if (turn()) continue;
    give_up_on_silent_peers(std::chrono::steady_clock::now());
    sleep();
  }
  leave();
}

void UcxTransport::progress_while(auto&& wanted, Time limit) {
  while (wanted() && std::chrono::steady_clock::now() < limit) {
    ucp_worker_progress(worker_.get());
    reject_waiting();
    close_failed();
  }
}

// Tells the peers by closing, but not one that is still connecting: UCX 1.13 ends its process, by an
// assertion, if a connection it has just made breaks under its first packet. What UCX does not finish in time
// ends with the worker.
void UcxTransport::leave() {
  const Time limit = std::chrono::steady_clock::now() + kLeaveLimit;
  const auto connecting = [](const auto& link) { return !link.second.connected && !link.second.failed; };
  progress_while([&] { return std::ranges::any_of(links_, connecting); }, limit);
  for (auto& [id, link] : links_) link.failed = true;
  progress_while([&] { return !links_.empty(); }, limit);
  reject_waiting();
  acceptor_->close();
  for (auto& [id, link] : links_)
    if (link.closing) ucp_request_free(std::exchange(link.closing, nullptr));
}

std::unique_ptr<Transport> make_ucx_transport(const TransferConfig& config, EventSink& sink) {
  return std::make_unique<UcxTransport>(config, sink);
}

}  // namespace cheetah::cluster::transfer

namespace cheetah::cluster {

std::string why_unavailable(TransferBackend) { return {}; }

}  // namespace cheetah::cluster
