// SPDX-License-Identifier: MIT
#pragma once
// Accept, accept less, or refuse at once: a quick "busy" is better than an answer that comes too late and
// that made others late. Decided before any work is done for the request.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/policy/breaker.h"
#include "cluster/policy/predict.h"
#include "cluster/policy/qos_config.h"
#include "cluster/policy/quota.h"
#include "cluster/policy/shares.h"
#include "cluster/policy/view.h"

namespace cheetah::cluster {

// The closed list of reasons for a refusal; metrics and answers use these names.
enum class RejectReason : uint8_t {
  kNone,
  kTtftPredicted,
  kTpotPredicted,
  kDecodeShare,
  kQueueTime,
  kPrefillBreaker,
  kDecodeBreaker,
  kQuota,
  kShare,
  kNoWorker,
};
constexpr int kNumRejectReasons = 10;
std::string_view name_of(RejectReason reason);
int http_status(RejectReason reason);  // 429 for a quota, otherwise 503

enum class Verdict : uint8_t { kAccept, kDegrade, kOtherModel, kReject };

struct Degradation {
  int64_t max_output = 0;  // 0: as asked for
  bool no_remote_prefill = false;

  bool operator==(const Degradation&) const = default;
};

struct AdmissionRequest {
  RouteRequest route = {};  // priority and targets are set from the class
  std::string tenant = {};
  int64_t max_output = 0;  // tokens per choice may generate; 0: not said
  int class_index = 0;
  std::string other_model = {};  // that it may be sent to instead (WorkerDescriptor::model); "": none
  bool degraded_before = false;  // it was meant for another model and is here instead
};

struct AdmissionDecision {
  std::string qos_class = {};
  Verdict verdict = Verdict::kReject;
  RejectReason reason = RejectReason::kNone;  // of a refusal; kNoWorker: accepted, and waits for one
  double retry_after_s = 0;                   // of a refusal: at least 1
  Degradation degradation = {};
  Prediction prediction = {};
  std::string model = {};    // whose shares it takes part in
  int64_t places = 0;        // taken from the shares; to be released when the request ends
  bool own_place = false;    // within its class's share of the places to run in
  int64_t quota_tokens = 0;  // taken from the tenant's bucket
  std::vector<GiveBack> give_back = {};
};

// What is known of the workers of one model.
struct ModelState {
  Shares shares;
  Breaker prefill_breaker, decode_breaker;
  Estimates estimates;
  std::map<std::string, HighEma> ttft_ratios;  // by class: measured by predicted, what the model leaves out
};

struct AdmissionState {
  Quotas quotas;
  std::map<std::string, ModelState> models;  // by RouteRequest::model
};

// Of a model that is new: with the shares as configured.
ModelState& state_of(const std::string& model, const QosConfig& qos, AdmissionState& state);

using Headers = std::vector<std::pair<std::string, std::string>>;
// Index into config.classes.
int class_of(const Headers& headers, const std::string& tenant, const QosConfig& config);

AdmissionDecision admit(const ClusterView& view, const AdmissionRequest& request, const QosConfig& qos,
    const RoutingConfig& routing, Time now, AdmissionState& state);
// Greater goes first, in queues and in engines, and takes the place of less where there is no other: a
// request within its class's reservation goes before all that are not, unless their priority is greater by
// more than kOwnPlaceLevels.
constexpr int32_t kOwnPlaceLevels = 100;
int32_t urgency_of(const AdmissionDecision& decision, const QosClass& qos_class);
// The model a class's requests are sent to rather than refused; "": none.
const std::string& degrade_model_of(const QosClass& qos_class, const QosConfig& qos);
// When a request ends: its places, and the tokens it was charged for but did not use.
void finish(const std::string& tenant, const AdmissionDecision& decision, int64_t unused_tokens,
    const QosConfig& qos, AdmissionState& state);
// When the first token of an accepted request came.
void first_token_came(
    const AdmissionDecision& decision, double ttft_ms, const QosConfig& qos, AdmissionState& state);
int64_t running_places(const ClusterView& view, const std::string& model);
int64_t cluster_places(const ClusterView& view, const std::string& model,
    const QosConfig& qos);  // to run and to wait in
// By the prediction alone; kNone: within its targets. `factor` loosens them.
RejectReason judge(
    const Prediction& prediction, const QosClass& qos_class, const QosConfig& qos, double factor = 1);

}  // namespace cheetah::cluster
