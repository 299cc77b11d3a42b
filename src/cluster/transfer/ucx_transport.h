// SPDX-License-Identifier: MIT
#pragma once
// Processes of one or many machines whose slabs go through UCX (RDMA where there is a card). Sessions stay on TCP:
// there each end learns the other's UCX address and a token, once both have proved themselves, and nothing of UCX
// listens for strangers' connections. A slab is one active message: its header is the token and the sealed notice,
// and its data come by rendezvous, fetched by the receiver into the slot when it has won the slot's word.
#include <map>
#include <memory>
#include <string>

#include "cluster/transfer/stream_transport.h"
#include "cluster/transfer/ucx_worker.h"

namespace cheetah::cluster::transfer {

// All of UCX happens on the inner thread, its callbacks too: in ucp_worker_progress(), in calls that send,
// and in ucp_worker_destroy(), which therefore comes before anything that the callbacks touch goes.
class UcxTransport final : public StreamTransport {
 public:
  UcxTransport(const TransferConfig& config, EventSink& sink);
  ~UcxTransport() override;

 private:
  // What UCX has of a link; from its welcome on.
  struct Channel {
    ucp_ep_h endpoint = nullptr;
    void* closing = nullptr;  // UCX's request while it closes
    uint64_t token_here = 0, token_there = 0;
    int64_t receiving = 0;  // slabs on their way into our slots
  };
  struct Receiving {
    UcxTransport* self;
    LinkId link;
    OpenedNotice slab;
  };

  AgentWelcome own_arena(LinkId link) override;
  void learn_arena(LinkId link, const AgentWelcome& theirs) override;
  bool transmit(LinkId link, PushOrder& order, WriterNumber writer, std::string& why) override;
  void remember_memory(const RegisterOrder& order) override;
  void forget_memory(MemoryHandle handle) override;
  bool progress() override { return ucp_worker_progress(worker_.get()) > 0; }
  int more_to_wait_for() override;
  void begin_close(LinkId link) override;
  bool may_close(LinkId link) override;

  void slab_comes(std::string_view header, void* data, size_t bytes, bool rendezvous);
  void receive(LinkId link, OpenedNotice slab, void* data, bool rendezvous);
  void received(const Receiving& receiving, ucs_status_t status);

  static void on_error(void* self, ucp_ep_h endpoint, ucs_status_t status);
  static void on_sent(void* request, ucs_status_t status, void* sealed);
  static void on_received(void* request, ucs_status_t status, size_t bytes, void* receiving);
  static ucs_status_t on_slab(void* self, const void* header, size_t header_bytes, void* data, size_t bytes,
      const ucp_am_recv_param_t* param);

  UcxContext context_;
  UcxWorker worker_;
  int event_fd_ = -1;
  std::map<LinkId, Channel> channels_;
  std::map<uint64_t, LinkId> by_token_;
  std::map<MemoryHandle, ucp_mem_h> memory_;
};

}  // namespace cheetah::cluster::transfer
