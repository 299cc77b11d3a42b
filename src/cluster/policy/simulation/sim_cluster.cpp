// SPDX-License-Identifier: MIT
#include "cluster/policy/simulation/sim_cluster.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace cheetah::cluster::throughput {
namespace {

constexpr double kReportMs = 100;    // between two load reports
constexpr double kPlanMs = 1000;     // between two looks at the roles
constexpr double kHandOverMs = 1.0;  // messages, reservation and import of a transfer
constexpr double kHidden = 0.8;      // of a transfer, behind the prefill's later chunks

int64_t around(Philox& random, int64_t tokens) {
  return std::max<int64_t>(1, std::llround(static_cast<double>(tokens) * (0.5 + random.next_uniform())));
}

bool more_urgent(const Work& a, const Work& b) {
  return a.priority != b.priority ? a.priority > b.priority : a.order < b.order;
}

}  // namespace

SimCluster::SimCluster(const Scenario& scenario) : scenario_(scenario) {
  admission_.models[""].shares.reconfigure(scenario.policy.qos.classes, scenario.policy.qos.borrow_limit);
  const int total = scenario.num_prefill + scenario.num_decode;
  for (int i = 0; i < total; ++i) {
    const Role role = i < scenario.num_prefill ? Role::kPrefill : Role::kDecode;
    workers_.emplace_back(
        static_cast<WorkerId>(i + 1), role, scenario.max_sequences, scenario.chunk_tokens, scenario.steps);
    WorkerView view;
    view.descriptor.id = workers_.back().id;
    view.descriptor.max_sequences = scenario.max_sequences;
    view.descriptor.kv.page_tokens = 16;
    view.descriptor.kv.page_bytes = static_cast<int64_t>(16 * scenario.steps.kv_bytes_per_token);
    view.reachable = true;
    view_.workers.push_back(view);
  }
  expected_.resize(workers_.size());
  view_.prefill_queue.up = true;
  view_.transfer_bytes_per_s = scenario.steps.transfer_bytes_per_s;
  scenario_.policy.routing.cost.prefill_us_per_token = 1e3 * scenario.steps.prefill_token_ms;
  scenario_.policy.routing.cost.decode_step_us = 1e3 * scenario.steps.weights_ms;
}

void SimCluster::draw_arrivals() {
  for (size_t s = 0; s < scenario_.streams.size(); ++s) {
    const Stream& stream = scenario_.streams[s];
    Philox random(scenario_.seed, s);
    double t = stream.from_s;
    while (true) {
      t -= std::log(1 - random.next_uniform()) / stream.requests_per_s;
      if (t >= stream.to_s) break;
      at(t * 1e3, What::kArrival, requests_.size());
      requests_.push_back({.class_index = stream.class_index,
          .arrived_ms = t * 1e3,
          .prompt = around(random, stream.prompt_tokens),
          .output = around(random, stream.output_tokens)});
    }
  }
  open_ = static_cast<int64_t>(requests_.size());
  report_.offered = open_;
}

Report SimCluster::run() {
  draw_arrivals();
  report_loads();
  if (scenario_.flip_roles) at(kPlanMs, What::kPlan, 0);
  while (open_ > 0 && !events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    now_ms_ = event.ms;
    handle(event);
  }
  report_.end_s = scenario_.end_s;
  for (const SimWorker& worker : workers_) report_.preempted += worker.preempted();
  return std::move(report_);
}

void SimCluster::handle(const Event& event) {
  switch (event.what) {
    case What::kArrival:
      return on_arrival(event.index);
    case What::kStepEnd:
      return on_step_end(event.index);
    case What::kPagesThere:
      return on_pages_there(event.index);
    case What::kReport:
      return report_loads();
    case What::kPlan:
      return plan_roles();
    case What::kWarm: {
      SimWorker& worker = workers_[event.index];
      worker.state = WorkerState::kReady;
      worker.role_since = now();
      report_loads();
      return kick_prefill_workers();
    }
  }
}

