// SPDX-License-Identifier: MIT
#pragma once
// A cluster under traffic on a simulated clock: the policies decide as they do in a router, workers take the
// time that the step model says. Nothing fails here; core/simulation is about that.
#include <cstdint>
#include <queue>
#include <vector>

#include "cluster/policy/admission.h"
#include "cluster/policy/roles.h"
#include "cluster/policy/route.h"
#include "cluster/policy/simulation/sim_worker.h"
#include "cluster/policy/simulation/traffic.h"

namespace cheetah::cluster::throughput {

class SimCluster {
 public:
  explicit SimCluster(const Scenario& scenario);
  Report run();

 private:
  enum class What : uint8_t { kArrival, kStepEnd, kPagesThere, kReport, kPlan, kWarm };
  struct Event {
    double ms = 0;
    uint64_t order = 0;
    What what{};
    size_t index = 0;  // of a request or a worker
    bool operator>(const Event& other) const { return ms != other.ms ? ms > other.ms : order > other.order; }
  };
  struct Request {
    int class_index = 0;
    double arrived_ms = 0, first_ms = -1;
    int64_t prompt = 0, output = 0;
    size_t decode = 0;  // worker
    bool accepted = false;
    AdmissionDecision admission = {};
  };

  void draw_arrivals();
  void at(double ms, What what, size_t index) { events_.push({ms, next_order_++, what, index}); }
  void handle(const Event& event);
  void on_arrival(size_t index);
  void send(size_t index, const RouteDecision& decision);
  void on_step_end(size_t worker);
  void on_pages_there(size_t request);
  void on_finished(size_t request);
  void report_loads();
  void plan_roles();
  void settle(size_t worker);  // a drained worker takes its new role
  void kick(size_t worker);
  void kick_prefill_workers();
  void feed(SimWorker& worker);
  RouteRequest route_request(const Request& request) const;
  const QosClass& class_of(const Request& request) const {
    return scenario_.policy.qos.classes.at(static_cast<size_t>(request.class_index));
  }
  Time now() const { return Time(std::chrono::nanoseconds(static_cast<int64_t>(now_ms_ * 1e6) + 1)); }
  size_t index_of(WorkerId id) const { return static_cast<size_t>(id) - 1; }

  Scenario scenario_;
  std::vector<Request> requests_;
  std::vector<SimWorker> workers_;
  std::vector<int64_t> expected_;  // requests whose pages are on their way to a worker
  std::vector<Work> queue_;        // prefill jobs, the urgent first
  ClusterView view_;
  AdmissionState admission_;
  RouteMemory memory_;
  FlipState flips_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t next_order_ = 0;
  double now_ms_ = 0;
  int64_t open_ = 0;                             // arrivals to come and requests not finished
  double input_tokens_ = 0, output_tokens_ = 0;  // that arrived since the last plan
  Ema input_rate_, output_rate_, context_;
  Report report_;
};

}  // namespace cheetah::cluster::throughput
