// SPDX-License-Identifier: MIT
// POD: Kubernetes objects, before they are applied.
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/table.h"
#include "doctor/check.h"
#include "doctor/facts/options.h"

namespace cheetah::doctor {
namespace {

constexpr double kLeastStartup = 120;  // seconds to load weights and warm up
constexpr double kLeastGrace = 60;     // seconds to drain streams
constexpr double kLeastCpusPerGpu = 4;
constexpr double kLeastMemoryPerGpu = 16.0 * 1073741824;
constexpr double kLeastStabilization = 300;

using Wrong = std::optional<std::string>;  // what is wrong, "" nothing; nullopt: the rule is not for this one

template <class Look>
Outcome each_pod(const Facts& facts, const std::string& found, const std::string& otherwise, Look look) {
  if (!facts.pod) return not_applicable("no pod was named (cheetah doctor pod FILE)");
  std::vector<Subject> subjects;
  int told = 0;
  for (const PodSpec& pod : facts.pod->pods) {
    const Wrong what = look(pod);
    told += what ? 1 : 0;
    if (what && !what->empty()) subjects.push_back({pod.kind + "/" + pod.name, *what});
  }
  if (told == 0) return not_applicable("no pod here is concerned");
  return bad_if_any(std::move(subjects), found, otherwise);
}

// The first wrong container decides for its pod.
enum class Which { kServing, kAll };

template <class Look>
Outcome each_container(const Facts& facts, const std::string& found, const std::string& otherwise, Look look,
    Which which = Which::kServing) {
  return each_pod(facts, found, otherwise, [&](const PodSpec& pod) -> Wrong {
    Wrong result;
    for (const Document* container : which == Which::kAll ? pod.all_containers() : pod.containers()) {
      const Wrong what = look(pod, *container);
      if (!what) continue;
      if (!what->empty()) return container->at("name").string_or("?") + ": " + *what;
      result = "";
    }
    return result;
  });
}

Outcome pod_is_guaranteed(const Facts& facts) {
  return each_container(
      facts, "pods are not of class Guaranteed", "pods are of class Guaranteed",
      [](const PodSpec&, const Document& container) -> Wrong {
        for (const char* name : {"cpu", "memory"}) {
          const std::string limit = container.at("resources.limits").at(name).string_or(""),
                            request = container.at("resources.requests").at(name).string_or(limit);
          if (limit.empty()) return format("no {} limit", name);
          const auto most = parse_quantity(limit), asked = parse_quantity(request);
          if (!most || !asked) return format("{} is no quantity", most ? request : limit);
          if (*most != *asked) return format("{} {} requested, {} allowed", name, request, limit);
        }
        return "";
      },
      Which::kAll);
}

Outcome cpus_are_whole(const Facts& facts) {
  return each_container(facts, "CPUs are asked for in parts", "whole CPUs are asked for",
      [](const PodSpec&, const Document& container) -> Wrong {
        const std::string text = container.at("resources.limits.cpu").string_or("");
        const auto cpus = parse_quantity(text);
        if (!cpus) return std::nullopt;
        return std::floor(*cpus) == *cpus ? "" : text;
      });
}

Outcome gpus_are_whole(const Facts& facts) {
  return each_container(facts, "GPU requests are wrong", "GPU requests are correct",
      [](const PodSpec&, const Document& container) -> Wrong {
        bool whole = false, slice = false;
        for (const auto& [name, value] : container.at("resources.limits").members) {
          whole = whole || name == "nvidia.com/gpu";
          slice = slice || starts_with(name, "nvidia.com/mig-");
          if (starts_with(name, "nvidia.com/") && !to_integer(value.text)) return name + " " + value.text;
        }
        bool requested = false;
        for (const auto& [name, value] : container.at("resources.requests").members)
          requested = requested || name == "nvidia.com/gpu";
        if (requested && !whole) return "requested, but no limit: the scheduler refuses it";
        if (!whole && !slice) return std::nullopt;
        return whole && slice ? "whole GPUs and slices together" : "";
      });
}

// A volume of memory without a size may grow to half of the node's memory, or to the pod's limit.
std::string wrong_volume(const Document& volume, double gpus) {
  constexpr double kLeastPerGpu = 1073741824;
  if (volume.at("emptyDir.medium").text != "Memory") return "/dev/shm is on disk";
  const std::string size = volume.at("emptyDir.sizeLimit").string_or("");
  if (size.empty()) return "";
  const auto bytes = parse_quantity(size);
  if (!bytes) return format("sizeLimit {} is no quantity", size);
  return *bytes < kLeastPerGpu * gpus ? format("/dev/shm of {} for {:.0f} GPUs", size, gpus) : "";
}

Outcome shm_is_mounted(const Facts& facts) {
  return each_container(facts, "GPU pods have 64 MiB of shared memory", "GPU pods have shared memory",
      [](const PodSpec& pod, const Document& container) -> Wrong {
        if (gpus_of(container) < 1) return std::nullopt;
        for (const Document& mount : container.at("volumeMounts").items) {
          if (mount.at("mountPath").text != "/dev/shm") continue;
          for (const Document& volume : pod.spec.at("volumes").items)
            if (volume.at("name").text == mount.at("name").text)
              return wrong_volume(volume, gpus_of(container));
        }
        return pod.spec.at("hostIPC").is_true() ? "" : "no memory volume on /dev/shm";
      });
}

Outcome pod_is_not_privileged(const Facts& facts) {
  return each_container(
      facts, "containers are privileged", "no container is privileged",
      [](const PodSpec&, const Document& container) -> Wrong {
        return container.at("securityContext.privileged").is_true() ? "privileged" : "";
      },
      Which::kAll);
}

bool wants_rdma(const Document& container) {
  for (const auto& [name, value] : container.at("resources.limits").members)
    if (starts_with(name, "rdma/") || contains(name, "roce") || contains(name, "infiniband") ||
        starts_with(name, "vpc.amazonaws.com/efa"))
      return true;
  return false;
}

Outcome rdma_may_lock(const Facts& facts) {
  return each_container(facts, "RDMA pods may not lock memory", "RDMA pods may lock memory",
      [](const PodSpec&, const Document& container) -> Wrong {
        if (!wants_rdma(container)) return std::nullopt;
        for (const Document& capability : container.at("securityContext.capabilities.add").items)
          if (capability.text == "IPC_LOCK") return "";
        return container.at("securityContext.privileged").is_true() ? "" : "IPC_LOCK is not added";
      });
}

Outcome network_is_fast(const Facts& facts) {
  if (!facts.intent.multi_node) return not_applicable("one machine (--multi-node asks for it)");
  return each_container(facts, "pods of a job over several machines use the overlay network",
      "pods have a fast network", [](const PodSpec& pod, const Document& container) -> Wrong {
        if (gpus_of(container) < 1) return std::nullopt;
        return wants_rdma(container) || pod.spec.at("hostNetwork").is_true()
                   ? ""
                   : "neither an RDMA resource nor hostNetwork";
      });
}

Outcome images_are_pinned(const Facts& facts) {
  return each_container(
      facts, "images may change under the same name", "images are pinned",
      [](const PodSpec&, const Document& container) -> Wrong {
        const std::string image = container.at("image").string_or("");
        if (image.empty()) return std::nullopt;
        return contains(image, "@sha256:") ? "" : image;
      },
      Which::kAll);
}

Outcome start_is_awaited(const Facts& facts) {
  return each_container(facts, "servers are killed or used before they are warm", "start-up is waited for",
      [](const PodSpec& pod, const Document& container) -> Wrong {
        if (!pod.is_service() || gpus_of(container) < 1) return std::nullopt;
        const Document& startup = container.at("startupProbe");
        if (!startup.is_map())
          return container.at("livenessProbe").is_map() &&
                         container.at("livenessProbe.initialDelaySeconds").number().value_or(0) <
                             kLeastStartup
                     ? "a liveness probe without a startup probe"
                 : container.at("readinessProbe").is_map() ? ""
                                                           : "no probe at all";
        const double budget = startup.at("failureThreshold").number().value_or(3) *
                                  startup.at("periodSeconds").number().value_or(10) +
                              startup.at("initialDelaySeconds").number().value_or(0);
        return budget >= kLeastStartup ? "" : format("{:.0f} s to start", budget);
      });
}

Outcome readiness_is_its_own(const Facts& facts) {
  return each_container(facts, "a busy server would be restarted", "readiness and liveness are told apart",
      [](const PodSpec& pod, const Document& container) -> Wrong {
        if (!pod.is_service() || !container.has("readinessProbe.httpGet.path") ||
            !container.has("livenessProbe.httpGet.path"))
          return std::nullopt;
        const std::string live = container.at("livenessProbe.httpGet.path").text,
                          ready = container.at("readinessProbe.httpGet.path").text;
        const double patience = container.at("livenessProbe.timeoutSeconds").number().value_or(1) *
                                container.at("livenessProbe.failureThreshold").number().value_or(3);
        return live == ready && patience < 30 ? format("both ask {}", live) : "";
      });
}

Outcome streams_are_drained(const Facts& facts) {
  return each_pod(
      facts, "streams are cut at each update", "streams are drained", [](const PodSpec& pod) -> Wrong {
        if (!pod.is_service()) return std::nullopt;
        const double grace = pod.spec.at("terminationGracePeriodSeconds").number().value_or(30);
        return grace >= kLeastGrace ? "" : format("{:.0f} s of grace", grace);
      });
}

Outcome cpus_feed_gpus(const Facts& facts) {
  return each_container(facts, "pods have few CPUs a GPU", "pods have CPUs for their GPUs",
      [](const PodSpec&, const Document& container) -> Wrong {
        const double gpus = gpus_of(container);
        const auto cpus = parse_quantity(container.at("resources.limits.cpu").string_or(""));
        if (gpus < 1 || !cpus) return std::nullopt;
        return *cpus / gpus >= kLeastCpusPerGpu ? "" : format("{:.1f} CPUs a GPU", *cpus / gpus);
      });
}

Outcome memory_feeds_gpus(const Facts& facts) {
  return each_container(facts, "pods have little memory a GPU", "pods have memory for their GPUs",
      [](const PodSpec&, const Document& container) -> Wrong {
        const double gpus = gpus_of(container);
        const auto bytes = parse_quantity(container.at("resources.limits.memory").string_or(""));
        if (gpus < 1 || !bytes) return std::nullopt;
        return *bytes / gpus >= kLeastMemoryPerGpu ? "" : format("{} a GPU", human_bytes(*bytes / gpus));
      });
}

Outcome data_has_a_volume(const Facts& facts) {
  return each_container(facts, "models and data lie in the container's layers",
      "models and data lie on volumes", [](const PodSpec&, const Document& container) -> Wrong {
        if (gpus_of(container) < 1) return std::nullopt;
        for (const Document& mount : container.at("volumeMounts").items)
          if (mount.at("mountPath").text != "/dev/shm") return "";
        return "no volume but shared memory";
      });
}

// What the container's own variables and command line make of the settings' checks: on a machine of which only the
// number of GPUs is known.
Facts facts_of_container(const Facts& facts, const Document& container) {
  Facts inside;
  inside.intent = facts.intent;
  const std::string source = "container " + container.at("name").string_or("?");
  Fields environment;
  for (const Document& variable : container.at("env").items)
    if (!variable.has("valueFrom")) environment.emplace(variable.at("name").text, variable.at("value").text);
  inside.software.environment = {std::move(environment), source};
  std::vector<std::string> words;
  for (const char* part : {"command", "args"})
    for (const Document& word : container.at(part).items)
      for (const std::string_view piece : words_of(word.text)) words.emplace_back(piece);
  inside.software.settings = {engine_settings(words), source};
  std::vector<Gpu> gpus(static_cast<size_t>(std::clamp(gpus_of(container), 0.0, 64.0)));
  for (size_t i = 0; i < gpus.size(); ++i) gpus[i].index = static_cast<int>(i);
  if (!gpus.empty()) inside.gpu.gpus = {std::move(gpus), source};
  return inside;
}

Outcome settings_are_right(const Facts& facts) {
  return each_container(facts, "a container's variables or options are wrong",
      "variables and options are right", [&](const PodSpec&, const Document& container) -> Wrong {
        if (!container.at("env").is_list() && !container.has("command") && !container.has("args"))
          return std::nullopt;
        const Facts inside = facts_of_container(facts, container);
        std::string wrong;
        for (const auto table : {nccl_checks(), variable_checks(), setting_checks()})
          for (const Check& check : table) {
            const Outcome outcome = check.examine(inside);
            if (outcome.verdict == Verdict::kBad && check.level != Level::kInfo)
              wrong += format("{}{}: {}", wrong.empty() ? "" : "; ", check.id, outcome.found);
          }
        return wrong;
      });
}

Outcome gpus_are_reserved(const Facts& facts) {
  return each_pod(facts, "nothing keeps these pods on GPU nodes of their own",
      "pods are steered to GPU nodes", [](const PodSpec& pod) -> Wrong {
        double gpus = 0;
        for (const Document* container : pod.containers()) gpus += gpus_of(*container);
        if (gpus < 1) return std::nullopt;
        return pod.spec.has("nodeSelector") || pod.spec.has("affinity") || pod.spec.has("tolerations")
                   ? ""
                   : "no selector, affinity or toleration";
      });
}

Outcome scaling_follows_load(const Facts& facts) {
  if (!facts.pod || facts.pod->autoscalers.empty()) return not_applicable("there is no autoscaler");
  std::vector<Subject> blind;
  for (const Document& scaler : facts.pod->autoscalers) {
    bool useful = scaler.at("kind").text == "ScaledObject";
    for (const Document& metric : scaler.at("spec.metrics").items)
      useful = useful || metric.at("type").text != "Resource";
    if (!useful) blind.push_back({scaler.at("metadata.name").string_or("?"), "CPU or memory alone"});
  }
  return bad_if_any(
      std::move(blind), "autoscalers look at the wrong thing", "autoscalers look at queue, cache or latency");
}

Outcome scaling_is_calm(const Facts& facts) {
  if (!facts.pod || facts.pod->autoscalers.empty()) return not_applicable("there is no autoscaler");
  std::vector<Subject> hasty;
  for (const Document& scaler : facts.pod->autoscalers) {
    const double window = scaler.at("spec.behavior.scaleDown.stabilizationWindowSeconds")
                              .number()
                              .value_or(scaler.at("spec.cooldownPeriod").number().value_or(300));
    if (window < kLeastStabilization)
      hasty.push_back({scaler.at("metadata.name").string_or("?"), format("{:.0f} s", window)});
  }
  return bad_if_any(std::move(hasty), "autoscalers take replicas away too soon",
      "autoscalers wait before they take replicas away");
}

constexpr Check kChecks[] = {
    {"POD-01", Layer::kPod, Level::kWarn, 0.08, "Pods are of class Guaranteed",
        "Other classes share CPUs, are throttled, and are evicted first.", "throttling and eviction",
        FixKind::kSetting, "equal requests and limits for cpu and memory in every container", "", "G08",
        pod_is_guaranteed},
    {"POD-02", Layer::kPod, Level::kWarn, 0.08, "CPUs are whole",
        "The static CPU manager gives exclusive CPUs for whole numbers alone.", "shared CPUs",
        FixKind::kSetting, "cpu: \"16\", not 15500m", "", "G08", cpus_are_whole},
    {"POD-03", Layer::kPod, Level::kFail, 0.50, "GPU requests are correct",
        "GPUs come in whole numbers, as limits, of one kind.", "the pod stays pending", FixKind::kSetting,
        "limits: nvidia.com/gpu: N", "", "G07,E02,G03", gpus_are_whole},
    {"POD-04", Layer::kPod, Level::kFail, 0.15, "Shared memory is mounted",
        "The default of 64 MiB is too small for NCCL and loaders.", "bus errors, slower transports",
        FixKind::kSetting, "emptyDir: {medium: Memory, sizeLimit: 16Gi} on /dev/shm", "", "F14",
        shm_is_mounted},
    {"POD-05", Layer::kPod, Level::kInfo, 0, "Containers are not privileged",
        "GPUs and RDMA need device plugins and IPC_LOCK only.", "a safety matter", FixKind::kSetting,
        "privileged: false", "", "B07", pod_is_not_privileged},
    {"POD-06", Layer::kPod, Level::kFail, 0.25, "RDMA pods may lock memory", "Registration locks memory.",
        "fallback to TCP", FixKind::kSetting, "capabilities: {add: [IPC_LOCK]}", "", "B07,O01",
        rdma_may_lock},
    {"POD-07", Layer::kPod, Level::kFail, 0.30, "Pods have a fast network",
        "The overlay network encapsulates every packet in software.", "several times slower collectives",
        FixKind::kSetting, "an RDMA resource with SR-IOV, or hostNetwork: true", "", "O01", network_is_fast},
    {"POD-08", Layer::kPod, Level::kInfo, 0.01, "Images are pinned",
        "A tag that moves brings another CUDA or NCCL to some nodes.", "version drift", FixKind::kSetting,
        "image@sha256:…", "", "B01", images_are_pinned},
    {"POD-09", Layer::kPod, Level::kWarn, 0.15, "Start-up is waited for",
        "Loading weights takes minutes; a liveness probe kills the pod before, and traffic meets a cold engine.",
        "restart loops, cold requests", FixKind::kSetting,
        "startupProbe: {failureThreshold: 60, periodSeconds: 10}", "", "P08", start_is_awaited},
    {"POD-10", Layer::kPod, Level::kWarn, 0.10, "Busy is not dead",
        "One path for both probes turns overload into a restart.", "lost streams under load",
        FixKind::kSetting, "readiness on /health/ready, liveness on /health/live", "", "P08",
        readiness_is_its_own},
    {"POD-11", Layer::kPod, Level::kWarn, 0.03, "Streams are drained",
        "Streams of minutes are cut after 30 seconds.", "failed requests at each update", FixKind::kSetting,
        "terminationGracePeriodSeconds: 120 or more", "", "B05", streams_are_drained},
    {"POD-12", Layer::kPod, Level::kWarn, 0.15, "Pods have CPUs for their GPUs",
        "Tokenizing, sampling and launching need cores.", "GPUs wait for the host", FixKind::kSetting,
        "at least 4, better 8 CPUs a GPU", "", "C04", cpus_feed_gpus},
    {"POD-13", Layer::kPod, Level::kWarn, 0.10, "Pods have memory for their GPUs",
        "Weights pass through host memory; caches live there.", "OOM kills, slow loading", FixKind::kSetting,
        "at least 16Gi a GPU, better the GPU's own memory", "", "C04", memory_feeds_gpus},
    {"POD-14", Layer::kPod, Level::kWarn, 0.08, "Models and data lie on volumes",
        "The container's layers are slow and vanish.", "downloads at each start", FixKind::kSetting,
        "a volume of local NVMe or a parallel file system", "", "H04", data_has_a_volume},
    {"POD-15", Layer::kPod, Level::kWarn, 0.30, "Variables are clean",
        "Debugging switches and misspelt names slow or do nothing.", "up to several times slower",
        FixKind::kSetting, "remove them", "", "O04,L01", settings_are_right},
    {"POD-16", Layer::kPod, Level::kInfo, 0.03, "Pods are steered to GPU nodes",
        "Without taints others take the CPUs beside the GPUs.", "noisy neighbours", FixKind::kSetting,
        "taint GPU nodes; tolerate and select them", "", "P09,G07", gpus_are_reserved},
    {"POD-17", Layer::kPod, Level::kWarn, 0.15, "Scaling follows the load",
        "CPU use of a GPU server says nothing about its queue.", "too few or too many replicas",
        FixKind::kSetting, "scale on waiting requests, cache use or TTFT", "", "P01,P02",
        scaling_follows_load},
    {"POD-18", Layer::kPod, Level::kWarn, 0.05, "Scaling is calm",
        "A replica taken away must load again minutes later.", "cold starts in waves", FixKind::kSetting,
        "stabilizationWindowSeconds: 300 or more", "", "P01", scaling_is_calm},
};

}  // namespace

std::span<const Check> pod_checks() { return kChecks; }

}  // namespace cheetah::doctor
