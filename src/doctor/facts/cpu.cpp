// SPDX-License-Identifier: MIT
#include "doctor/facts/cpu.h"

#include <algorithm>
#include <set>

#include "doctor/text.h"

namespace cheetah::doctor {
namespace {

const std::string kCpuFolder = "sys/devices/system/cpu";

// The number after a prefix: cpu12 -> 12; nullopt for cpufreq.
std::optional<int64_t> number_after(std::string_view name, std::string_view prefix) {
  if (!starts_with(name, prefix)) return std::nullopt;
  return to_integer(name.substr(prefix.size()));
}

std::vector<IdleState> read_idle_states(const Source& source, const std::string& folder) {
  std::vector<IdleState> states;
  for (const std::string& name : source.list(folder)) {
    if (!starts_with(name, "state")) continue;
    const std::string path = folder + "/" + name;
    states.push_back({read_line(source, path + "/name").value_or(name),
        read_integer(source, path + "/latency").value_or(0),
        read_integer(source, path + "/disable").value_or(0) != 0});
  }
  return states;
}

CpuCore read_core(const Source& source, int cpu) {
  const std::string folder = kCpuFolder + "/cpu" + std::to_string(cpu);
  CpuCore core;
  core.cpu = cpu;
  core.package = read_integer(source, folder + "/topology/physical_package_id");
  core.core = read_integer(source, folder + "/topology/core_id");
  const std::string frequency = folder + "/cpufreq/";
  core.driver = read_line(source, frequency + "scaling_driver");
  if (core.driver) {
    core.governor = read_line(source, frequency + "scaling_governor");
    core.preference = read_line(source, frequency + "energy_performance_preference");
    core.frequency_khz = read_integer(source, frequency + "scaling_cur_freq");
    core.base_khz = read_integer(source, frequency + "base_frequency");
    core.max_khz = read_integer(source, frequency + "cpuinfo_max_freq");
    core.limit_khz = read_integer(source, frequency + "scaling_max_freq");
    const auto steps = read_line(source, frequency + "scaling_available_frequencies");
    int64_t top = 0;
    const std::string list = steps.value_or("");
    for (const std::string_view step : words_of(list)) top = std::max(top, to_integer(step).value_or(0));
    if (top > 0) core.top_step_khz = {top, steps.source()};
  }
  core.idle_states = read_idle_states(source, folder + "/cpuidle");
  return core;
}

Value<std::vector<NumaNode>> read_nodes(const Source& source) {
  const std::string folder = "sys/devices/system/node";
  std::vector<NumaNode> nodes;
  for (const std::string& name : source.list(folder)) {
    const auto number = number_after(name, "node");
    if (!number || *number < 0 || *number > 4096) continue;
    NumaNode node;
    node.node = static_cast<int>(*number);
    node.cpus = read_cpus(source, folder + "/" + name + "/cpulist").value_or({});
    const Text memory = source.read(folder + "/" + name + "/meminfo");
    for (const std::string_view line : lines_of(memory.text)) {
      const auto words = words_of(line);
      if (words.size() >= 4 && words[2] == "MemTotal:")
        node.memory_bytes = static_cast<int64_t>(to_number(words[3]).value_or(0) * 1024);
    }
    const std::string pool = folder + "/" + name + "/hugepages/hugepages-2048kB/";
    node.huge_pages_total = read_integer(source, pool + "nr_hugepages");
    node.huge_pages_free = read_integer(source, pool + "free_hugepages");
    nodes.push_back(std::move(node));
  }
  if (nodes.empty()) return Value<std::vector<NumaNode>>::absent(folder, "the kernel lists no NUMA nodes");
  std::sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.node < b.node; });
  return {std::move(nodes), folder};
}

Value<std::string> read_boost(const Source& source) {
  auto no_turbo = read_line(source, kCpuFolder + "/intel_pstate/no_turbo");
  if (no_turbo.is_unreadable()) return no_turbo;
  if (no_turbo) return {*no_turbo == "1" ? "0" : "1", no_turbo.source()};
  return read_line(source, kCpuFolder + "/cpufreq/boost");
}

Value<int64_t> count_physical(const std::vector<CpuCore>& cores) {
  std::set<std::pair<int64_t, int64_t>> physical;
  for (const CpuCore& core : cores)
    if (core.package && core.core) physical.insert({*core.package, *core.core});
  const std::string path = kCpuFolder + "/cpu*/topology/core_id";
  if (physical.empty()) return Value<int64_t>::absent(path, "the kernel does not tell the cores");
  return {static_cast<int64_t>(physical.size()), path};
}

}  // namespace

int CpuFacts::num_nodes_with_cpus() const {
  if (!nodes) return 1;
  return static_cast<int>(
      std::count_if(nodes->begin(), nodes->end(), [](const auto& n) { return !n.cpus.empty(); }));
}

int CpuFacts::node_of(int cpu) const {
  if (nodes)
    for (const NumaNode& node : *nodes)
      if (std::binary_search(node.cpus.begin(), node.cpus.end(), cpu)) return node.node;
  return -1;
}

std::vector<int> CpuFacts::cpus_of(int node) const {
  if (nodes)
    for (const NumaNode& candidate : *nodes)
      if (candidate.node == node) return candidate.cpus;
  return {};
}

CpuFacts collect_cpu(const Source& source) {
  CpuFacts facts;
  facts.online = read_cpus(source, kCpuFolder + "/online");
  facts.present = read_cpus(source, kCpuFolder + "/present");
  if (facts.online)
    for (const int cpu : *facts.online) facts.cores.push_back(read_core(source, cpu));
  facts.smt_active = read_line(source, kCpuFolder + "/smt/active");
  facts.smt_control = read_line(source, kCpuFolder + "/smt/control");
  facts.isolated = read_cpus(source, kCpuFolder + "/isolated");
  facts.nohz_full = read_cpus(source, kCpuFolder + "/nohz_full");
  facts.boost = read_boost(source);
  facts.nodes = read_nodes(source);
  facts.physical_cores = count_physical(facts.cores);
  return facts;
}

}  // namespace cheetah::doctor
