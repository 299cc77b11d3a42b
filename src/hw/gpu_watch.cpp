// SPDX-License-Identifier: MIT
#include "hw/gpu_watch.h"

#include <array>
#include <chrono>
#include <utility>

namespace cheetah {
namespace {

constexpr std::array kReasons = {
    ThrottleReason{0x4, "power"},
    ThrottleReason{0x8, "hardware"},
    ThrottleReason{0x20, "heat"},
    ThrottleReason{0x40, "hardware_heat"},
    ThrottleReason{0x80, "power_brake"},
};

struct MemoryInfo {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned gpu, memory;  // percent
};

// The number that a function with these arguments tells.
template <class... Arguments>
std::optional<double> number(const NvmlLibrary& nvml, const char* name, Arguments... arguments) {
  unsigned value = 0;
  if (nvml.call(name, arguments..., &value) != NvmlLibrary::kSuccess) return std::nullopt;
  return value;
}

void read_memory(const NvmlLibrary& nvml, void* device, GpuReading& reading) {
  MemoryInfo memory{};
  if (nvml.call("nvmlDeviceGetMemoryInfo", device, &memory) == NvmlLibrary::kSuccess) {
    reading.memory_used_bytes = static_cast<int64_t>(memory.used);
    reading.memory_total_bytes = static_cast<int64_t>(memory.total);
  }
  constexpr int kUncorrected = 1, kVolatile = 0;
  unsigned long long errors = 0;
  if (nvml.call("nvmlDeviceGetTotalEccErrors", device, kUncorrected, kVolatile, &errors) ==
      NvmlLibrary::kSuccess)
    reading.uncorrected_errors = errors;
}

}  // namespace

std::span<const ThrottleReason> throttle_reasons() { return kReasons; }

GpuWatch::GpuWatch(std::string pci_address, const std::string& library)
    : pci_address_(std::move(pci_address)), nvml_(library) {
  if (nvml_.call("nvmlInit_v2") != NvmlLibrary::kSuccess) return;
  if (nvml_.call("nvmlDeviceGetHandleByPciBusId_v2", pci_address_.c_str(), &device_) == NvmlLibrary::kSuccess)
    return;
  device_ = nullptr;
  nvml_.call("nvmlShutdown");
}

GpuWatch::~GpuWatch() {
  if (device_ != nullptr) nvml_.call("nvmlShutdown");
}

GpuReading GpuWatch::read() const {
  GpuReading reading;
  if (device_ == nullptr) return reading;
  constexpr int kSmClock = 1, kMemoryClock = 2, kGpuTemperature = 0;
  reading.known = true;
  reading.sm_mhz = number(nvml_, "nvmlDeviceGetClockInfo", device_, kSmClock);
  reading.memory_mhz = number(nvml_, "nvmlDeviceGetClockInfo", device_, kMemoryClock);
  reading.celsius = number(nvml_, "nvmlDeviceGetTemperature", device_, kGpuTemperature);
  if (const auto milliwatts = number(nvml_, "nvmlDeviceGetPowerUsage", device_))
    reading.watts = *milliwatts / 1e3;
  Utilization use{};
  if (nvml_.call("nvmlDeviceGetUtilizationRates", device_, &use) == NvmlLibrary::kSuccess)
    reading.utilization = use.gpu / 100.0;
  unsigned long long reasons = 0;
  if (nvml_.call("nvmlDeviceGetCurrentClocksEventReasons", device_, &reasons) == NvmlLibrary::kSuccess ||
      nvml_.call("nvmlDeviceGetCurrentClocksThrottleReasons", device_, &reasons) == NvmlLibrary::kSuccess)
    reading.throttle_bits = reasons;
  read_memory(nvml_, device_, reading);
  return reading;
}

std::string GpuWatch::driver_version() const {
  char text[80] = {};
  if (device_ == nullptr ||
      nvml_.call("nvmlSystemGetDriverVersion", static_cast<char*>(text), 80u) != NvmlLibrary::kSuccess)
    return "";
  return text;
}

GpuRecorder::GpuRecorder(std::shared_ptr<const GpuWatch> watch)
    : thread_([this, watch = std::move(watch)](const std::stop_token& stop) {
        constexpr auto kPause = std::chrono::milliseconds(100);  // each reading asks the driver a few times
        do {
          const GpuReading reading = watch->read();
          if (!reading.known) return;
          readings_.push_back(reading);
          std::this_thread::sleep_for(kPause);
        } while (!stop.stop_requested());
      }) {}

std::vector<GpuReading> GpuRecorder::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  return std::move(readings_);
}

}  // namespace cheetah
