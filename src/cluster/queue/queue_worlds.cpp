#include "cluster/queue/queue_worlds.h"

#include "cluster/queue/in_process_bus.h"
#include "cluster/queue/in_process_queue.h"

namespace cheetah::cluster {
namespace {

class InProcessQueueWorld final : public QueueWorld {
 public:
  explicit InProcessQueueWorld(JobQueueConfig config) : jobs_(std::make_shared<JobStore>(config)) {}
  std::unique_ptr<JobQueue> join_queue() override { return std::make_unique<InProcessJobQueue>(jobs_); }
  std::unique_ptr<EventBus> join_bus() override { return std::make_unique<InProcessEventBus>(events_); }
  void stop_service() override { jobs_->set_up(false), events_->set_up(false); }
  void start_service() override { jobs_->set_up(true), events_->set_up(true); }

 private:
  std::shared_ptr<JobStore> jobs_;
  std::shared_ptr<EventStore> events_ = std::make_shared<EventStore>();
};

}  // namespace

std::unique_ptr<QueueWorld> in_process_queue_world(JobQueueConfig config) {
  return std::make_unique<InProcessQueueWorld>(config);
}

}  // namespace cheetah::cluster
