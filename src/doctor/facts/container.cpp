// SPDX-License-Identifier: MIT
#include "doctor/facts/container.h"

#include <limits>

#include "base/error.h"
#include "doctor/facts/storage.h"

namespace cheetah::doctor {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr double kUnlimitedV1 = 9e18;  // cgroup v1 writes "no limit" as the largest multiple of a page

Value<double> read_bytes(const Source& source, const std::string& path) {
  const Text text = source.read(path, 4096);
  if (!text.ok()) return Value<double>::absent(text);
  if (trimmed(text.text) == "max") return {kNoLimit, path};
  const auto number = to_number(text.text);
  if (!number)
    return Value<double>::unreadable(path, "expected bytes or max, found '" + printable(text.text) + "'");
  return {*number >= kUnlimitedV1 ? kNoLimit : *number, path};
}

Value<std::string> runtime_of_group(const std::string& groups, const std::string& path) {
  const std::pair<const char*, const char*> marks[] = {
      {"kubepods", "kubernetes"}, {"docker", "docker"}, {"libpod", "podman"}, {"lxc", "lxc"}};
  for (const auto& [mark, name] : marks)
    if (contains(groups, mark)) return {name, path};
  return Value<std::string>::absent(path, "this is a host, not a container");
}

Value<std::string> find_runtime(const Source& source, const std::string& own_cgroup) {
  if (source.read(".dockerenv", 16).absence != Absence::kMissing) return {"docker", ".dockerenv"};
  if (source.read("run/.containerenv", 4096).absence != Absence::kMissing)
    return {"podman", "run/.containerenv"};
  if (!source.list("var/run/secrets/kubernetes.io").empty() ||
      !source.list("run/secrets/kubernetes.io").empty())
    return {"kubernetes", "run/secrets/kubernetes.io"};
  return runtime_of_group(own_cgroup, "proc/self/cgroup");
}

// "0::/user.slice" (v2) or "4:memory:/docker/…" (v1).
std::string path_of_controller(const std::string& text, std::string_view controller) {
  for (const std::string_view line : lines_of(text)) {
    const auto parts = split(line, ':');
    if (parts.size() < 3) continue;
    for (const std::string_view name : split(parts[1], ','))
      if (name == controller) return std::string(trimmed(parts[2]));
  }
  return "";
}

// Inside a container the cgroup file system may show the process's own group as its root.
std::string existing(
    const Source& source, const std::string& folder, const std::string& path, const std::string& file) {
  const std::string full = folder + (path == "/" ? "" : path);
  return source.read(full + "/" + file, 4096).absence == Absence::kMissing ? folder : full;
}

void read_unified(const Source& source, const std::string& own, ContainerFacts& facts) {
  const std::string group = existing(source, "sys/fs/cgroup", path_of_controller(own, ""), "memory.current");
  facts.cgroup = group;
  facts.cpu_max = read_line(source, group + "/cpu.max");
  facts.cpu_stat = read_fields(source, group + "/cpu.stat", ' ');
  facts.memory_events = read_fields(source, group + "/memory.events", ' ');
  facts.memory_max = read_bytes(source, group + "/memory.max");
  facts.memory_peak = read_bytes(source, group + "/memory.peak");
  facts.memory_current = read_bytes(source, group + "/memory.current");
  facts.memory_high = read_bytes(source, group + "/memory.high");
  facts.pids_max = read_bytes(source, group + "/pids.max");
  facts.pids_current = read_bytes(source, group + "/pids.current");
  facts.swap_max = read_bytes(source, group + "/memory.swap.max");
  facts.swap_current = read_bytes(source, group + "/memory.swap.current");
  facts.cpus = read_cpus(source, group + "/cpuset.cpus.effective");
  facts.nodes = read_cpus(source, group + "/cpuset.mems.effective");
  const Text io = source.read(group + "/io.max");
  facts.io_max = io.ok() ? Value<std::string>(io.text, io.path) : Value<std::string>::absent(io);
}

void read_separate(const Source& source, const std::string& own, ContainerFacts& facts) {
  const std::string root = "sys/fs/cgroup/";
  const std::string cpu = existing(source, root + "cpu", path_of_controller(own, "cpu"), "cpu.stat");
  const std::string memory =
      existing(source, root + "memory", path_of_controller(own, "memory"), "memory.limit_in_bytes");
  const std::string cpuset =
      existing(source, root + "cpuset", path_of_controller(own, "cpuset"), "cpuset.cpus");
  facts.cgroup = memory;
  const std::string pids = existing(source, root + "pids", path_of_controller(own, "pids"), "pids.current");
  facts.pids_max = read_bytes(source, pids + "/pids.max");
  facts.pids_current = read_bytes(source, pids + "/pids.current");
  const auto quota = read_integer(source, cpu + "/cpu.cfs_quota_us");
  const auto period = read_integer(source, cpu + "/cpu.cfs_period_us");
  if (quota && period)
    facts.cpu_max = {
        (*quota < 0 ? "max" : std::to_string(*quota)) + " " + std::to_string(*period), quota.source()};
  facts.cpu_stat = read_fields(source, cpu + "/cpu.stat", ' ');
  facts.memory_max = read_bytes(source, memory + "/memory.limit_in_bytes");
  facts.memory_peak = read_bytes(source, memory + "/memory.max_usage_in_bytes");
  facts.memory_current = read_bytes(source, memory + "/memory.usage_in_bytes");
  facts.memory_events = read_fields(source, memory + "/memory.oom_control", ' ');
  facts.cpus = read_cpus(source, cpuset + "/cpuset.cpus");
  facts.nodes = read_cpus(source, cpuset + "/cpuset.mems");
}

Value<Document> read_document(const Source& source, const std::string& path) {
  const Text text = source.read(path);
  if (!text.ok()) return Value<Document>::absent(text);
  try {
    auto documents = parse_documents(text.text, path);
    if (documents.empty()) return Value<Document>::absent(path, "it is empty");
    return {std::move(documents.front()), path};
  } catch (const Error& error) {
    return Value<Document>::unreadable(path, error.what());
  }
}

// tmpfs tells its size among the mount's options: "size=65536k".
Value<double> read_shm(const Source& source) {
  const Text text = source.read("proc/self/mountinfo");
  if (!text.ok()) return Value<double>::absent(text);
  for (const Mount& mount : parse_mounts(text.text)) {
    if (mount.point != "/dev/shm") continue;
    std::string size = mount.option("size");
    if (size.empty()) break;  // the default: half of memory
    double unit = 1;
    if (size.back() == 'k') unit = 1024;
    if (size.back() == 'm') unit = 1048576;
    if (size.back() == 'g') unit = 1073741824;
    if (unit > 1) size.pop_back();
    if (const auto number = to_number(size)) return {*number * unit, text.path};
  }
  return Value<double>::absent(text.path, "/dev/shm has no size of its own");
}

}  // namespace

