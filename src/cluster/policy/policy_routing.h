// SPDX-License-Identifier: MIT
#pragma once
// The policies behind a router: keeps what they remember between requests and translates between the router's
// words and theirs. One thread, like the router; no clock (every question brings its time).
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "cluster/core/routing.h"
#include "cluster/policy/admission.h"
#include "cluster/policy/cluster_metrics.h"
#include "cluster/policy/decision_ring.h"
#include "cluster/policy/kv_index.h"
#include "cluster/policy/planner.h"
#include "cluster/policy/policy_config.h"
#include "cluster/policy/route.h"
#include "cluster/policy/since_report.h"

namespace cheetah::cluster {

class PolicyRouting : public Routing {
 public:
  // The names under which the workers' prefix caches hold a request's whole pages (engine's chain_hashes).
  using BlockNames = std::function<std::vector<uint64_t>(const ClientRequest&, int64_t page_tokens)>;
  // A model that clients may ask for: what they call it, and WorkerDescriptor::model. The first is the one
  // that is planned for; roles of workers of others stay as they are.
  struct ServedModel {
    std::string name, model;
  };

  explicit PolicyRouting(
      PolicyConfig config, BlockNames block_names = nullptr, std::vector<ServedModel> models = {});

  Admission admit(const RouteQuestion& question) override;
  Placement route(const RouteQuestion& question) override;
  void observe(const Outcome& outcome, Time now) override;
  void worker_ready(const WorkerDescriptor& worker) override;
  void forget(WorkerId worker) override;
  void learn(WorkerId from, const KvEvents& events) override;
  void learn(WorkerId from, const KvSnapshot& snapshot);
  std::vector<QuotaNews::Entry> untold_quotas() { return admission_.quotas.untold(); }
  std::vector<QuotaNews::Entry> all_quotas() const { return admission_.quotas.all(); }
  void hear(const QuotaNews& news, Time now);  // of another router

  // About once per second, as often as it is asked: what should change in the cluster. The caller sends the
  // flip.
  std::optional<Plan> plan(
      const KnownWorkers& workers, int64_t queue_depth, Time now, const PlanOrders& orders = {});

  // Takes effect with the next request; what is in use stays in use. Throws Error where it names a model that
  // is not served, and changes nothing.
  void configure(PolicyConfig config);
  void count_refused_config() { ++numbers_.config_reload_failures; }
  const PolicyConfig& config() const { return config_; }

  const ClusterNumbers& numbers() const { return numbers_; }
  const DecisionRing& decisions() const { return decisions_; }
  const AdmissionState& admission() const { return admission_; }
  const KvIndex& kv_index() const { return kv_index_; }
  std::string worth_text() const;  // what was measured of both ways, a line for each length seen

 private:
  struct Admitted {
    std::string tenant, qos_class;
    AdmissionDecision decision;
  };
  ClusterView view_of(const RouteQuestion& question);
  RouteRequest request_of(const RouteQuestion& question) const;
  void find_cached(const RouteQuestion& question, RouteRequest& request) const;
  void learn_steps(const KnownWorkers& workers);
  std::string other_model_of(const ClientRequest& client) const;  // "": none
  bool is_planned_for(const std::string& model) const {
    return models_.empty() || model == models_.front().model;
  }
  RefusedRequest refused(const RouteQuestion& question, const AdmissionRequest& request,
      const AdmissionDecision& decision) const;
  int class_index_of(const ClientRequest& client) const;

  PolicyConfig config_;
  BlockNames block_names_;
  std::vector<ServedModel> models_;
  AdmissionState admission_;
  std::map<std::string, RouteMemory> memory_;  // by model
  KvIndex kv_index_;
  DecisionRing decisions_;
  ClusterNumbers numbers_;
  SinceReport since_report_;
  std::map<WorkerId, Time> learned_at_;  // the last report whose step time was counted
  std::unordered_map<RequestUid, Admitted> admitted_;
  Planner planner_;
  Ema prompt_tokens_;
  std::optional<Time> first_question_;
};

}  // namespace cheetah::cluster
