// Processes of one or many machines through UCX. A slab is one active message: its header is the notice, and
// its data come by rendezvous, fetched by the receiver into the slot when it has won the slot's word. So a
// sender never writes into memory of ours by itself, and a link is free of writes when its last receive has
// ended.
#include <poll.h>

#include <array>

#include "base/error.h"
#include "base/format.h"
#include "cluster/transfer/checksum.h"
#include "cluster/transfer/heap_arena.h"
#include "cluster/transfer/session_transport.h"
#include "cluster/transfer/ucx_worker.h"

namespace cheetah::cluster::transfer {
namespace {

enum AmId : unsigned { kControl = 1, kSlab = 2 };

// Below this a slab goes along with its header; above, the receiver fetches it.
constexpr int64_t kRendezvousBytes = 64 << 10;
constexpr Duration kLeaveLimit = std::chrono::milliseconds(500);

class UcxTransport final : public SessionTransport {
 public:
  UcxTransport(const TransferConfig& config, EventSink& sink);
  ~UcxTransport() override;

  std::string address() const override { return address_; }
  ArenaView arena() const override { return arena_view_; }
  void post(TransportOrder order) override {
    orders_.post(std::move(order));
    ucp_worker_signal(worker_.get());
  }

 private:
  struct Link {
    ucp_ep_h endpoint = nullptr;
    int64_t receiving = 0;    // slabs on their way into our slots
    bool failed = false;      // UCX has told us, or we want to close it
    void* closing = nullptr;  // UCX's request while it closes
    bool closed = false;
    std::string why = "transfer peer: closed the connection or died";
  };
  // One message on its way out: UCX reads from it until its callback.
  struct Sending {
    std::string header;
    std::vector<std::byte> bytes;  // gathered, or a control message
  };
  struct Receiving {
    UcxTransport* self;
    LinkId link;
    SlabNotice notice;
  };

  LinkId open_link(const std::string& address) override;
  void say(LinkId link, const AgentMessage& message) override;
  void close_link(LinkId link) override { links_.at(link).failed = true; }
  void learn_arena(LinkId, const AgentWelcome&) override {}
  bool transmit(LinkId link, const PushOrder& order, WriterNumber writer, std::string& why) override;
  void remember_memory(const RegisterOrder& order) override;
  void forget_memory(MemoryHandle handle) override;

  void listen();
  void set_handler(unsigned id, ucp_am_recv_callback_t callback);
  LinkId add_endpoint(ucp_ep_params_t& params);
  bool send(ucp_ep_h endpoint, unsigned id, std::unique_ptr<Sending> sending, std::span<const std::byte> data,
            uint32_t flags, std::string& why);
  void loop();
  bool turn();
  bool handle_heard();
  void accept_waiting();
  void close_failed();
  void sleep();
  void leave();
  void slab_comes(LinkId link, std::string_view header, void* data, size_t bytes, bool rendezvous);
  void slab_received(const Receiving& receiving, ucs_status_t status);

  static void on_connection(ucp_conn_request_h request, void* self);
  static void on_error(void* self, ucp_ep_h endpoint, ucs_status_t status);
  static void on_sent(void* request, ucs_status_t status, void* sending);
  static void on_received(void* request, ucs_status_t status, size_t bytes, void* receiving);
  static ucs_status_t on_control(void* self, const void* header, size_t header_bytes, void* data,
                                 size_t bytes, const ucp_am_recv_param_t* param);
  static ucs_status_t on_slab(void* self, const void* header, size_t header_bytes, void* data, size_t bytes,
                              const ucp_am_recv_param_t* param);
  std::optional<LinkId> link_of(const ucp_am_recv_param_t* param) const;

