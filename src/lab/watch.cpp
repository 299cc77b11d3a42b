// SPDX-License-Identifier: MIT
#include "lab/watch.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>

#include "base/format.h"

namespace cheetah::lab {
namespace {

struct Throttle {
  uint64_t bit;
  const char* what;
};
constexpr Throttle kThrottles[] = {
    {0x4, "the power limit held the GPU's clock down"},
    {0x8, "a hardware slowdown held the GPU's clock down"},
    {0x20, "heat (driver's limit) held the GPU's clock down"},
    {0x40, "heat (hardware's limit) held the GPU's clock down"},
    {0x80, "the power brake held the GPU's clock down"},
};

}  // namespace

std::vector<std::string> disturbances(const GpuReading& before, const GpuReading& after) {
  std::vector<std::string> found;
  if (!before.known || !after.known) return found;
  const uint64_t throttled = before.throttle_bits.value_or(0) | after.throttle_bits.value_or(0);
  for (const Throttle& reason : kThrottles)
    if ((throttled & reason.bit) != 0) found.emplace_back(reason.what);
  if (after.uncorrected_errors > before.uncorrected_errors)
    found.push_back(format(
        "{} uncorrected memory errors (ECC) came up", after.uncorrected_errors - before.uncorrected_errors));
  return found;
}

std::vector<std::string> disturbances(const CpuReading& before, const CpuReading& after) {
  std::vector<std::string> found;
  const double wall = after.wall_s - before.wall_s;
  if (wall <= 0.05) return found;  // the kernel counts in hundredths of a second
  const double others = (after.busy_s - before.busy_s) - (after.own_s - before.own_s);
  const double stolen = after.stolen_s - before.stolen_s;
  constexpr double kQuiet = 0.1;  // of one core
  if (others > kQuiet * wall)
    found.push_back(format("other processes used {:.1f} of {} cores", others / wall, after.cores));
  if (stolen > kQuiet * wall) found.push_back(format("the hypervisor took {:.1f} cores away", stolen / wall));
  return found;
}

CpuReading read_cpu() {
  CpuReading reading;
  std::ifstream stat("/proc/stat");
  std::string label;
  double user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0, steal = 0;
  stat >> label >> user >> nice >> system >> idle >> wait >> irq >> soft >> steal;
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  reading.busy_s = (user + nice + system + irq + soft) / ticks;
  reading.stolen_s = steal / ticks;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  reading.own_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  reading.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  reading.cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  return reading;
}

}  // namespace cheetah::lab
