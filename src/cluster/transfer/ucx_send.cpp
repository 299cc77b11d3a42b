// What the sessions ask of UCX: links, messages and slabs on their way out.
#include <cstring>

#include "base/error.h"
#include "base/format.h"
#include "cluster/transfer/ucx_transport.h"

namespace cheetah::cluster::transfer {
namespace {

// Below this a slab goes along with its header; above, the receiver fetches it.
constexpr int64_t kRendezvousBytes = 64 << 10;

}  // namespace

LinkId UcxTransport::add_endpoint(ucp_ep_params_t& params) {
  params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {on_error, this};
  ucp_ep_h endpoint = nullptr;
  check_ucx("ucp_ep_create", ucp_ep_create(worker_.get(), &params, &endpoint));
  const LinkId link = next_link();
  links_[link].endpoint = endpoint;
  by_endpoint_[endpoint] = link;
  return link;
}

LinkId UcxTransport::open_link(const std::string& address) {
  const SocketAddress to = SocketAddress::parse(address);
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
  params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  params.sockaddr = to.raw();
  return add_endpoint(params);
}

bool UcxTransport::send(ucp_ep_h endpoint, unsigned id, std::unique_ptr<Sending> sending,
                        std::span<const std::byte> data, uint32_t flags, std::string& why) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.cb.send = on_sent;
  param.user_data = sending.get();
  param.flags = flags | UCP_AM_SEND_FLAG_REPLY;
  const ucs_status_ptr_t request = ucp_am_send_nbx(endpoint, id, sending->header.data(),
                                                   sending->header.size(), data.data(), data.size(), &param);
  if (UCS_PTR_IS_ERR(request)) {
    why = format("transfer: {}", ucs_status_string(UCS_PTR_STATUS(request)));
    return false;
  }
  if (UCS_PTR_IS_PTR(request)) sending.release();  // on_sent owns it now
  return true;
}

void UcxTransport::on_sent(void* request, ucs_status_t, void* sending) {
  delete static_cast<Sending*>(sending);  // whether it went out is for the peer's answer to say
  ucp_request_free(request);
}

void UcxTransport::say(LinkId link, const AgentMessage& message) {
  Link& mine = links_.at(link);
  if (mine.failed) return;
  auto sending = std::make_unique<Sending>();
  const std::string bytes = encode(message);
  sending->bytes = std::make_unique_for_overwrite<std::byte[]>(bytes.size());
  std::memcpy(sending->bytes.get(), bytes.data(), bytes.size());
  const std::span<const std::byte> data(sending->bytes.get(), bytes.size());
  std::string why;
  if (send(mine.endpoint, kControl, std::move(sending), data, UCP_AM_SEND_FLAG_EAGER, why)) return;
  mine.failed = true;
  mine.why = why;
}

// A large slab is gathered and summed first, so that this takes nothing from the thread that moves bytes.
void UcxTransport::post(TransportOrder order) {
  auto* push = std::get_if<PushOrder>(&order);
  const bool large = push && push->kind == MemoryKind::kHost && push->bytes >= kSummedBeside;
  if (large && !push->summed && !push->cancelled->load(std::memory_order_relaxed))
    return sum_up_beside(std::move(*push));
  orders_.post(std::move(order));
  ucp_worker_signal(worker_.get());
}

bool UcxTransport::transmit(LinkId link, PushOrder& order, WriterNumber, std::string& why) {
  if (order.kind != MemoryKind::kHost) {
    why = "transfer: this UCX does not reach the device's memory";
    return false;
  }
  Link& mine = links_.at(link);
  if (mine.failed) {
    why = mine.why;
    return false;
  }
  auto sending = std::make_unique<Sending>();
  SummedSlab slab = order.summed ? *std::move(order.summed) : sum_up(order);
  sending->bytes = std::move(slab.gathered);
  const std::byte* from = sending->bytes ? sending->bytes.get() : order.pieces.front().data();
  const std::span data(from, static_cast<size_t>(order.bytes));
  const SlabNotice notice{order.id,    order.slot.slot, order.slot.generation,
                          order.bytes, slab.checksum,   order.notify};
  sending->header = encode(AgentMessage(notice));
  const uint32_t flags = order.bytes >= kRendezvousBytes ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
  const bool sent = send(mine.endpoint, kSlab, std::move(sending), data, flags, why);
  if (config_.midway) config_.midway();
  return sent;
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

}  // namespace cheetah::cluster::transfer
