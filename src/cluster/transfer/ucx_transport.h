#pragma once
// Processes of one or many machines through UCX. A slab is one active message: its header is the notice, and
// its data come by rendezvous, fetched by the receiver into the slot when it has won the slot's word. So a
// sender never writes into memory of ours by itself, and a link is free of writes when its last receive has
// ended.
#include <memory>
#include <optional>
#include <utility>

#include "cluster/transfer/heap_arena.h"
#include "cluster/transfer/session_transport.h"
#include "cluster/transfer/ucx_listener.h"
#include "cluster/transfer/ucx_worker.h"

namespace cheetah::cluster::transfer {

// All of UCX happens on the inner thread, its callbacks too: in ucp_worker_progress(), in calls that send,
// and in ucp_worker_destroy(), which therefore comes before anything that the callbacks touch goes.
class UcxTransport final : public SessionTransport {
 public:
  UcxTransport(const TransferConfig& config, EventSink& sink);
  ~UcxTransport() override;

  std::string address() const override { return acceptor_->address(); }
  ArenaView arena() const override { return arena_view_; }
  void post(TransportOrder order) override;

 private:
  enum AmId : unsigned { kControl = 1, kSlab = 2 };
  struct Link {
    ucp_ep_h endpoint = nullptr;  // nullptr: closing, and nobody's any more
    int64_t receiving = 0;        // slabs on their way into our slots
    bool connected = false;       // the peer has been heard: UCX has no more to arrange
    bool failed = false;          // UCX has told us, or we want to close it
    void* closing = nullptr;      // UCX's request while it closes
    bool closed = false;
    std::string why = "transfer peer: closed the connection or died";
  };
  // One message on its way out: UCX reads from it until its callback.
  struct Sending {
    std::string header;
    std::unique_ptr<std::byte[]> bytes = nullptr;  // gathered, or a control message
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
  bool transmit(LinkId link, PushOrder& order, WriterNumber writer, std::string& why) override;
  void remember_memory(const RegisterOrder& order) override;
  void forget_memory(MemoryHandle handle) override;

  void set_handler(unsigned id, ucp_am_recv_callback_t callback);
  LinkId add_endpoint(ucp_ep_params_t& params);
  bool send(ucp_ep_h endpoint, unsigned id, std::unique_ptr<Sending> sending, std::span<const std::byte> data,
            uint32_t flags, std::string& why);
  void loop();
  bool turn();
  bool handle_heard();
  void accept_waiting();
  void reject_waiting();
  void begin_close(LinkId id, Link& link);
  void close_failed();
  void sleep();
  void progress_while(auto&& wanted, Time limit);
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
  std::optional<UcxAcceptor> acceptor_;
  int event_fd_ = -1;
  Mailbox<TransportOrder> orders_;
  std::vector<TransportOrder> taken_;
  std::vector<ucp_conn_request_h> waiting_;
  std::map<LinkId, Link> links_;
  std::map<ucp_ep_h, LinkId> by_endpoint_;  // open ones: UCX gives the address of a closed one to another
  std::map<MemoryHandle, ucp_mem_h> memory_;
  std::deque<std::pair<LinkId, std::string>> heard_;  // control messages, handled outside UCX's callbacks
  std::thread thread_;
};

}  // namespace cheetah::cluster::transfer