RouteRequest SimCluster::route_request(const Request& request) const {
  const QosClass& qos_class = class_of(request);
  RouteRequest route;
  route.prompt_tokens = request.prompt;
  route.expected_output = request.output;
  route.priority = qos_class.priority;
  route.ttft_slo_ms = qos_class.ttft_slo_ms;
  route.tpot_slo_ms = qos_class.tpot_slo_ms;
  return route;
}

void SimCluster::on_arrival(size_t index) {
  Request& request = requests_[index];
  input_tokens_ += static_cast<double>(request.prompt);
  output_tokens_ += static_cast<double>(request.output);
  context_.add(static_cast<double>(request.prompt + request.output / 2), 0.02);
  const PolicyConfig& policy = scenario_.policy;
  const AdmissionRequest asked{.route = route_request(request),
      .tenant = class_of(request).name,
      .max_output = request.output,
      .class_index = request.class_index};
  request.admission = admit(view_, asked, policy.qos, policy.routing, now(), admission_);
  if (request.admission.verdict == Verdict::kReject) {
    ++report_.rejected;
    --open_;
    return;
  }
  ++report_.accepted;
  report_.degraded += request.admission.verdict == Verdict::kDegrade ? 1 : 0;
  const int64_t cap = request.admission.degradation.max_output;
  if (cap > 0) request.output = std::min(request.output, cap);
  send(index, route(view_, asked.route, policy.routing, memory_));
}

void SimCluster::send(size_t index, const RouteDecision& decision) {
  Request& request = requests_[index];
  request.decode = index_of(*decision.decode);
  Work work{.request = index,
      .priority = urgency_of(request.admission, class_of(request)),
      .order = next_order_++,
      .prompt = request.prompt,
      .prompt_left = request.prompt,
      .output_left = request.output};
  WorkerView& target = view_.workers[request.decode];
  ++target.sent_choices;
  if (decision.prefill == PrefillMode::kLocal) {
    target.sent_prefill_tokens += request.prompt;
    workers_[request.decode].add_prompt(work);
    return kick(request.decode);
  }
  ++report_.remote_prefills;
  ++expected_[request.decode];
  work.remote = true;
  queue_.insert(std::upper_bound(queue_.begin(), queue_.end(), work, more_urgent), work);
  ++view_.prefill_queue.depth;
  view_.prefill_queue.tokens += work.prompt;
  kick_prefill_workers();
}

// Pulls a job when there is nothing to do, or nothing as urgent.
void SimCluster::feed(SimWorker& worker) {
  if (worker.role != Role::kPrefill || worker.state != WorkerState::kReady || queue_.empty()) return;
  const Work* current = worker.next_prompt();
  if (current && current->priority >= queue_.front().priority) return;
  --view_.prefill_queue.depth;
  view_.prefill_queue.tokens -= queue_.front().prompt;
  worker.add_prompt(queue_.front());
  queue_.erase(queue_.begin());
}

void SimCluster::kick(size_t worker) {
  if (workers_[worker].busy()) return;
  feed(workers_[worker]);
  if (const auto ms = workers_[worker].begin_step()) at(now_ms_ + *ms, What::kStepEnd, worker);
}

void SimCluster::kick_prefill_workers() {
  for (size_t i = 0; i < workers_.size() && !queue_.empty(); ++i)
    if (workers_[i].role == Role::kPrefill) kick(i);
}

void SimCluster::on_step_end(size_t index) {
  const StepDone done = workers_[index].end_step();
  for (const Work& work : done.first_token) requests_[work.request].first_ms = now_ms_;
  for (const size_t request : done.tokens)
    if (requests_[request].first_ms < 0) requests_[request].first_ms = now_ms_;
  for (const size_t request : done.finished) on_finished(request);
  for (const Work& work : done.prefilled) {
    const double bytes = scenario_.steps.kv_bytes_per_token * static_cast<double>(work.prompt);
    const double transfer_ms = bytes / scenario_.steps.transfer_bytes_per_s * 1e3;
    at(now_ms_ + kHandOverMs + (1 - kHidden) * transfer_ms, What::kPagesThere, work.request);
  }
  settle(index);
  kick(index);
}

