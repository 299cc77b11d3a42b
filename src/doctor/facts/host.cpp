// SPDX-License-Identifier: MIT
#include "doctor/facts/host.h"

#include <algorithm>

#include "base/error.h"
#include "doctor/facts/counters.h"
#include "doctor/text.h"

namespace cheetah::doctor {
namespace {

constexpr int64_t kMaxLogBytes = int64_t{2} << 20;
constexpr int kMaxProcesses = 4096;

Value<Pressure> read_pressure(const Source& source, const std::string& path) {
  const Text text = source.read(path);
  if (!text.ok()) return Value<Pressure>::absent(text);
  for (const std::string_view line : lines_of(text.text)) {
    const size_t at = line.find("avg60=");
    if (!starts_with(line, "some") || at == std::string_view::npos) continue;
    const std::string_view rest = line.substr(at + 6);
    if (const auto value = to_number(rest.substr(0, rest.find(' ')))) return {Pressure{*value}, path};
  }
  return Value<Pressure>::unreadable(
      path, "expected 'some avg10=… avg60=…', found '" + printable(text.text) + "'");
}

Value<bool> read_virtual(const Source& source) {
  const Text cpuinfo = source.read("proc/cpuinfo", 65536);
  if (!cpuinfo.ok()) return Value<bool>::absent(cpuinfo);
  return {contains(cpuinfo.text, " hypervisor"), cpuinfo.path};
}

Value<std::vector<std::string>> read_modules(const Source& source) {
  const Text text = source.read("proc/modules");
  if (!text.ok()) return Value<std::vector<std::string>>::absent(text);
  std::vector<std::string> names;
  for (const std::string_view line : lines_of(text.text)) {
    const auto words = words_of(line);
    if (!words.empty()) names.emplace_back(words[0]);
  }
  return {std::move(names), text.path};
}

// The comm field may hold spaces and brackets: the last ')' ends it.
bool parse_stat(const Text& text, BusyProcess& process) {
  const size_t open = text.text.find('('), close = text.text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return false;
  process.name = printable(text.text.substr(open + 1, close - open - 1));
  const auto words = words_of(std::string_view(text.text).substr(close + 1));
  if (words.size() < 13) return false;
  process.parent = to_integer(words[1]).value_or(0);
  process.group = to_integer(words[2]).value_or(0);
  process.session = to_integer(words[3]).value_or(0);
  process.ticks = to_number(words[11]).value_or(0) + to_number(words[12]).value_or(0);
  if (words.size() > 19) process.start_ticks = to_number(words[19]).value_or(0);
  return true;
}

Value<std::vector<BusyProcess>> read_processes(const Source& source) {
  std::vector<BusyProcess> processes;
  for (const std::string& name : source.list("proc")) {
    const auto pid = to_integer(name);
    if (!pid || *pid <= 0) continue;
    BusyProcess process;
    process.pid = *pid;
    const Text stat = source.read("proc/" + name + "/stat", 4096);
    if (stat.ok() && parse_stat(stat, process)) processes.push_back(std::move(process));
    if (processes.size() >= kMaxProcesses) break;
  }
  if (processes.empty())
    return Value<std::vector<BusyProcess>>::absent("proc/*/stat", "no process is visible");
  return {std::move(processes), "proc/*/stat"};
}

Value<std::vector<std::string>> read_mitigations(const Source& source) {
  const std::string folder = "sys/devices/system/cpu/vulnerabilities";
  std::vector<std::string> active;
  const auto names = source.list(folder);
  if (names.empty()) return Value<std::vector<std::string>>::absent(folder, "the kernel does not tell");
  for (const std::string& name : names) {
    const auto line = read_line(source, folder + "/" + name);
    if (line && starts_with(*line, "Mitigation")) active.push_back(name);
  }
  return {std::move(active), folder};
}

Value<std::string> read_os_name(const Source& source) {
  const auto release = read_fields(source, "etc/os-release", '=');
  if (!release) return Value<std::string>::absent(release.source(), release.reason());
  const auto name = release->find("PRETTY_NAME");
  if (name == release->end()) return Value<std::string>::unreadable(release.source(), "it names no system");
  std::string text = printable(name->second);
  std::erase(text, '"');
  return {text, release.source()};
}

Value<std::string> read_all(const Source& source, const std::string& path, int64_t limit) {
  Text text = source.read(path, limit);
  if (!text.ok()) return Value<std::string>::absent(text);
  return {std::move(text.text), path};
}

}  // namespace

bool HostFacts::has_module(std::string_view name) const {
  return modules && std::find(modules->begin(), modules->end(), name) != modules->end();
}

bool HostFacts::runs(std::string_view process_name) const {
  return processes && std::any_of(processes->begin(), processes->end(), [&](const BusyProcess& process) {
    return starts_with(process.name, process_name.substr(0, 15));
  });
}

const BusyProcess* HostFacts::process(int64_t pid) const {
  if (processes)
    for (const BusyProcess& process : *processes)
      if (process.pid == pid) return &process;
  return nullptr;
}

HostFacts collect_host(const Source& source) {
  HostFacts host;
  host.kernel = read_line(source, "proc/sys/kernel/osrelease");
  host.os_name = read_os_name(source);
  host.command_line = read_line(source, "proc/cmdline");
  host.clocksource = read_line(source, "sys/devices/system/clocksource/clocksource0/current_clocksource");
  host.clock_sync = read_line(source, "cheetah/clock");
  host.vendor = read_line(source, "sys/class/dmi/id/sys_vendor");
  host.product = read_line(source, "sys/class/dmi/id/product_name");
  host.bios_version = read_line(source, "sys/class/dmi/id/bios_version");
  host.asset_tag = read_line(source, "sys/class/dmi/id/chassis_asset_tag");
  host.bios_date = read_line(source, "sys/class/dmi/id/bios_date");
  host.is_virtual = read_virtual(source);
  host.has_x86_flags = contains(source.read("proc/cpuinfo", 65536).text, "\nflags");
  host.uptime_s = read_uptime(source);
  const auto user = read_line(source, "cheetah/user");
  host.is_root =
      user ? Value<bool>(*user == "0", user.source()) : Value<bool>::absent(user.source(), user.reason());
  host.kernel_log = read_all(source, "cheetah/dmesg", kMaxLogBytes);
  host.modules = read_modules(source);
  host.iommus = {source.list("sys/class/iommu"), "sys/class/iommu"};
  for (const char* kind : {"cpu", "memory", "io"})
    host.pressure[kind] = read_pressure(source, std::string("proc/pressure/") + kind);
  host.processes = read_processes(source);
  host.rt_runtime_us = read_integer(source, "proc/sys/kernel/sched_rt_runtime_us");
  host.perf_paranoid = read_integer(source, "proc/sys/kernel/perf_event_paranoid");
  host.mitigations = read_mitigations(source);
  return host;
}

}  // namespace cheetah::doctor
