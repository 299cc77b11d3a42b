// SPDX-License-Identifier: MIT
#include "base/format.h"
#include "base/json.h"
#include "cluster/node/launch.h"
#include "cluster/node/node.h"
#include "observe/prometheus_text.h"

namespace cheetah::cluster {
namespace {

void add_counters(PrometheusText& out, const NodeStatus& status) {
  for (size_t i = 0; i < status.counters.size(); ++i) {
    const auto counter = static_cast<Counter>(i);
    const std::string name = format("cheetah_cluster_{}_total", counter_name(counter));
    out.family(name, "counter", counter_help(counter));
    out.sample(static_cast<double>(status.counters[i]));
  }
}

void add_outstanding(PrometheusText& out, const NodeStatus& status) {
  const auto gauge = [&](std::string_view name, int64_t value, std::string_view help) {
    out.family(name, "gauge", help);
    out.sample(static_cast<double>(value));
  };
  gauge("cheetah_cluster_worker_requests", status.outstanding.requests, "Requests this worker answers");
  gauge("cheetah_cluster_worker_jobs", status.outstanding.jobs, "Prompts this worker computes for others");
  gauge("cheetah_cluster_reservations", status.outstanding.reservations, "Receive memory that is reserved");
  gauge("cheetah_cluster_quarantined", status.outstanding.quarantined,
      "Receive memory that a writer has not left yet");
  gauge("cheetah_cluster_links", status.links, "Peers with a link");
  gauge("cheetah_cluster_registry_up", status.registry.up ? 1 : 0, "The registry can be reached");
  gauge("cheetah_cluster_queue_up", status.queue.up ? 1 : 0, "The prefill queue can be reached");
}

void add_pages(PrometheusText& out, const KvAdapter::Numbers& pages) {
  const auto counter = [&](std::string_view name, double value, std::string_view help) {
    out.family(name, "counter", help);
    out.sample(value);
  };
  counter("cheetah_kv_slabs_sent_total", static_cast<double>(pages.slabs_sent),
      "Slabs of pages sent to other workers");
  counter("cheetah_kv_slabs_failed_total", static_cast<double>(pages.slabs_failed),
      "Slabs that could not be sent");
  counter("cheetah_kv_sent_bytes_total", static_cast<double>(pages.bytes_sent), "Bytes of pages sent");
  counter(
      "cheetah_kv_slabs_received_total", static_cast<double>(pages.slabs_received), "Slabs received whole");
  counter("cheetah_kv_received_bytes_total", static_cast<double>(pages.bytes_received),
      "Bytes of pages received");
  counter("cheetah_kv_slabs_damaged_total", static_cast<double>(pages.slabs_damaged),
      "Slabs with a wrong checksum");
  counter("cheetah_kv_slabs_changed_total", static_cast<double>(pages.slabs_changed),
      "Slabs that were sent in another type, order or page size than they are kept in");
  out.family("cheetah_kv_transfer_bytes_per_second", "gauge", "Rate at which pages reached others lately");
  out.sample(pages.bytes_per_s);
  counter("cheetah_kv_stalls_total", static_cast<double>(pages.stalls),
      "Reservations that nothing came into in time");
}

Json worker_json(const KnownWorker& known) {
  const WorkerDescriptor& d = known.descriptor;
  const WorkerLoad& l = known.load;
  return {{"name", d.name}, {"role", name_of(d.role)}, {"state", name_of(d.state)}, {"model", d.model_name},
      {"address", format("{}:{}", d.host, d.port)}, {"reachable", known.linked && !known.silent},
      {"leaving", known.left}, {"max_sequences", d.max_sequences}, {"running", l.running},
      {"waiting", l.waiting}, {"prefill_tokens", l.prefill_tokens}, {"decode_tokens", l.decode_tokens},
      {"pages_total", l.pages_total}, {"pages_free", l.pages_free}, {"decode_step_us", l.decode_step_us},
      {"prefill_us_per_token", l.prefill_us_per_token}, {"transfer_bytes_per_s", l.transfer_bytes_per_s}};
}

}  // namespace

std::string status_json(const NodeStatus& status) {
  Json workers = Json::array(), counters = Json::object();
  for (const auto& [id, known] : status.workers)
    if (known.described) workers.push_back(worker_json(known));
  for (size_t i = 0; i < status.counters.size(); ++i)
    counters[std::string(counter_name(static_cast<Counter>(i)))] = status.counters[i];
  const auto service = [](const ServiceState& state) {
    return Json{{"up", state.up}, {"absent", state.absent}, {"why", state.why}};
  };
  return dump_json({{"name", status.self.name}, {"workers", std::move(workers)},
      {"counters", std::move(counters)}, {"links", status.links}, {"requests", status.requests},
      {"registry", service(status.registry)}, {"queue", service(status.queue)}});
}

std::string Node::metrics() const {
  const NodeStatus now = status();
  PrometheusText out;
  add_counters(out, now);
  add_outstanding(out, now);
  if (now.self.role != Role::kRouter) add_pages(out, now.pages);
  std::string text = out.text();
  if (!now.workers.empty() || now.self.role == Role::kRouter) text += metrics_text(now.policy);
  return text;
}

}  // namespace cheetah::cluster
