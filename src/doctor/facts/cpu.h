// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "doctor/value.h"

namespace cheetah::doctor {

struct IdleState {
  std::string name;
  int64_t latency_us = 0;
  bool disabled = false;
};

struct CpuCore {
  int cpu = 0;
  Value<int64_t> package, core;
  Value<std::string> driver, governor, preference;  // cpufreq; preference: of the energy-aware drivers
  Value<int64_t> frequency_khz, base_khz, max_khz, limit_khz, top_step_khz;
  std::vector<IdleState> idle_states;
};

struct NumaNode {
  int node = 0;
  std::vector<int> cpus;
  int64_t memory_bytes = 0;
  Value<int64_t> huge_pages_free, huge_pages_total;
};

struct CpuFacts {
  Value<std::vector<int>> online, present;
  std::vector<CpuCore> cores;
  Value<std::string> smt_active, smt_control;
  Value<std::vector<int>> isolated, nohz_full;
  Value<std::string> boost;  // "1" on; of whichever driver tells
  Value<std::vector<NumaNode>> nodes;
  Value<int64_t> physical_cores;

  int num_nodes() const { return nodes ? static_cast<int>(nodes->size()) : 1; }
  int num_nodes_with_cpus() const;
  int node_of(int cpu) const;                // -1: unknown
  std::vector<int> cpus_of(int node) const;  // empty: unknown
};

CpuFacts collect_cpu(const Source& source);

}  // namespace cheetah::doctor
