// SPDX-License-Identifier: MIT
// A stand-in for libnvidia-ml.so.1 with two GPUs, so that the tests load and call a real library.
#include <cstdio>
#include <cstring>

#define FAKE extern "C" __attribute__((visibility("default")))

namespace {

int index_of(void* device) { return static_cast<int>(reinterpret_cast<long>(device)) - 1; }
int set(unsigned* out, unsigned value) {
  *out = value;
  return 0;
}

}  // namespace

FAKE int nvmlInit_v2() { return 0; }
FAKE int nvmlShutdown() { return 0; }
FAKE int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  return std::snprintf(text, size, "580.65.06") < 0;
}
FAKE int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13000;
  return 0;
}
FAKE int nvmlDeviceGetCount_v2(unsigned* count) { return set(count, 2); }
FAKE int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = reinterpret_cast<void*>(static_cast<long>(index) + 1);
  return 0;
}
// The buses of nvmlDeviceGetPciInfo_v3 below: 1A and 2A.
FAKE int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
  for (long i = 0; i < 2; ++i) {
    char own[32];
    std::snprintf(own, sizeof own, "0000:%ldA:00.0", i + 1);
    if (std::strcmp(address, own) != 0) continue;
    *device = reinterpret_cast<void*>(i + 1);
    return 0;
  }
  return 6;  // not found
}
FAKE int nvmlDeviceGetClockInfo(void*, int, unsigned* mhz) { return set(mhz, 1980); }
FAKE int nvmlDeviceGetUtilizationRates(void*, unsigned* rates) { return set(rates, 37) | set(rates + 1, 12); }
FAKE int nvmlDeviceGetName(void*, char* text, unsigned size) {
  return std::snprintf(text, size, "NVIDIA H200") < 0;
}
struct PciInfo {
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char bus_id[32];
};
FAKE int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* info) {
  return std::snprintf(info->bus_id, sizeof info->bus_id, "00000000:%dA:00.0", index_of(device) + 1) < 0;
}
FAKE int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
  *major = 9;
  *minor = 0;
  return 0;
}
FAKE int nvmlDeviceGetPersistenceMode(void* device, unsigned* mode) {
  return set(mode, index_of(device) == 0 ? 1 : 0);
}
FAKE int nvmlDeviceGetEccMode(void*, unsigned* current, unsigned* pending) {
  return set(current, 1) | set(pending, 1);
}
FAKE int nvmlDeviceGetTotalEccErrors(void* device, int, int, unsigned long long* count) {
  *count = index_of(device) == 1 ? 3 : 0;
  return 0;
}
FAKE int nvmlDeviceGetMemoryInfo(void*, unsigned long long* info) {
  info[0] = 150754820096;
  info[1] = 150000000000;
  info[2] = 754820096;
  return 0;
}
FAKE int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
  *reasons = 1;
  return 0;
}
FAKE int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) { return set(milliwatts, 75500); }
FAKE int nvmlDeviceGetNvLinkState(void*, unsigned link, unsigned* active) {
  *active = link == 17 ? 0 : 1;
  return 0;
}
FAKE int nvmlDeviceGetP2PStatus(void*, void*, int, int* status) {
  *status = 0;
  return 0;
}
struct ProcessInfo {
  unsigned pid;
  unsigned long long used;
  unsigned gpu, compute;
};
FAKE int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, ProcessInfo* infos) {
  infos[0] = {4242, 1000, 0, 0};
  return set(count, 1);
}