ContainerFacts collect_container(const Source& source, const std::string& process) {
  ContainerFacts facts;
  const std::string self_groups = source.read("proc/self/cgroup").text;
  facts.around_us = find_runtime(source, self_groups);
  Text own = source.read("proc/" + process + "/cgroup");
  facts.is_the_jobs = process != "self" && own.ok();
  if (!own.ok()) own.text = self_groups;
  facts.runtime =
      facts.around_us ? facts.around_us : runtime_of_group(own.text, "proc/" + process + "/cgroup");
  if (source.read("sys/fs/cgroup/cgroup.controllers", 4096).absence != Absence::kMissing) {
    facts.cgroup_version = {2, "sys/fs/cgroup/cgroup.controllers"};
    read_unified(source, own.text, facts);
  } else if (!source.list("sys/fs/cgroup/memory").empty()) {
    facts.cgroup_version = {1, "sys/fs/cgroup/memory"};
    read_separate(source, own.text, facts);
  } else {
    facts.cgroup_version = Value<int64_t>::absent("sys/fs/cgroup", "no control groups are mounted");
  }
  facts.shm_bytes = read_shm(source);
  const auto status = read_fields(source, "proc/self/status", ':');
  if (status)
    if (const auto found = status->find("CapEff"); found != status->end())
      facts.capabilities = {found->second, status.source()};
  facts.inspect = read_document(source, "cheetah/inspect.json");
  facts.kubelet = read_document(source, "var/lib/kubelet/config.yaml");
  facts.slurm = read_fields(source, "etc/slurm/slurm.conf", '=');
  const Text gres = source.read("etc/slurm/gres.conf");
  facts.gres = gres.ok() ? Value<std::string>(gres.text, gres.path) : Value<std::string>::absent(gres);
  return facts;
}

}  // namespace cheetah::doctor
