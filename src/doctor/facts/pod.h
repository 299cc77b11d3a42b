// SPDX-License-Identifier: MIT
#pragma once
// Kubernetes objects of a YAML file: the pods they would start, and the autoscalers beside them.
#include <string>
#include <vector>

#include "doctor/document.h"

namespace cheetah::doctor {

struct PodSpec {
  std::string kind, name;  // Deployment vllm
  Document spec;           // of the pod
  double replicas = 1;

  std::vector<const Document*> containers() const;      // what serves, sidecars included
  std::vector<const Document*> all_containers() const;  // and those that only run before
  bool is_service() const {
    return kind == "Deployment" || kind == "StatefulSet" || kind == "LeaderWorkerSet";
  }
};

struct PodFacts {
  std::vector<PodSpec> pods;
  std::vector<Document> autoscalers;
};

// Throws Error when the text is no YAML, or holds nothing that starts a pod.
PodFacts read_pods(std::string_view text, const std::string& what);

// A quantity of Kubernetes: "500m", "16", "16Gi", "512M", "1e3", "1.5"; nullopt when it is none.
std::optional<double> parse_quantity(std::string_view text);
double gpus_of(const Document& container);  // whole ones; slices count as one each

}  // namespace cheetah::doctor
