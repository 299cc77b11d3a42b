// UCX's callbacks: they note what happened, the loop does the rest. And what becomes of a slab that comes.
#include <cstring>

#include "base/error.h"
#include "base/format.h"
#include "cluster/transfer/ucx_transport.h"

namespace cheetah::cluster::transfer {

void UcxTransport::on_connection(ucp_conn_request_h request, void* self) {
  static_cast<UcxTransport*>(self)->waiting_.push_back(request);
}

void UcxTransport::on_error(void* self, ucp_ep_h endpoint, ucs_status_t status) {
  auto* transport = static_cast<UcxTransport*>(self);
  const auto at = transport->by_endpoint_.find(endpoint);
  if (at == transport->by_endpoint_.end()) return;
  Link& link = transport->links_.at(at->second);
  link.failed = true;
  link.why = format("transfer peer: {}", ucs_status_string(status));
}

std::optional<LinkId> UcxTransport::link_of(const ucp_am_recv_param_t* param) const {
  if (!(param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP)) return std::nullopt;
  const auto at = by_endpoint_.find(param->reply_ep);
  return at == by_endpoint_.end() ? std::nullopt : std::optional(at->second);
}

ucs_status_t UcxTransport::on_control(void* self, const void*, size_t, void* data, size_t bytes,
                                      const ucp_am_recv_param_t* param) {
  auto* transport = static_cast<UcxTransport*>(self);
  const auto link = transport->link_of(param);
  if (link) transport->links_.at(*link).connected = true;
  const bool here = !(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV);
  if (link && here && bytes <= kMaxControlBytes)
    transport->heard_.emplace_back(*link, std::string(static_cast<const char*>(data), bytes));
  else if (link)
    transport->links_.at(*link).failed = true;
  return UCS_OK;
}

ucs_status_t UcxTransport::on_slab(void* self, const void* header, size_t header_bytes, void* data,
                                   size_t bytes, const ucp_am_recv_param_t* param) {
  auto* transport = static_cast<UcxTransport*>(self);
  const auto link = transport->link_of(param);
  // Dropped: nobody waits for an answer from a link that is gone.
  if (!link || transport->links_.at(*link).failed) return UCS_OK;
  // The words that made it a peer may have come just before and not be handled yet.
  if (!transport->established(*link)) transport->handle_heard();
  if (!transport->established(*link)) {
    transport->fail_link(*link, "transfer peer: sent a slab before it had proved what it is");
    return UCS_OK;
  }
  const bool rendezvous = param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV;
  try {
    transport->slab_comes(*link, {static_cast<const char*>(header), header_bytes}, data, bytes, rendezvous);
  } catch (const Error& error) {
    transport->fail_link(*link, error.what());
  }
  return UCS_OK;
}

void UcxTransport::slab_comes(LinkId link, std::string_view header, void* data, size_t bytes,
                              bool rendezvous) {
  const AgentMessage message = parse_agent_message(header);
  const auto* notice = std::get_if<SlabNotice>(&message);
  if (!notice || notice->bytes != static_cast<int64_t>(bytes))
    throw Error("transfer peer: sent a slab without its notice");
  const WriterNumber writer = writer_here(link);
  const SlotWords& words = arena_view_.words;
  if (notice->slot >= words.size() || notice->bytes > arena_view_.slot_bytes ||
      !words.begin_write(notice->slot, notice->generation, writer))
    return refuse(link, *notice, why_not(WriteResult::kRefused));
  auto receiving = std::make_unique<Receiving>(Receiving{this, link, *notice});
  ++links_.at(link).receiving;
  if (config_.midway) config_.midway();
  std::byte* to = arena_view_.slot(notice->slot);
  if (!rendezvous) {
    if (bytes > 0) std::memcpy(to, data, bytes);
    return slab_received(*receiving, UCS_OK);
  }
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.recv_am = on_received;
  param.user_data = receiving.get();
  const ucs_status_ptr_t request = ucp_am_recv_data_nbx(worker_.get(), data, to, bytes, &param);
  if (!UCS_PTR_IS_PTR(request)) return slab_received(*receiving, UCS_PTR_RAW_STATUS(request));
  receiving.release();  // on_received owns it now
}

void UcxTransport::on_received(void* request, ucs_status_t status, size_t, void* receiving) {
  const std::unique_ptr<Receiving> mine(static_cast<Receiving*>(receiving));
  mine->self->slab_received(*mine, status);
  ucp_request_free(request);
}

void UcxTransport::slab_received(const Receiving& receiving, ucs_status_t status) {
  const SlabNotice& notice = receiving.notice;
  const auto at = links_.find(receiving.link);
  CHEETAH_ASSERT(at != links_.end(), "a link stays while it receives");
  --at->second.receiving;
  const WriterNumber writer = writer_here(receiving.link);
  if (status != UCS_OK) {
    arena_view_.words.abandon_write(notice.slot, notice.generation, writer);
    return refuse(receiving.link, notice, format("transfer: {}", ucs_status_string(status)));
  }
  if (arena_view_.words.finish_write(notice.slot, notice.generation, writer))
    return landed(receiving.link, notice);
  refuse(receiving.link, notice, why_not(WriteResult::kUnwanted));
}

}  // namespace cheetah::cluster::transfer
