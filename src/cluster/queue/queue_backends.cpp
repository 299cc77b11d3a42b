// SPDX-License-Identifier: MIT
#include "cluster/queue/queue_backends.h"

#include "base/format.h"
#include "cluster/queue/in_process_bus.h"
#include "cluster/queue/in_process_queue.h"
#include "cluster/services/nats_services.h"
#include "cluster/services/service_fixture.h"

namespace cheetah::cluster {
namespace {

class InProcessQueueBackend final : public QueueBackend {
 public:
  explicit InProcessQueueBackend(JobQueueConfig config) : jobs_(std::make_shared<JobStore>(config)) {}
  std::unique_ptr<JobQueue> join_queue() override { return std::make_unique<InProcessJobQueue>(jobs_); }
  std::unique_ptr<EventBus> join_bus() override { return std::make_unique<InProcessEventBus>(events_); }
  void stop_service() override { jobs_->set_up(false), events_->set_up(false); }
  void start_service() override { jobs_->set_up(true), events_->set_up(true); }

 private:
  std::shared_ptr<JobStore> jobs_;
  std::shared_ptr<EventStore> events_ = std::make_shared<EventStore>();
};

// All backends share one server and have a cluster each.
class NatsBackend final : public QueueBackend {
 public:
  NatsBackend(std::string cluster, JobQueueConfig config) : cluster_(std::move(cluster)), config_(config) {}
  std::unique_ptr<JobQueue> join_queue() override { return join().jobs; }
  std::unique_ptr<EventBus> join_bus() override { return join().events; }
  void stop_service() override { shared_nats().kill_hard(); }
  void start_service() override { shared_nats().start(); }

 private:
  QueueServices join() { return connect_nats({{"127.0.0.1", shared_nats().port()}}, {}, cluster_, config_); }

  const std::string cluster_;
  const JobQueueConfig config_;
};

}  // namespace

ServiceProcess& shared_nats() {
  static ServiceProcess server(ServiceProcess::Kind::kNats);
  return server;
}

std::unique_ptr<QueueBackend> nats_queue_backend(JobQueueConfig config) {
  static int backends = 0;
  if (!nats_is_built_in() || !ServiceProcess::is_installed(ServiceProcess::Kind::kNats)) return nullptr;
  return std::make_unique<NatsBackend>(format("backend{}", ++backends), config);
}

std::unique_ptr<QueueBackend> in_process_queue_backend(JobQueueConfig config) {
  return std::make_unique<InProcessQueueBackend>(config);
}

}  // namespace cheetah::cluster
