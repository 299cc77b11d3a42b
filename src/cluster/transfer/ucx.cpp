// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/format.h"
#include "cluster/transfer/ucx_transport.h"

namespace cheetah::cluster::transfer {
namespace {

constexpr unsigned kSlabMessage = 1;
// Below this a slab goes along with its header; above, the receiver fetches it.
constexpr int64_t kRendezvousBytes = 64 << 10;
constexpr Duration kLeaveLimit = std::chrono::milliseconds(500);

}  // namespace

UcxTransport::UcxTransport(const TransferConfig& config, EventSink& sink)
    : StreamTransport(config, sink),
      context_(make_ucx_context(config.ucx_transports, config.host)),
      worker_(make_ucx_worker(context_.get())) {
  ucp_am_handler_param_t param{};
  param.field_mask =
      UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  param.id = kSlabMessage;
  param.cb = on_slab;
  param.arg = this;
  check_ucx("ucp_worker_set_am_recv_handler", ucp_worker_set_am_recv_handler(worker_.get(), &param));
  check_ucx("ucp_worker_get_efd", ucp_worker_get_efd(worker_.get(), &event_fd_));
  start();
}

// Peers hear of the end by their sessions. What UCX does not finish in time ends with the worker.
UcxTransport::~UcxTransport() {
  stop();
  std::vector<LinkId> open;
  for (const auto& [link, channel] : channels_) open.push_back(link);
  for (const LinkId link : open) begin_close(link);
  const Time limit = std::chrono::steady_clock::now() + kLeaveLimit;
  while (std::chrono::steady_clock::now() < limit &&
         !std::ranges::all_of(open, [&](LinkId l) { return may_close(l); }))
    ucp_worker_progress(worker_.get());
  for (auto& [link, channel] : channels_)
    if (channel.closing) ucp_request_free(std::exchange(channel.closing, nullptr));
  worker_.reset();  // calls back for whatever has not ended
  for (const auto& [handle, mapped] : memory_) ucp_mem_unmap(context_.get(), mapped);
}

// ---- Links ----

AgentWelcome UcxTransport::own_arena(LinkId link) {
  AgentWelcome welcome = StreamTransport::own_arena(link);
  welcome.address = address_of(worker_.get());
  welcome.token = channels_[link].token_here = random_number();
  by_token_[welcome.token] = link;
  return welcome;
}

void UcxTransport::learn_arena(LinkId link, const AgentWelcome& theirs) {
  if (theirs.address.empty()) throw Error("transfer peer: has no UCX");
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
  params.address = reinterpret_cast<const ucp_address_t*>(theirs.address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {on_error, this};
  Channel& channel = channels_.at(link);
  check_ucx("ucp_ep_create", ucp_ep_create(worker_.get(), &params, &channel.endpoint));
  channel.token_there = theirs.token;
}

void UcxTransport::on_error(void* self, ucp_ep_h endpoint, ucs_status_t status) {
  auto* transport = static_cast<UcxTransport*>(self);
  for (const auto& [link, channel] : transport->channels_)
    if (channel.endpoint == endpoint)
      return transport->fail_link(link, format("transfer peer: {}", ucs_status_string(status)));
}

void UcxTransport::begin_close(LinkId link) {
  const auto at = channels_.find(link);
  if (at == channels_.end()) return;
  Channel& channel = at->second;
  by_token_.erase(channel.token_here);
  const ucp_ep_h endpoint = std::exchange(channel.endpoint, nullptr);
  if (endpoint == nullptr) return;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint, &param);
  if (UCS_PTR_IS_PTR(request)) channel.closing = request;
}

bool UcxTransport::may_close(LinkId link) {
  const auto at = channels_.find(link);
  if (at == channels_.end()) return true;
  Channel& channel = at->second;
  if (channel.closing && ucp_request_check_status(channel.closing) == UCS_INPROGRESS) return false;
  if (channel.closing) ucp_request_free(std::exchange(channel.closing, nullptr));
  if (channel.receiving > 0) return false;
  channels_.erase(at);
  return true;
}

int UcxTransport::more_to_wait_for() {
  return ucp_worker_arm(worker_.get()) == UCS_OK ? event_fd_ : -2;  // else something has come meanwhile
}

// ---- Slabs that go ----

bool UcxTransport::transmit(LinkId link, PushOrder& order, WriterNumber, std::string& why) {
  if (!order.sealed) {
    why = "transfer: this UCX does not reach the device's memory";
    return false;
  }
  const Channel& channel = channels_.at(link);
  if (channel.endpoint == nullptr) {
    why = "transfer: the peer is not connected";
    return false;
  }
  auto sealed = std::make_unique<SealedSlab>(*std::move(order.sealed));
  sealed->header.insert(0, reinterpret_cast<const char*>(&channel.token_there), sizeof channel.token_there);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.cb.send = on_sent;
  param.user_data = sealed.get();
  param.flags = order.bytes >= kRendezvousBytes ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
  const ucs_status_ptr_t request = ucp_am_send_nbx(channel.endpoint, kSlabMessage, sealed->header.data(),
      sealed->header.size(), sealed->bytes.get(), static_cast<size_t>(order.bytes), &param);
  if (config_.midway) config_.midway();
  if (UCS_PTR_IS_ERR(request)) {
    why = format("transfer: {}", ucs_status_string(UCS_PTR_STATUS(request)));
    return false;
  }
  if (UCS_PTR_IS_PTR(request)) sealed.release();  // on_sent owns it now
  return true;
}

void UcxTransport::on_sent(void* request, ucs_status_t, void* sealed) {
  delete static_cast<SealedSlab*>(sealed);  // whether it went out is for the peer's answer to say
  ucp_request_free(request);
}

void UcxTransport::remember_memory(const RegisterOrder& order) {
  if (order.kind != MemoryKind::kHost || order.region.empty()) return;
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  params.address = order.region.data();
  params.length = order.region.size();
  ucp_mem_h mapped = nullptr;
  if (ucp_mem_map(context_.get(), &params, &mapped) == UCS_OK)
    memory_[order.handle] = mapped;  // else: as without
}

void UcxTransport::forget_memory(MemoryHandle handle) {
  if (const auto node = memory_.extract(handle)) ucp_mem_unmap(context_.get(), node.mapped());
}

// ---- Slabs that come ----

ucs_status_t UcxTransport::on_slab(void* self, const void* header, size_t header_bytes, void* data,
    size_t bytes, const ucp_am_recv_param_t* param) {
  const bool rendezvous = param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV;
  static_cast<UcxTransport*>(self)->slab_comes(
      {static_cast<const char*>(header), header_bytes}, data, bytes, rendezvous);
  return UCS_OK;
}

// What does not name a link of ours, or was not sealed for it, is dropped: nobody has proved to have sent it.
void UcxTransport::slab_comes(std::string_view header, void* data, size_t bytes, bool rendezvous) {
  uint64_t token = 0;
  if (header.size() < sizeof token) return;
  std::memcpy(&token, header.data(), sizeof token);
  const auto link = by_token_.find(token);
  if (link == by_token_.end() || !established(link->second)) return;
  try {
    OpenedNotice slab = opened(link->second, header.substr(sizeof token));
    if (slab.notice.bytes != static_cast<int64_t>(bytes))
      throw Error("transfer peer: a slab has another size");
    if (begin_slab(link->second, slab)) receive(link->second, std::move(slab), data, rendezvous);
  } catch (const Error&) {
  }
}

void UcxTransport::receive(LinkId link, OpenedNotice slab, void* data, bool rendezvous) {
  auto receiving = std::make_unique<Receiving>(Receiving{this, link, std::move(slab)});
  const SlabNotice& notice = receiving->slab.notice;
  const auto bytes = static_cast<size_t>(notice.bytes);
  std::byte* to = arena().slot(notice.slot);
  ++channels_.at(link).receiving;
  if (!rendezvous) {
    if (bytes > 0) std::memcpy(to, data, bytes);
    return received(*receiving, UCS_OK);
  }
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.recv_am = on_received;
  param.user_data = receiving.get();
  const ucs_status_ptr_t request = ucp_am_recv_data_nbx(worker_.get(), data, to, bytes, &param);
  if (!UCS_PTR_IS_PTR(request)) return received(*receiving, UCS_PTR_RAW_STATUS(request));
  receiving.release();  // on_received owns it now
}

void UcxTransport::on_received(void* request, ucs_status_t status, size_t, void* receiving) {
  const std::unique_ptr<Receiving> mine(static_cast<Receiving*>(receiving));
  mine->self->received(*mine, status);
  ucp_request_free(request);
}

void UcxTransport::received(const Receiving& receiving, ucs_status_t status) {
  const auto at = channels_.find(receiving.link);
  CHEETAH_ASSERT(at != channels_.end(), "a link stays while it receives");
  --at->second.receiving;
  end_slab(receiving.link, receiving.slab,
      status == UCS_OK ? "" : format("transfer: {}", ucs_status_string(status)));
}

std::unique_ptr<Transport> make_ucx_transport(const TransferConfig& config, EventSink& sink) {
  return std::make_unique<UcxTransport>(config, sink);
}

}  // namespace cheetah::cluster::transfer

namespace cheetah::cluster {

std::string why_unavailable(TransferBackend) { return {}; }

}  // namespace cheetah::cluster
