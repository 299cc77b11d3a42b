// SPDX-License-Identifier: MIT
#pragma once
#include <sched.h>

#include <chrono>
#include <vector>

namespace cheetah::doctor {

using MeasureClock = std::chrono::steady_clock;

inline double seconds_since(MeasureClock::time_point begin) {
  return std::chrono::duration<double>(MeasureClock::now() - begin).count();
}

// Binds the calling thread; where that is not allowed it stays where it is.
inline void run_on(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus)
    if (cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

// CPUs this process may use.
inline std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

}  // namespace cheetah::doctor