void SimCluster::on_pages_there(size_t index) {
  const Request& request = requests_[index];
  --expected_[request.decode];
  workers_[request.decode].add_ready({.request = index,
      .priority = urgency_of(request.admission, class_of(request)),
      .order = next_order_++,
      .prompt = request.prompt,
      .output_left = request.output,
      .context = request.prompt});
  kick(request.decode);
}

void SimCluster::on_finished(size_t index) {
  Request& request = requests_[index];
  --open_;
  const QosClass& qos_class = class_of(request);
  Finished one{.class_index = request.class_index,
      .arrived_s = request.arrived_ms / 1e3,
      .ttft_ms = request.first_ms - request.arrived_ms};
  if (request.output > 1)
    one.tpot_ms = (now_ms_ - request.first_ms) / static_cast<double>(request.output - 1);
  one.in_time = one.ttft_ms <= qos_class.ttft_slo_ms && one.tpot_ms <= qos_class.tpot_slo_ms;
  report_.in_time += one.in_time ? 1 : 0;
  report_.finished.push_back(one);
  first_token_came(request.admission, one.ttft_ms, scenario_.policy.qos, admission_);
  finish(qos_class.name, request.admission, 0, scenario_.policy.qos, admission_);
}

void SimCluster::report_loads() {
  for (size_t i = 0; i < workers_.size(); ++i) {
    WorkerView& view = view_.workers[i];
    view.load = workers_[i].load();
    view.load.waiting += expected_[i];
    view.load.decode_tokens +=
        expected_[i] * (view.load.running > 0 ? view.load.decode_tokens / view.load.running : 0);
    view.descriptor.role = workers_[i].role;
    view.descriptor.state = workers_[i].state;
    view.sent_choices = view.sent_prefill_tokens = 0;
    if (view.load.decode_step_us > 0)
      admission_.models[""].estimates.steps.add(
          static_cast<double>(view.load.running), view.load.decode_step_us, 0.01);
    settle(i);
  }
  at(now_ms_ + kReportMs, What::kReport, 0);
}

void SimCluster::plan_roles() {
  at(now_ms_ + kPlanMs, What::kPlan, 0);
  const double seconds = kPlanMs / 1e3;
  input_rate_.add(input_tokens_ / seconds, 0.2);
  output_rate_.add(output_tokens_ / seconds, 0.2);
  input_tokens_ = output_tokens_ = 0;
  const int64_t batch = scenario_.max_sequences;
  const auto context = static_cast<int64_t>(context_.value_or(0));
  const TrafficMix mix{.input_tokens_per_s = input_rate_.value_or(0),
      .output_tokens_per_s = output_rate_.value_or(0),
      .prefill_tokens_per_s = 1e3 / scenario_.steps.prefill_token_ms,
      .decode_tokens_per_s =
          static_cast<double>(batch) * 1e3 / scenario_.steps.decode_ms(batch, batch * context)};
  std::vector<FlipWorker> all;
  for (const SimWorker& w : workers_)
    all.push_back(
        {.id = w.id, .role = w.role, .state = w.state, .role_since = w.role_since, .active = w.active()});
  const FlipDecision decision = plan_flip(all, mix, scenario_.policy.roles, now(), flips_);
  if (!decision.worker) return;
  SimWorker& worker = workers_[index_of(*decision.worker)];
  worker.state = WorkerState::kDraining;
  worker.next_role = decision.to;
  report_.flips.push_back({.time_s = now_ms_ / 1e3,
      .worker = worker.id,
      .to = decision.to,
      .since_last_s = std::chrono::duration<double>(now() - worker.role_since).count()});
  view_.workers[index_of(worker.id)].descriptor.state = WorkerState::kDraining;
  settle(index_of(worker.id));
}

void SimCluster::settle(size_t index) {
  SimWorker& worker = workers_[index];
  if (worker.state != WorkerState::kDraining || !worker.idle() || expected_[index] > 0) return;
  worker.state = WorkerState::kStarting;
  worker.role = worker.next_role;
  at(now_ms_ + scenario_.warm_up_s * 1e3, What::kWarm, index);
}

}  // namespace cheetah::cluster::throughput
