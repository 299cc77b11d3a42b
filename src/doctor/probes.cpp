// SPDX-License-Identifier: MIT
#include "doctor/probes.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/klog.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/format.h"
#include "base/run_tool.h"
#include "doctor/facts/gpu.h"
#include "doctor/probes_ethtool.h"
#include "doctor/text.h"

namespace cheetah::doctor {
namespace {

Text found(std::string text) { return {"", std::move(text), Absence::kNone, ""}; }
Text missing(std::string reason) { return {"", "", Absence::kMissing, std::move(reason)}; }
Text unreadable(std::string reason) { return {"", "", Absence::kUnreadable, std::move(reason)}; }

constexpr int kReadAllMessages = 3;  // SYSLOG_ACTION_READ_ALL
constexpr size_t kMaxLog = size_t{2} << 20;

Text kernel_log(const std::string&) {
  std::string log(kMaxLog, '\0');
  const int length = klogctl(kReadAllMessages, log.data(), static_cast<int>(log.size()));
  if (length < 0) return unreadable("the kernel log is for root alone");
  log.resize(static_cast<size_t>(length));
  return found(std::move(log));
}

Text clock_state(const std::string&) {
  struct timex state {};
  if (adjtimex(&state) < 0) return unreadable(std::strerror(errno));
  return found(
      format("synchronized {} error_us {}", (state.status & STA_UNSYNC) == 0 ? 1 : 0, state.maxerror));
}

// Whether the device files of GPUs and RDMA adapters are there and may be opened.
Text devices(const std::string&) {
  std::string text;
  const auto look = [&](const std::string& folder, const char* prefix) {
    DIR* open = opendir(folder.c_str());
    if (open == nullptr) return;
    while (const dirent* entry = readdir(open)) {
      if (!starts_with(entry->d_name, prefix)) continue;
      const std::string path = folder + "/" + entry->d_name;
      struct stat info {};
      if (stat(path.c_str(), &info) != 0 || !S_ISCHR(info.st_mode)) continue;
      text += format("{} {}\n", path.substr(1), access(path.c_str(), R_OK | W_OK) == 0 ? "rw" : "-");
    }
    closedir(open);
  };
  look("/dev", "nvidia");
  look("/dev/infiniband", "uverbs");
  return text.empty() ? missing("there is no GPU or RDMA device file") : found(std::move(text));
}

int prefix_length(const sockaddr* mask) {
  if (mask == nullptr) return 0;
  return __builtin_popcount(reinterpret_cast<const sockaddr_in*>(mask)->sin_addr.s_addr);
}

Text addresses(const std::string&) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return unreadable(std::strerror(errno));
  std::string text;
  for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET || at->ifa_netmask == nullptr) continue;
    in_addr address = reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr;
    address.s_addr &= reinterpret_cast<const sockaddr_in*>(at->ifa_netmask)->sin_addr.s_addr;
    char name[INET_ADDRSTRLEN] = {};
    inet_ntop(AF_INET, &address, name, sizeof name);
    text += format("{} {}/{}\n", at->ifa_name, name, prefix_length(at->ifa_netmask));
  }
  freeifaddrs(first);
  return found(std::move(text));
}

std::string only_ours(std::string_view variables, char separator) {
  std::string kept;
  for (const std::string_view line : split(variables, separator))
    if (concerns_performance(line.substr(0, line.find('=')))) kept.append(line).append("\n");
  return kept;
}

Text environment_of(const std::string& pid, const std::string& own) {
  if (pid == "self") return found(only_ours(own, '\n'));
  if (!to_integer(pid)) return missing("it is no process");
  const FolderSource proc("/proc");
  Text text = proc.read(pid + "/environ", kMaxFileBytes);
  if (text.ok()) text.text = only_ours(text.text, '\0');
  return text;
}

Text space(const std::string& path) {
  struct statvfs info {};
  if (statvfs(("/" + path).c_str(), &info) != 0) return missing(std::strerror(errno));
  const double block = static_cast<double>(info.f_frsize);
  return found(format("{} {} {} {}", block * static_cast<double>(info.f_blocks),
      block * static_cast<double>(info.f_bavail), info.f_files, info.f_favail));
}

// Sizes and names of a folder's files, two levels deep, at most 20,000 and at most half a second.
Text files(const std::string& path) {
  constexpr int kMost = 20000;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  std::string text;
  int count = 0;
  std::vector<std::pair<std::string, int>> open{{"/" + path, 0}};
  while (!open.empty() && count < kMost && std::chrono::steady_clock::now() < deadline) {
    const auto [folder, depth] = open.back();
    open.pop_back();
    DIR* listing = opendir(folder.c_str());
    if (listing == nullptr) continue;
    while (const dirent* entry = readdir(listing)) {
      if (entry->d_name[0] == '.' || count >= kMost) continue;
      struct stat info {};
      if (fstatat(dirfd(listing), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
      if (S_ISDIR(info.st_mode) && depth < 2) open.emplace_back(folder + "/" + entry->d_name, depth + 1);
      if (S_ISREG(info.st_mode) && ++count > 0) text += format("{} {}\n", info.st_size, entry->d_name);
    }
    closedir(listing);
  }
  return text.empty() ? missing("it holds no files") : found(std::move(text));
}

// Used where NVML fails.
Text nvidia_smi(const std::string&) {
  if (access("/dev/nvidiactl", F_OK) != 0) return missing("there is no NVIDIA driver");
  const ToolResult told = run_tool({"nvidia-smi",
      "--query-gpu=driver_version,name,pci.bus_id,vbios_version,persistence_mode,ecc.mode.current,ecc.mode."
      "pending,"
      "ecc.errors.uncorrected.volatile.total,mig.mode.current,mig.mode.pending,clocks.sm,clocks.max.sm,"
      "clocks_throttle_reasons.active,power.draw,power.limit,power.default_limit,temperature.gpu,"
      "pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max,memory.total,"
      "memory.used,utilization.gpu,compute_cap,compute_mode",
      "--format=csv"});
  return contains(told.output, "driver_version") ? found(told.output) : missing("nvidia-smi gave no table");
}

}  // namespace

bool concerns_performance(std::string_view variable) {
  for (const char* prefix :
      {"CUDA_", "NCCL_", "OMP_", "UCX_", "MKL_", "OPENBLAS_", "TORCH_", "PYTORCH_", "TF_FORCE", "XLA_",
          "VLLM_", "SGLANG_", "CUBLAS_", "CUDNN_", "NVSHMEM_", "GLOO_", "KMP_", "GOMP_", "MALLOC_",
          "TCMALLOC_", "LD_PRELOAD", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "RANK", "LOCAL_RANK", "NVIDIA_VISIBLE",
          "NVIDIA_DRIVER", "ASAN_OPTIONS", "SLURM_NTASKS", "JAX_PLATFORM", "TRTLLM_", "CHEETAH_THREADS"})
    if (starts_with(variable, prefix)) return !contains(variable, "TOKEN") && !contains(variable, "KEY");
  return false;
}

Probes live_probes(const ProbeOptions& options) {
  return {
      {"nvml", [library = options.nvml_library](const std::string&) { return read_nvml(library); }},
      {"nvidia-smi.csv", nvidia_smi},
      {"dmesg", kernel_log},
      {"user", [](const std::string&) { return found(format("{}", geteuid())); }},
      {"clock", clock_state},
      {"devices", devices},
      {"addresses", addresses},
      {"environ", [own = options.environment](const std::string& pid) { return environment_of(pid, own); }},
      {"space", space},
      {"ethtool", ethtool_counters},
      {"files", files},
  };
}

}  // namespace cheetah::doctor
