#include "doctor/diff.h"

#include <algorithm>
#include <set>

#include "base/format.h"
#include "base/table.h"

namespace cheetah::doctor {
namespace {

template <class T>
std::string known(const Value<T>& value) {
  if (!value) return "-";
  return format("{}", *value);
}

std::string gpus_text(const Facts& facts) {
  if (facts.gpu.count() == 0) return "-";
  std::set<std::string> kinds;
  for (const Gpu& gpu : *facts.gpu.gpus) kinds.insert(gpu.name() + " " + gpu.text("vbios").value_or(""));
  std::string text = format("{} x ", facts.gpu.count());
  for (const std::string& kind : kinds) text += kind + (kind == *kinds.rbegin() ? "" : " + ");
  return text;
}

std::string adapters_text(const Facts& facts) {
  std::set<std::string> kinds;
  for (const RdmaPort& port : facts.network.rdma.value_or({}))
    kinds.insert(port.rate.value_or("?") + " fw " + port.firmware);
  std::string text = kinds.empty() ? "-" : format("{} x ", facts.network.rdma->size());
  for (const std::string& kind : kinds) text += kind + (kind == *kinds.rbegin() ? "" : " + ");
  return text;
}

std::string mtus_text(const Facts& facts) {
  std::set<int64_t> mtus;
  for (const Nic* nic : facts.network.fast_nics()) mtus.insert(nic->mtu.value_or(0));
  std::string text = mtus.empty() ? "-" : "";
  for (const int64_t mtu : mtus) text += format("{}{}", text.empty() ? "" : " ", mtu);
  return text;
}

std::string governor_text(const Facts& facts) {
  std::set<std::string> governors;
  for (const CpuCore& core : facts.cpu.cores)
    if (core.governor) governors.insert(*core.governor);
  std::string text = governors.empty() ? "-" : "";
  for (const std::string& governor : governors) text += (text.empty() ? "" : " ") + governor;
  return text;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> inventory(const Facts& facts) {
  std::vector<std::pair<std::string, std::string>> list = {
      {"kernel", known(facts.host.kernel)},
      {"system", known(facts.host.os_name)},
      {"BIOS", known(facts.host.bios_version)},
      {"kernel command line", known(facts.host.command_line)},
      {"CPUs", facts.cpu.online ? format("{}", facts.cpu.online->size()) : "-"},
      {"NUMA nodes", format("{}", facts.cpu.num_nodes())},
      {"memory", facts.memory.bytes("MemTotal") ? human_bytes(*facts.memory.bytes("MemTotal")) : "-"},
      {"GPUs", gpus_text(facts)},
      {"driver", known(facts.gpu.driver)},
      {"kernel module", known(facts.gpu.module_version)},
      {"CUDA toolkit", known(facts.software.cuda_version)},
      {"NCCL", known(facts.gpu.library_version("libnccl.so."))},
      {"RDMA adapters", adapters_text(facts)},
      {"MTU of fast adapters", mtus_text(facts)},
      {"governor", governor_text(facts)},
      {"huge pages", known(facts.memory.thp_enabled)},
      {"swappiness", known(facts.memory.swappiness)},
      {"NUMA balancing", known(facts.memory.numa_balancing)},
      {"cgroup", known(facts.container.cgroup_version)},
      {"TCP congestion control", known(facts.network.congestion_control)},
      {"locked memory", known(facts.process().limit("Max locked memory"))},
  };
  for (const auto& [name, value] : facts.software.environment.value_or({}))
    if (!starts_with(name, "RANK") && !starts_with(name, "LOCAL_RANK"))
      list.emplace_back("variable " + name, value);
  return list;
}

std::vector<Difference> differences(const std::vector<HostFactsOf>& hosts) {
  std::vector<std::string> keys;
  std::vector<std::map<std::string, std::string>> all;
  for (const HostFactsOf& host : hosts) {
    auto& values = all.emplace_back();
    for (const auto& [key, value] : inventory(host.facts)) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
      values[key] = value;
    }
  }
  std::vector<Difference> found;
  for (const std::string& key : keys) {
    Difference difference{key, {}, true};
    std::set<std::string> distinct;
    for (const auto& values : all) {
      const auto at = values.find(key);
      difference.values.push_back(at == values.end() ? "-" : at->second);
      distinct.insert(difference.values.back());
    }
    difference.matters = !distinct.contains("-");
    if (distinct.size() > 1) found.push_back(std::move(difference));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Difference& a, const Difference& b) { return a.matters > b.matters; });
  return found;
}

std::string difference_table(const std::vector<HostFactsOf>& hosts, const std::vector<Difference>& found) {
  if (found.empty()) return format("{} hosts agree on all that was compared\n", hosts.size());
  std::vector<std::string> header = {"differs"};
  for (const HostFactsOf& host : hosts) header.push_back(host.name);
  Table table(header);
  for (const Difference& difference : found) {
    std::vector<std::string> row = {difference.key};
    for (const std::string& value : difference.values)
      row.push_back(value.size() > 40 ? value.substr(0, 37) + "…" : value);
    table.add(std::move(row));
  }
  return table.render();
}

}  // namespace cheetah::doctor
