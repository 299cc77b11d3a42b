// SPDX-License-Identifier: MIT
#include "testing/cluster/sim_queue.h"

#include "base/format.h"
#include "testing/cluster/sim_cluster.h"

namespace cheetah::cluster::simulation {
namespace {

constexpr double kVisibilityMs = 3000;
constexpr double kMaxAgeMs = 12000;
constexpr int kMaxDeliveries = 4;

}  // namespace

void SimQueue::execute(const PushJob& output) {
  const FaultRates& rates = cluster_.rates();
  if ((!up_ && cluster_.simulation().happens(0.5)) || cluster_.fault(rates.lose_job, "a job is lost")) return;
  const uint64_t number = next_job_++;
  jobs_.emplace(number, Job{.job = output.job});
  ++num_waiting_;
  cluster_.simulation().after(milliseconds(kMaxAgeMs), [this, number] { drop(number); });
  pump();
}

void SimQueue::drop(uint64_t number) {
  const auto job = jobs_.find(number);
  if (job == jobs_.end()) return;
  num_waiting_ -= job->second.out ? 0 : 1;
  jobs_.erase(job);
}

void SimQueue::pump() {
  if (!up_ || num_waiting_ == 0) return;
  std::vector<uint64_t> waiting;
  for (const auto& [number, job] : jobs_)
    if (!job.out) waiting.push_back(number);
  for (const uint64_t number : waiting) deliver(number, jobs_.at(number));
}

void SimQueue::deliver(uint64_t number, Job& job) {
  std::vector<SimNode*> free;
  for (const auto& [id, node] : cluster_.nodes())
    if (node->jobs_wanted() > 0) free.push_back(node.get());
  if (free.empty()) return;
  Simulation& simulation = cluster_.simulation();
  const bool twice = cluster_.fault(cluster_.rates().double_job, "a job is delivered twice");
  for (int i = 0; i < (twice ? 2 : 1); ++i) {
    SimNode& node = *free[static_cast<size_t>(simulation.below(static_cast<int64_t>(free.size())))];
    const DeliveryId delivery{next_delivery_++};
    deliveries_[delivery] = number;
    job.last = delivery;
    node.expect_job();
    const bool late = cluster_.fault(cluster_.rates().late_job, "a job comes late");
    cluster_.on(node.id(), late ? simulation.between(500, 4000) : simulation.between(1, 8),
        [&node, delivery, copy = job.job] { node.job_comes(delivery, copy); });
    watch(number, delivery, job.extended);
  }
  job.out = true;
  --num_waiting_;
  ++job.deliveries;
}

// Not acknowledged in time: another worker may have it, unless it has been tried often enough.
void SimQueue::watch(uint64_t number, DeliveryId delivery, uint64_t extended) {
  cluster_.simulation().after(milliseconds(kVisibilityMs), [this, number, delivery, extended] {
    const auto job = jobs_.find(number);
    if (job == jobs_.end() || job->second.last != delivery || !job->second.out) return;
    if (job->second.extended != extended) return watch(number, delivery, job->second.extended);
    if (job->second.deliveries >= kMaxDeliveries) return drop(number);
    job->second.out = false;
    ++num_waiting_;
    pump();
  });
}

void SimQueue::execute(const AckJob& output) {
  const auto found = deliveries_.find(output.delivery);
  if (found == deliveries_.end() || !up_) return;
  drop(found->second);
  deliveries_.erase(found);
}

void SimQueue::execute(const NackJob& output) {
  const auto found = deliveries_.find(output.delivery);
  if (found == deliveries_.end() || !up_) return;
  const auto job = jobs_.find(found->second);
  if (job == jobs_.end() || !job->second.out) return;
  if (job->second.deliveries >= kMaxDeliveries) return drop(found->second);
  job->second.out = false;
  ++num_waiting_;
  cluster_.simulation().after(milliseconds(5), [this] { pump(); });
}

void SimQueue::execute(const ExtendJob& output) {
  const auto found = deliveries_.find(output.delivery);
  if (found == deliveries_.end()) return;
  const auto job = jobs_.find(found->second);
  if (job != jobs_.end()) ++job->second.extended;
}

void SimQueue::set_up(bool up) {
  up_ = up;
  for (const auto& [id, one] : cluster_.nodes())
    if (one->worker() != nullptr)
      cluster_.on(id, cluster_.simulation().between(0, 20),
          [node = one.get(), up] { node->tell(up ? WorkerInput(QueueUp{}) : WorkerInput(QueueDown{})); });
  pump();
}

}  // namespace cheetah::cluster::simulation
