// SPDX-License-Identifier: MIT
#include "doctor/facts/process.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/error.h"
#include "doctor/facts/options.h"

namespace cheetah::doctor {
namespace {

constexpr int64_t kMaxMapsBytes = int64_t{4} << 20;
constexpr size_t kMaxThreads = 2048;

// "Max locked memory         8388608              8388608              bytes": names hold blanks, columns are
// at least two blanks apart.
Value<Fields> read_limits(const Source& source, const std::string& path) {
  const Text text = source.read(path);
  if (!text.ok()) return Value<Fields>::absent(text);
  Fields limits;
  for (const std::string_view line : lines_of(text.text)) {
    const size_t gap = line.find("  ");
    if (!starts_with(line, "Max ") || gap == std::string_view::npos) continue;
    const auto words = words_of(line.substr(gap));
    if (!words.empty()) limits.emplace(std::string(line.substr(0, gap)), std::string(words[0]));
    if (words.size() > 1) limits.emplace("Hard " + std::string(line.substr(0, gap)), std::string(words[1]));
  }
  if (limits.empty()) return Value<Fields>::unreadable(path, "it lists no limits");
  return {std::move(limits), path};
}

Value<std::vector<std::string>> read_arguments(const Source& source, const std::string& path) {
  const Text text = source.read(path, 262144);
  if (!text.ok()) return Value<std::vector<std::string>>::absent(text);
  return {command_words(text.text), path};
}

Value<std::vector<std::string>> read_libraries(const Source& source, const std::string& path) {
  const Text text = source.read(path, kMaxMapsBytes);
  if (!text.ok()) return Value<std::vector<std::string>>::absent(text);
  std::vector<std::string> libraries;
  for (const std::string_view line : lines_of(text.text)) {
    const size_t slash = line.find('/');
    if (slash == std::string_view::npos || !contains(line, ".so")) continue;
    libraries.push_back(printable(line.substr(slash), 1024));
  }
  std::sort(libraries.begin(), libraries.end());
  libraries.erase(std::unique(libraries.begin(), libraries.end()), libraries.end());
  return {std::move(libraries), path};
}

// "7f… default anon=12 dirty=12 N0=8 N1=4 kernelpagesize_kB=4"
Value<std::map<int, double>> read_node_bytes(const Source& source, const std::string& path) {
  using Bytes = Value<std::map<int, double>>;
  const Text text = source.read(path, kMaxMapsBytes);
  if (!text.ok()) return Bytes::absent(text);
  std::map<int, double> bytes;
  for (const std::string_view line : lines_of(text.text)) {
    double page = 4;
    std::map<int, double> pages;
    for (const std::string_view word : words_of(line)) {
      const size_t equals = word.find('=');
      if (equals == std::string_view::npos) continue;
      const auto number = to_number(word.substr(equals + 1));
      const auto node = word[0] == 'N' ? to_integer(word.substr(1, equals - 1)) : std::nullopt;
      if (number && node && *node >= 0 && *node < 4096) pages[static_cast<int>(*node)] += *number;
      if (number && starts_with(word, "kernelpagesize_kB")) page = *number;
    }
    for (const auto& [node, count] : pages) bytes[node] += count * page * 1024;
  }
  if (bytes.empty()) return Bytes::absent(path, "it counts no pages");
  return {std::move(bytes), path};
}

Value<int64_t> read_policy(const Source& source, const std::string& path) {
  const Text text = source.read(path, 4096);
  if (!text.ok()) return Value<int64_t>::absent(text);
  const size_t close = text.text.rfind(')');
  const auto words = words_of(std::string_view(text.text).substr(close == std::string::npos ? 0 : close + 1));
  const auto policy = words.size() > 38 ? to_integer(words[38]) : std::nullopt;  // field 41 of stat
  if (!policy) return Value<int64_t>::unreadable(path, "it has no scheduling policy");
  return {*policy, path};
}

Value<std::vector<ThreadFacts>> read_threads(const Source& source, const std::string& folder) {
  std::vector<ThreadFacts> threads;
  for (const std::string& name : source.list(folder)) {
    const auto id = to_integer(name);
    if (!id) continue;
    ThreadFacts thread;
    thread.id = *id;
    const auto status = read_fields(source, folder + "/" + name + "/status", ':');
    if (status)
      if (const auto list = status->find("Cpus_allowed_list"); list != status->end())
        if (auto cpus = to_cpus(list->second)) thread.cpus = {std::move(*cpus), status.source()};
    thread.policy = read_policy(source, folder + "/" + name + "/stat");
    threads.push_back(std::move(thread));
    if (threads.size() >= kMaxThreads) break;
  }
  if (threads.empty()) return Value<std::vector<ThreadFacts>>::absent(folder, "its threads are not visible");
  return {std::move(threads), folder};
}

void read_open_files(const Source& source, const std::string& folder, ProcessFacts& facts) {
  std::vector<int64_t> flags;
  std::vector<int> gpus;
  const auto names = source.list(folder + "/fd");
  for (const std::string& name : names) {
    const std::string target = source.link(folder + "/fd/" + name);
    if (starts_with(target, "/dev/nvidia"))
      if (const auto index = to_integer(target.substr(11))) gpus.push_back(static_cast<int>(*index));
    if (!starts_with(target, "/") || starts_with(target, "/dev/")) continue;
    const auto info = read_fields(source, folder + "/fdinfo/" + name, ':');
    if (!info) continue;
    const auto field = info->find("flags");
    if (field != info->end()) flags.push_back(std::strtoll(field->second.c_str(), nullptr, 8));
  }
  std::sort(gpus.begin(), gpus.end());
  gpus.erase(std::unique(gpus.begin(), gpus.end()), gpus.end());
  if (names.empty()) {
    facts.open_flags = Value<std::vector<int64_t>>::absent(folder + "/fd", "its files are not visible");
    facts.gpus = Value<std::vector<int>>::absent(folder + "/fd", "its files are not visible");
    return;
  }
  facts.open_flags = {std::move(flags), folder + "/fdinfo"};
  facts.gpus = {std::move(gpus), folder + "/fd"};
}

Value<std::vector<int64_t>> read_children(
    const Source& source, const std::string& folder, const std::string& id) {
  const std::string path = folder + "/task/" + id + "/children";
  Text text = source.read(path);
  if (!text.ok()) return Value<std::vector<int64_t>>::absent(text);
  std::vector<int64_t> children;
  for (const std::string_view word : words_of(text.text))
    if (const auto child = to_integer(word)) children.push_back(*child);
  return {std::move(children), path};
}

struct Ancestry {
  int64_t parent = 0;
  std::string name;
};

std::map<int64_t, Ancestry> read_ancestry(const Source& source) {
  constexpr size_t kMost = 32768;
  std::map<int64_t, Ancestry> all;
  for (const std::string& name : source.list("proc")) {
    const auto pid = to_integer(name);
    if (!pid || *pid <= 0 || all.size() >= kMost) continue;
    const Text stat = source.read("proc/" + name + "/stat", 4096);
    const size_t open = stat.text.find('('), close = stat.text.rfind(')');
    if (!stat.ok() || open == std::string::npos || close == std::string::npos || close < open) continue;
    const auto words = words_of(std::string_view(stat.text).substr(close + 1));
    if (words.size() < 2) continue;
    all[*pid] = {to_integer(words[1]).value_or(0), stat.text.substr(open + 1, close - open - 1)};
  }
  return all;
}

// What starts jobs of many people is no part of one job.
bool starts_many_jobs(const std::string& name) {
  for (const char* known : {"systemd", "init", "sshd", "containerd-shim", "dockerd", "conmon", "slurmd",
           "slurmstepd", "kubelet", "login", "tmux", "screen", "crond", "pbs_mom"})
    if (starts_with(name, known)) return true;
  return false;
}

// The group of a container or a batch job: its processes belong together.
std::string own_group(const Source& source, const std::string& id) {
  std::string text = source.read("proc/" + id + "/cgroup", 65536).text;
  for (const char* mark : {"docker", "kubepods", "libpod", "slurm/", "lxc", "job_"})
    if (contains(text, mark)) return text;
  return "";
}

Value<std::vector<int64_t>> find_relatives(const Source& source, const std::string& id) {
  const auto all = read_ancestry(source);
  const auto own = to_integer(id);
  if (!own || all.find(*own) == all.end())
    return Value<std::vector<int64_t>>::absent("proc/*/stat", "the process tree is not visible");
  int64_t top = *own;
  for (int steps = 0; steps < 64; ++steps) {
    const auto parent = all.find(all.at(top).parent);
    if (parent == all.end() || parent->first <= 1 || starts_many_jobs(parent->second.name)) break;
    top = parent->first;
  }
  const std::string group = own_group(source, id);
  std::vector<int64_t> relatives;
  for (const auto& [pid, one] : all) {
    int64_t at = pid;
    for (int steps = 0; steps < 64 && at != top; ++steps) {
      const auto next = all.find(at);
      if (next == all.end() || next->second.parent <= 0) break;
      at = next->second.parent;
    }
    if (at == top ||
        (!group.empty() && source.read("proc/" + std::to_string(pid) + "/cgroup", 65536).text == group))
      relatives.push_back(pid);
  }
  return {std::move(relatives), "proc/*/stat"};
}

}  // namespace

Value<double> ProcessFacts::limit(const std::string& name) const {
  if (!limits) return Value<double>::absent(limits.source(), limits.reason());
  const auto found = limits->find(name);
  if (found == limits->end()) return Value<double>::absent(limits.source(), "it has no line '" + name + "'");
  if (found->second == "unlimited") return {std::numeric_limits<double>::infinity(), limits.source()};
  const auto number = to_number(found->second);
  if (!number) return Value<double>::unreadable(limits.source(), "found '" + printable(found->second) + "'");
  return {*number, limits.source()};
}

Value<double> ProcessFacts::status_kb(const std::string& name) const {
  if (!status) return Value<double>::absent(status.source(), status.reason());
  const auto number = number_in(*status, name);
  if (!number) return Value<double>::absent(status.source(), "it has no line " + name);
  return {*number, status.source()};
}

bool ProcessFacts::is_relative(int64_t pid) const {
  return id == std::to_string(pid) ||
         (relatives && std::binary_search(relatives->begin(), relatives->end(), pid));
}

ProcessFacts collect_process(const Source& source, const std::string& id) {
  const std::string folder = "proc/" + id;
  ProcessFacts facts;
  facts.id = id;
  facts.status = read_fields(source, folder + "/status", ':');
  facts.limits = read_limits(source, folder + "/limits");
  if (facts.status)
    if (const auto list = facts.status->find("Cpus_allowed_list"); list != facts.status->end())
      if (auto cpus = to_cpus(list->second)) facts.cpus = {std::move(*cpus), facts.status.source()};
  facts.environment = read_fields(source, "cheetah/environ/" + id, '=');
  facts.arguments = read_arguments(source, folder + "/cmdline");
  if (id == "self") return facts;  // the rest is about a job
  facts.libraries = read_libraries(source, folder + "/maps");
  facts.node_bytes = read_node_bytes(source, folder + "/numa_maps");
  facts.smaps = read_fields(source, folder + "/smaps_rollup", ':');
  facts.threads = read_threads(source, folder + "/task");
  facts.children = read_children(source, folder, id);
  facts.relatives = find_relatives(source, id);
  read_open_files(source, folder, facts);
  return facts;
}

}  // namespace cheetah::doctor
