// SPDX-License-Identifier: MIT
#pragma once
// The clients of a node: who asked for what, and where its events go. Belongs to the node's thread; only the
// numbers can be read from outside.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/published.h"
#include "cluster/core/router_ports.h"
#include "engine/engine_stats.h"
#include "engine/request.h"

namespace cheetah::cluster {

class ClientAdapter {
 public:
  explicit ClientAdapter(WorkerId router);

  // The uid under which the cluster knows the request from now on.
  RequestUid add(RequestId id, EventSink sink, Time now);
  std::optional<RequestUid> find(RequestId id) const;
  std::vector<RequestUid> all() const;
  // Hands the event to its client. False: the client's sink failed; the request should be cancelled.
  bool emit(Emit&& emit, Time now);

  void publish();  // the numbers as they are
  EngineStats stats() const { return published_.copy(); }

 private:
  struct Client {
    RequestId id{};
    EventSink sink;
    Time arrived{}, first_token{}, last_token{};
    int64_t tokens = 0;
    bool sink_failed = false;
  };
  void observe(Client& client, const GenerationEvent& event, Time now);
  void count_end(const Client& client, const GenerationEvent& event);

  WorkerId router_;
  uint64_t next_ = 1;
  std::map<RequestUid, Client> clients_;
  std::map<RequestId, RequestUid> uids_;
  EngineStats stats_;
  Published<EngineStats> published_;
};

}  // namespace cheetah::cluster
