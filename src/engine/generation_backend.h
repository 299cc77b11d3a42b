// SPDX-License-Identifier: MIT
#pragma once
// What answers requests, as a server sees it: an engine in this process, or a cluster of them.
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/decision_log.h"
#include "engine/engine_config.h"
#include "engine/engine_stats.h"
#include "engine/request.h"
#include "model/model.h"

namespace cheetah {

// Any thread may call any of these; none waits for a running step but drain().
class GenerationBackend {
 public:
  virtual ~GenerationBackend() = default;

  // Events arrive at `sink` until one with done, those of a step after stats() counts it. A request that
  // cannot be taken (too long, queue full, draining) gets a single kError event, before submit() returns
  // where that can be known at once.
  virtual void submit(GenerationRequest request, EventSink sink) = 0;
  virtual void cancel(RequestId id) = 0;
  // Its client reads too slowly: takes no part in steps until resumed, and is the first to give up its pages.
  virtual void pause(RequestId id) = 0;
  virtual void resume(RequestId id) = 0;
  // A request whose client comes back for the rest of its answer goes on where the client was, here or at another
  // process of the same cluster (RequestOrigin::may_come_back).
  virtual bool can_go_on() const { return false; }
  // No new requests; returns when the running ones are done or the time is up (then they are cancelled).
  virtual void drain(std::chrono::milliseconds limit) = 0;

  // Why no request can be answered now, for health probes; "": one can. drain() aside. Any thread.
  virtual std::string out_of_service() const { return ""; }
  virtual EngineStats stats() const = 0;
  virtual std::string explain_last(int64_t num_decisions) const = 0;  // one line a decision
  // What the scheduler decided about a request, as far as it is still known. None: of a cluster's router.
  virtual std::vector<Decision> decisions_of(RequestId) const { return {}; }
  // Of a cluster: its workers, services and faults as a JSON object. "": there is no cluster.
  virtual std::string cluster_state() const { return ""; }
  virtual const EngineConfig& config() const = 0;  // resolved: no zeros left
  virtual const Model& model() const = 0;          // whose tokens requests are made of
};

}  // namespace cheetah
