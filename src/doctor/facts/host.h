// SPDX-License-Identifier: MIT
#pragma once
// The kernel and what it says about itself.
#include <map>
#include <string>
#include <vector>

#include "doctor/value.h"

namespace cheetah::doctor {

struct Pressure {
  double some_avg60 = 0;  // % of the last minute in which tasks waited
};

struct BusyProcess {
  int64_t pid = 0, parent = 0, group = 0, session = 0;
  std::string name;
  double ticks = 0;        // of 10 ms, since it started
  double start_ticks = 0;  // after boot; 0 unknown
};

struct HostFacts {
  Value<std::string> kernel;
  Value<std::string> os_name;
  Value<std::string> command_line;
  Value<std::string> clocksource;
  Value<std::string> clock_sync;  // "synchronized 1 error_us 120"
  Value<std::string> vendor, product, bios_version, bios_date, asset_tag;
  Value<bool> is_virtual;      // a hypervisor runs below this kernel
  bool has_x86_flags = false;  // cpuinfo lists flags: it would name a hypervisor
  double uptime_s = 0;         // 0 unknown
  Value<bool> is_root;
  Value<std::string> kernel_log;
  Value<std::vector<std::string>> modules;
  Value<std::vector<std::string>> iommus;
  std::map<std::string, Value<Pressure>, std::less<>> pressure;  // cpu, memory, io
  Value<std::vector<BusyProcess>> processes;
  Value<int64_t> rt_runtime_us;
  Value<int64_t> perf_paranoid;
  Value<std::vector<std::string>> mitigations;  // that slow system calls down, by name

  bool has_module(std::string_view name) const;
  bool runs(std::string_view process_name) const;
  const BusyProcess* process(int64_t pid) const;
};

HostFacts collect_host(const Source& source);

}  // namespace cheetah::doctor
