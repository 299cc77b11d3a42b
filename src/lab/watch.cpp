#include "lab/watch.h"

#include <dlfcn.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>

#include "base/format.h"

namespace cheetah::lab {
namespace {

// The few NVML functions we call, by name: a machine without the driver needs neither header nor library.
template <class... Arguments>
bool call(void* library, const char* name, Arguments... arguments) {
  if (library == nullptr) return false;
  auto* function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
  return function != nullptr && function(arguments...) == 0;
}

unsigned number(void* library, const char* name, void* device, int which) {
  unsigned value = 0;
  return call(library, name, device, which, &value) ? value : 0;
}

struct ThrottleReason {
  uint64_t bit;
  const char* what;
};
constexpr ThrottleReason kThrottles[] = {
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
  for (const ThrottleReason& reason : kThrottles)
    if (((before.throttle_bits | after.throttle_bits) & reason.bit) != 0) found.emplace_back(reason.what);
  if (after.uncorrected_errors > before.uncorrected_errors)
    found.push_back(format("{} uncorrected memory errors (ECC) came up",
                           after.uncorrected_errors - before.uncorrected_errors));
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

GpuWatch::GpuWatch(int device_index, const std::string& library)
    : library_(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (!call(library_, "nvmlInit_v2") ||
      !call(library_, "nvmlDeviceGetHandleByIndex_v2", static_cast<unsigned>(device_index), &device_))
    device_ = nullptr;
}

GpuWatch::~GpuWatch() {
  if (device_ != nullptr) call(library_, "nvmlShutdown");
  if (library_ != nullptr) dlclose(library_);
}

GpuReading GpuWatch::read() const {
  GpuReading reading;
  if (device_ == nullptr) return reading;
  constexpr int kSmClock = 1, kMemoryClock = 2, kGpuTemperature = 0;
  reading.known = true;
  reading.sm_mhz = number(library_, "nvmlDeviceGetClockInfo", device_, kSmClock);
  reading.memory_mhz = number(library_, "nvmlDeviceGetClockInfo", device_, kMemoryClock);
  reading.celsius = number(library_, "nvmlDeviceGetTemperature", device_, kGpuTemperature);
  unsigned milliwatts = 0;
  if (call(library_, "nvmlDeviceGetPowerUsage", device_, &milliwatts)) reading.watts = milliwatts / 1e3;
  unsigned long long value = 0;
  if (call(library_, "nvmlDeviceGetCurrentClocksThrottleReasons", device_, &value))
    reading.throttle_bits = value;
  constexpr int kUncorrected = 1, kVolatile = 0;
  if (call(library_, "nvmlDeviceGetTotalEccErrors", device_, kUncorrected, kVolatile, &value))
    reading.uncorrected_errors = value;
  return reading;
}

std::string GpuWatch::driver_version() const {
  char text[80] = {};
  if (device_ == nullptr || !call(library_, "nvmlSystemGetDriverVersion", static_cast<char*>(text), 80u))
    return "";
  return text;
}

}  // namespace cheetah::lab
