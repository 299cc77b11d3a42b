// SPDX-License-Identifier: MIT
// What NVML tells of every GPU. The declarations are our own, of the few functions we call.
#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/format.h"
#include "doctor/facts/gpu.h"
#include "hw/nvml.h"

namespace cheetah::doctor {
namespace {

using Device = void*;
using Library = NvmlLibrary;
using Status = NvmlLibrary::Status;
constexpr Status kSuccess = NvmlLibrary::kSuccess;

struct PciInfo {
  char legacy_bus_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
struct MemoryInfo {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned gpu, memory;
};
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};
struct FabricInfo {
  unsigned char cluster[16];
  Status status;
  unsigned clique;
  unsigned char state;  // 0 unsupported, 1 not started, 2 in progress, 3 completed
};

// The lines of one GPU; a call that fails leaves its line out.
class Writer {
 public:
  Writer(const Library& nvml, Device device, int index) : nvml_(nvml), device_(device), index_(index) {}

  template <class T>
  void line(const char* name, const T& value) {
    text_ += format("gpu.{}.{}={}\n", index_, name, value);
  }
  void number(const char* name, const char* function, double unit = 1) {
    unsigned value = 0;
    if (nvml_.call(function, device_, &value) == kSuccess) line(name, value * unit);
  }
  void pair(const char* first, const char* second, const char* function) {
    unsigned current = 0, pending = 0;
    if (nvml_.call(function, device_, &current, &pending) != kSuccess) return;
    line(first, current);
    line(second, pending);
  }
  void string(const char* name, const char* function) {
    char value[96] = {};
    if (nvml_.call(function, device_, &value[0], 96u) == kSuccess) line(name, printable(value, 96));
  }
  void identity();
  void memory();
  void errors();
  void clocks();
  void links();
  void fabric();
  void processes();
  void peers(const std::vector<Device>& all);
  const std::string& text() const { return text_; }

