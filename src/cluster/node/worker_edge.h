// SPDX-License-Identifier: MIT
#pragma once
// Does what a worker's core asks for: requests on the engine, pages on the transfer agent, jobs on the queue.
// Belongs to the node's thread.
#include <functional>
#include <memory>

#include "cluster/net/mesh.h"
#include "cluster/node/background_thread.h"
#include "cluster/node/engine_adapter.h"
#include "cluster/node/job_puller.h"
#include "cluster/node/kv_adapter.h"

namespace cheetah::cluster {

class WorkerEdge {
 public:
  struct Setting {
    Engine& engine;
    TransferAgent& transfer;
    JobQueue& jobs;
    const Mesh& mesh;  // seals jobs: the queue and its disk are read by others
    GrammarCache& grammars;
    NodeLoop& loop;
    KvDescriptor kv;
    WireVersions wire;
    FeedWorker feed;
  };
  explicit WorkerEdge(const Setting& setting);

  // All of them but what the node does itself: messages, counts, announcements.
  void execute(WorkerOutput& output);
  void warm_up() { engine_.warm_up(); }
  void want_jobs(int wanted) { puller_.allow(jobs_handled_, wanted); }
  void poll(Time now) { pages_.poll(now); }
  void peer_lost(WorkerId peer) { pages_.peer_lost(peer); }
  WorkerLoad load() const;
  const KvAdapter::Numbers& numbers() const { return pages_.numbers(); }

 private:
  void execute(const PushJob& push);
  void deliver(Delivery&& delivery);

  JobQueue& jobs_;
  const WireVersions wire_;
  const Mesh& mesh_;
  NodeLoop& loop_;
  FeedWorker feed_;
  uint64_t jobs_handled_ = 0;
  EngineAdapter engine_;
  KvAdapter pages_;
  JobPuller puller_;
  // Last: they end before what their work refers to. Pages do not wait behind grammars.
  BackgroundThread background_, kv_background_;
};

}  // namespace cheetah::cluster
