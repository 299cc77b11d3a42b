// SPDX-License-Identifier: MIT
#include "doctor/facts/pod.h"

#include "base/error.h"
#include "base/format.h"
#include "doctor/text.h"

namespace cheetah::doctor {
namespace {

constexpr size_t kMaxPods = 1000;

// Where each kind keeps the pod: a Deployment in spec.template.spec, a CronJob two templates deep.
constexpr const char* kSpecPaths[] = {"spec.jobTemplate.spec.template.spec", "spec.template.spec",
    "spec.leaderWorkerTemplate.workerTemplate.spec", "template.spec"};

void add_replica_specs(const Document& object, PodFacts& facts) {  // PyTorchJob, MPIJob, TFJob
  for (const char* name : {"pytorchReplicaSpecs", "mpiReplicaSpecs", "tfReplicaSpecs"})
    for (const auto& [role, replica] : object.at("spec").at(name).members)
      if (replica.has("template.spec"))
        facts.pods.push_back(
            {object.at("kind").string_or("?"), object.at("metadata.name").string_or("?") + "/" + role,
                replica.at("template.spec"), replica.at("replicas").number().value_or(1)});
}

void add_object(const Document& object, PodFacts& facts, int depth) {
  const std::string kind = object.at("kind").string_or("");
  if (facts.pods.size() >= kMaxPods || depth > 4) return;
  if (kind == "List") {
    for (const Document& item : object.at("items").items) add_object(item, facts, depth + 1);
    return;
  }
  if (kind == "HorizontalPodAutoscaler" || kind == "ScaledObject") {
    facts.autoscalers.push_back(object);
    return;
  }
  add_replica_specs(object, facts);
  const std::string name = object.at("metadata.name").string_or("?");
  if (kind == "Pod" && object.has("spec")) {
    facts.pods.push_back({kind, name, object.at("spec"), 1});
    return;
  }
  for (const char* path : kSpecPaths)
    if (object.at(path).is_map()) {
      facts.pods.push_back({kind, name, object.at(path), object.at("spec.replicas").number().value_or(1)});
      return;
    }
}

}  // namespace

std::vector<const Document*> PodSpec::containers() const {
  std::vector<const Document*> all;
  for (const Document& container : spec.at("containers").items)
    if (container.is_map()) all.push_back(&container);
  for (const Document& container : spec.at("initContainers").items)
    if (container.is_map() && container.at("restartPolicy").text == "Always") all.push_back(&container);
  return all;
}

std::vector<const Document*> PodSpec::all_containers() const {
  std::vector<const Document*> all = containers();
  for (const Document& container : spec.at("initContainers").items)
    if (container.is_map() && container.at("restartPolicy").text != "Always") all.push_back(&container);
  return all;
}

PodFacts read_pods(std::string_view text, const std::string& what) {
  PodFacts facts;
  for (const Document& object : parse_documents(text, what)) add_object(object, facts, 0);
  if (facts.pods.empty() && facts.autoscalers.empty())
    throw Error(format("{}: no pod in it: expected a Pod, Deployment, StatefulSet, Job or the like", what));
  return facts;
}

std::optional<double> parse_quantity(std::string_view text) {
  text = trimmed(text);
  constexpr std::pair<std::string_view, double> kUnits[] = {{"Ki", 0x1p10}, {"Mi", 0x1p20}, {"Gi", 0x1p30},
      {"Ti", 0x1p40}, {"Pi", 0x1p50}, {"Ei", 0x1p60}, {"n", 1e-9}, {"u", 1e-6}, {"m", 1e-3}, {"k", 1e3},
      {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}, {"E", 1e18}};
  for (const auto& [suffix, unit] : kUnits)
    if (text.size() > suffix.size() && text.substr(text.size() - suffix.size()) == suffix) {
      const auto number = to_number(text.substr(0, text.size() - suffix.size()));
      return number ? std::optional(*number * unit) : std::nullopt;
    }
  return to_number(text);
}

double gpus_of(const Document& container) {
  double gpus = 0;
  for (const auto& [name, value] : container.at("resources.limits").members)
    if (starts_with(name, "nvidia.com/gpu") || starts_with(name, "nvidia.com/mig-"))
      gpus += value.number().value_or(0);
  return gpus;
}

}  // namespace cheetah::doctor
