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

  std::vector<const Document*> containers() const;
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

// "500m" -> 0.5, "16" -> 16; nullopt when it is no quantity.
std::optional<double> parse_cpus(const std::string& text);
std::optional<double> parse_memory(const std::string& text);  // "16Gi", "512M"
double gpus_of(const Document& container);                    // whole ones; slices count as one each

}  // namespace cheetah::doctor