  HeapArena arena_;
  ArenaView arena_view_;
  UcxContext context_;
  UcxWorker worker_;
  UcxListener listener_;
  std::string address_;
  int event_fd_ = -1;
  Mailbox<TransportOrder> orders_;
  std::vector<TransportOrder> taken_;
  std::vector<ucp_conn_request_h> waiting_;
  std::map<LinkId, Link> links_;
  std::map<ucp_ep_h, LinkId> by_endpoint_;
  std::map<MemoryHandle, ucp_mem_h> memory_;
  std::deque<std::pair<LinkId, std::string>> heard_;  // control messages, handled outside UCX's callbacks
  std::thread thread_;
};

UcxTransport::UcxTransport(const TransferConfig& config, EventSink& sink)
    : SessionTransport(config, sink),
      arena_(config.num_slots, config.slot_bytes),
      arena_view_(arena_.view()),
      context_(make_ucx_context(config.ucx_transports)),
      worker_(make_ucx_worker(context_.get())) {
  set_handler(kControl, on_control);
  set_handler(kSlab, on_slab);
  check_ucx("ucp_worker_get_efd", ucp_worker_get_efd(worker_.get(), &event_fd_));
  listen();
  thread_ = std::thread([this] { loop(); });
}

UcxTransport::~UcxTransport() {
  stop_checking();
  orders_.close();
  ucp_worker_signal(worker_.get());
  thread_.join();
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

void UcxTransport::listen() {
  const SocketAddress wanted(config_.host, config_.port);
  ucp_listener_params_t params{};
  params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  params.sockaddr = wanted.raw();
  params.conn_handler = {on_connection, this};
  ucp_listener_h listener = nullptr;
  check_ucx(format("listening on {}:{}", config_.host, config_.port).c_str(),
            ucp_listener_create(worker_.get(), &params, &listener));
  listener_.reset(listener);
  ucp_listener_attr_t attributes{};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  check_ucx("ucp_listener_query", ucp_listener_query(listener, &attributes));
  address_ = SocketAddress::text_of(config_.host, attributes.sockaddr);
}

// ---- UCX's callbacks: they note what happened, the loop does the rest ----

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

void UcxTransport::on_sent(void* request, ucs_status_t, void* sending) {
  delete static_cast<Sending*>(sending);  // whether it went out is for the peer's answer to say
  ucp_request_free(request);
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
  if (!link) return UCS_OK;  // dropped: nobody waits for an answer from a link that is gone
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

// ---- What the sessions ask for ----

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

void UcxTransport::say(LinkId link, const AgentMessage& message) {
  Link& mine = links_.at(link);
  if (mine.failed) return;
  auto sending = std::make_unique<Sending>();
  const std::string bytes = encode(message);
  sending->bytes.resize(bytes.size());
  std::memcpy(sending->bytes.data(), bytes.data(), bytes.size());
  const std::span<const std::byte> data = sending->bytes;
  std::string why;
  if (send(mine.endpoint, kControl, std::move(sending), data, UCP_AM_SEND_FLAG_EAGER, why)) return;
  mine.failed = true;
  mine.why = why;
}

bool UcxTransport::transmit(LinkId link, const PushOrder& order, WriterNumber, std::string& why) {
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
  std::span<const std::byte> data;
  if (order.pieces.size() == 1) {
    data = order.pieces.front();
  } else {
    sending->bytes.reserve(static_cast<size_t>(order.bytes));
    for (const auto& piece : order.pieces)
      sending->bytes.insert(sending->bytes.end(), piece.begin(), piece.end());
    data = sending->bytes;
  }
  const SlabNotice notice{order.id,    order.slot.slot, order.slot.generation,
                          order.bytes, checksum(data),  order.notify};
  sending->header = encode(AgentMessage(notice));
  const uint32_t flags = order.bytes >= kRendezvousBytes ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
  return send(mine.endpoint, kSlab, std::move(sending), data, flags, why);
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

// ---- The inner thread ----

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

void UcxTransport::close_failed() {
  std::vector<std::pair<LinkId, std::string>> gone;
  for (auto& [id, link] : links_) {
    if (link.failed && !link.closing && !link.closed) {
      ucp_request_param_t param{};
      param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
      param.flags = UCP_EP_CLOSE_FLAG_FORCE;
      const ucs_status_ptr_t request = ucp_ep_close_nbx(link.endpoint, &param);
      if (UCS_PTR_IS_PTR(request))
        link.closing = request;
      else
        link.closed = true;
    }
    if (link.closing && ucp_request_check_status(link.closing) != UCS_INPROGRESS) {
      ucp_request_free(std::exchange(link.closing, nullptr));
      link.closed = true;
    }
    if (link.closed && link.receiving == 0) gone.emplace_back(id, link.why);
  }
  for (const auto& [id, why] : gone) {
    by_endpoint_.erase(links_.at(id).endpoint);
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

// Tells the peers by closing. What UCX does not finish in time ends with the worker.
void UcxTransport::leave() {
  for (const ucp_conn_request_h request : waiting_) ucp_listener_reject(listener_.get(), request);
  listener_.reset();
  for (auto& [id, link] : links_) link.failed = true;
  const Time limit = std::chrono::steady_clock::now() + kLeaveLimit;
  while (!links_.empty() && std::chrono::steady_clock::now() < limit) {
    ucp_worker_progress(worker_.get());
    close_failed();
  }
  for (const auto& [handle, mapped] : memory_) ucp_mem_unmap(context_.get(), mapped);
}

}  // namespace

std::unique_ptr<Transport> make_ucx_transport(const TransferConfig& config, EventSink& sink) {
  return std::make_unique<UcxTransport>(config, sink);
}

}  // namespace cheetah::cluster::transfer

namespace cheetah::cluster {

std::string why_unavailable(TransferBackend) { return {}; }

}  // namespace cheetah::cluster