 private:
  const Library& nvml_;
  Device device_;
  int index_;
  std::string text_;
};

void Writer::identity() {
  string("name", "nvmlDeviceGetName");
  string("vbios", "nvmlDeviceGetVbiosVersion");
  PciInfo pci{};
  if (nvml_.call("nvmlDeviceGetPciInfo_v3", device_, &pci) == kSuccess) {
    pci.bus_id[31] = 0;
    std::string address = pci.bus_id;  // 00000000:17:00.0; sysfs writes a domain of four digits, lower case
    for (char& c : address) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    line("pci", printable(address.size() == 16 ? address.substr(4) : address));
  }
  int major = 0, minor = 0;
  if (nvml_.call("nvmlDeviceGetCudaComputeCapability", device_, &major, &minor) == kSuccess)
    line("cc", format("{}.{}", major, minor));
  number("persistence", "nvmlDeviceGetPersistenceMode");
  number("compute_mode", "nvmlDeviceGetComputeMode");
  pair("mig.current", "mig.pending", "nvmlDeviceGetMigMode");
}

void Writer::memory() {
  MemoryInfo info{};
  if (nvml_.call("nvmlDeviceGetMemoryInfo", device_, &info) == kSuccess) {
    line("memory.total", info.total);
    line("memory.used", info.used);
  }
  MemoryInfo bar{};
  if (nvml_.call("nvmlDeviceGetBAR1MemoryInfo", device_, &bar) == kSuccess) line("bar1.total", bar.total);
}

void Writer::errors() {
  pair("ecc.current", "ecc.pending", "nvmlDeviceGetEccMode");
  const std::pair<const char*, int> counters[] = {
      {"ecc.uncorrected.volatile", 0}, {"ecc.uncorrected.aggregate", 1}};
  for (const auto& [name, counter] : counters) {
    unsigned long long count = 0;
    if (nvml_.call("nvmlDeviceGetTotalEccErrors", device_, 1, counter, &count) == kSuccess) line(name, count);
  }
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  if (nvml_.call("nvmlDeviceGetRemappedRows", device_, &corrected, &uncorrected, &pending, &failed) ==
      kSuccess) {
    line("rows.uncorrected", uncorrected);
    line("rows.pending", pending);
    line("rows.failed", failed);
  }
}

void Writer::clocks() {
  constexpr int kSmClock = 1;
  unsigned mhz = 0;
  if (nvml_.call("nvmlDeviceGetClockInfo", device_, kSmClock, &mhz) == kSuccess) line("clock.sm", mhz);
  if (nvml_.call("nvmlDeviceGetMaxClockInfo", device_, kSmClock, &mhz) == kSuccess) line("clock.sm.max", mhz);
  unsigned long long reasons = 0;
  if (nvml_.call("nvmlDeviceGetCurrentClocksEventReasons", device_, &reasons) == kSuccess ||
      nvml_.call("nvmlDeviceGetCurrentClocksThrottleReasons", device_, &reasons) == kSuccess)
    line("throttle", format("0x{:x}", reasons));
  number("power.draw", "nvmlDeviceGetPowerUsage", 0.001);
  number("power.limit", "nvmlDeviceGetPowerManagementLimit", 0.001);
  number("power.default", "nvmlDeviceGetPowerManagementDefaultLimit", 0.001);
  unsigned degrees = 0;
  if (nvml_.call("nvmlDeviceGetTemperature", device_, 0, &degrees) == kSuccess) line("temperature", degrees);
  if (nvml_.call("nvmlDeviceGetTemperatureThreshold", device_, 1, &degrees) == kSuccess)
    line("temperature.slowdown", degrees);
  Utilization use{};
  if (nvml_.call("nvmlDeviceGetUtilizationRates", device_, &use) == kSuccess) line("utilization", use.gpu);
}

void Writer::links() {
  number("pcie.gen", "nvmlDeviceGetCurrPcieLinkGeneration");
  number("pcie.gen.max", "nvmlDeviceGetMaxPcieLinkGeneration");
  number("pcie.width", "nvmlDeviceGetCurrPcieLinkWidth");
  number("pcie.width.max", "nvmlDeviceGetMaxPcieLinkWidth");
  number("pcie.replays", "nvmlDeviceGetPcieReplayCounter");
  int present = 0, up = 0;
  unsigned long long errors = 0;
  for (unsigned link = 0; link < 18; ++link) {
    unsigned active = 0;
    if (nvml_.call("nvmlDeviceGetNvLinkState", device_, link, &active) != kSuccess) continue;
    ++present;
    up += active != 0 ? 1 : 0;
    for (int counter = 0; counter < 4; ++counter) {
      unsigned long long count = 0;
      if (nvml_.call("nvmlDeviceGetNvLinkErrorCounter", device_, link, counter, &count) == kSuccess)
        errors += count;
    }
  }
  if (present == 0) return;
  line("nvlink.present", present);
  line("nvlink.up", up);
  line("nvlink.errors", errors);
}

void Writer::fabric() {
  FabricInfo info{};
  if (nvml_.call("nvmlDeviceGetGpuFabricInfo", device_, &info) != kSuccess || info.state == 0) return;
  line("fabric.state", static_cast<int>(info.state));
  line("fabric.status", info.status);
  line("fabric.clique", info.clique);
  std::string cluster;
  for (const unsigned char byte : info.cluster) cluster += format("{:02x}", byte);
  line("fabric.cluster", cluster);
}

void Writer::processes() {
  ProcessInfo infos[64] = {};
  unsigned count = 64;
  if (nvml_.call("nvmlDeviceGetComputeRunningProcesses_v3", device_, &count, &infos[0]) != kSuccess) return;
  std::string list;
  for (unsigned i = 0; i < std::min(count, 64u); ++i)
    list += format("{}{}:{}", i > 0 ? "," : "", infos[i].pid, infos[i].used_bytes);
  line("processes", list);
}

// "peers=1:nvlink,2:sys": how each later GPU is reached.
void Writer::peers(const std::vector<Device>& all) {
  constexpr int kOverNvlink = 2;  // of nvmlDeviceGetP2PStatus; 0 reads
  std::string list;
  for (size_t other = 0; other < all.size(); ++other) {
    if (static_cast<int>(other) == index_ || all[other] == nullptr) continue;
    int status = -1;
    std::string way = "none";
    if (nvml_.call("nvmlDeviceGetP2PStatus", device_, all[other], kOverNvlink, &status) == kSuccess &&
        status == 0) {
      way = "nvlink";
    } else if (nvml_.call("nvmlDeviceGetP2PStatus", device_, all[other], 0, &status) == kSuccess &&
               status == 0) {
      int level = 0;
      const bool told =
          nvml_.call("nvmlDeviceGetTopologyCommonAncestor", device_, all[other], &level) == kSuccess;
      way = !told ? "pcie" : level <= 20 ? "switch" : level <= 40 ? "host" : "sys";
    }
    list += format("{}{}:{}", list.empty() ? "" : ",", other, way);
  }
  if (!list.empty()) line("peers", list);
}

std::string describe(const Library& nvml) {
  std::string text;
  char version[96] = {};
  if (nvml.call("nvmlSystemGetDriverVersion", &version[0], 96u) == kSuccess)
    text += format("driver={}\n", printable(version, 96));
  int cuda = 0;
  if (nvml.call("nvmlSystemGetCudaDriverVersion_v2", &cuda) == kSuccess)
    text += format("cuda={}.{}\n", cuda / 1000, cuda % 1000 / 10);
  unsigned count = 0;
  nvml.call("nvmlDeviceGetCount_v2", &count);
  // A lost GPU keeps its index: what nvidia-smi calls 3 is 3 here.
  std::vector<Device> devices(std::min(count, 256u), nullptr);
  for (unsigned i = 0; i < devices.size(); ++i) {
    const Status status = nvml.call("nvmlDeviceGetHandleByIndex_v2", i, &devices[i]);
    if (status == kSuccess) continue;
    devices[i] = nullptr;
    text += format("gpu.{}.lost={}\n", i, status);
  }
  for (size_t i = 0; i < devices.size(); ++i) {
    if (devices[i] == nullptr) continue;
    Writer writer(nvml, devices[i], static_cast<int>(i));
    writer.identity();
    writer.memory();
    writer.errors();
    writer.clocks();
    writer.links();
    writer.fabric();
    writer.processes();
    writer.peers(devices);
    text += writer.text();
  }
  return text;
}

}  // namespace

Text read_nvml(const std::string& library) {
  const Library nvml(library);
  const std::string path = "cheetah/nvml";
  if (!nvml.loaded())
    return {path, "", Absence::kMissing, "there is no NVIDIA driver: " + printable(nvml.error(), 200)};
  const Status status = nvml.call("nvmlInit_v2");
  constexpr Status kVersionMismatch = 18;
  if (status == kVersionMismatch)
    return {path, "", Absence::kUnreadable,
        "driver and library versions differ (NVML error 18): reload the driver or reboot"};
  if (status != kSuccess)
    return {path, "", Absence::kMissing, format("NVML found no working driver (error {})", status)};
  std::string text = describe(nvml);
  nvml.call("nvmlShutdown");
  return {path, std::move(text), Absence::kNone, ""};
}

}  // namespace cheetah::doctor
