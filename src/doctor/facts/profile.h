// SPDX-License-Identifier: MIT
#pragma once
// What a trace or a counter file says, whatever tool wrote it.
#include <string>
#include <vector>

#include "doctor/value.h"
#include "hw/ncu_csv.h"

namespace cheetah::doctor {

enum class GpuWork { kKernel, kCopyIn, kCopyOut, kCopyInside, kSet };

struct GpuSpan {
  double begin_us = 0, end_us = 0;
  GpuWork work = GpuWork::kKernel;
  std::string name;
  double bytes = 0;
  bool pageable = false;
  int device = 0;
};

struct HostCall {
  double begin_us = 0, end_us = 0;
  std::string name;
};

// A timeline as the loaders give it.
struct Timeline {
  std::vector<GpuSpan> gpu;
  std::vector<HostCall> host;    // CUDA runtime calls
  std::vector<HostCall> ranges;  // NVTX or annotations
  double page_faults = 0;        // of managed memory
  bool has_host = false;
};

struct GpuShare {
  int device = 0;
  double busy_us = 0;
};

struct TopKernel {
  std::string name;
  double share = 0;  // of all kernel time
  int64_t count = 0;
};

// The numbers the checks look at. Times are summed over the GPUs, the window too.
struct TimelineFacts {
  double window_us = 0, busy_us = 0, kernel_us = 0;
  std::vector<GpuShare> gpus;
  double median_kernel_us = 0;
  int64_t kernels = 0, graph_launches = 0;
  double copy_us = 0, small_copy_us = 0;
  double in_bytes = 0, pageable_in_bytes = 0, in_us = 0, in_hidden_us = 0;
  double communication_us = 0, communication_hidden_us = 0;
  double gemm_us = 0, tensor_gemm_us = 0;
  double softmax_us = 0, quantize_us = 0;
  bool has_host = false;
  int64_t syncs = 0, allocations = 0, launches = 0;
  double gap_us = 0, host_gap_us = 0;  // GPU idle; of that, while the host was not waiting for it
  double range_us = 0;                 // covered by annotations
  int64_t steps = 0;
  double page_faults = 0;
  std::vector<TopKernel> top;
};
TimelineFacts summarize(const Timeline& timeline);

struct NcclLog {
  int64_t rdma = 0, rdma_direct = 0, sockets = 0, peer = 0, shared_memory = 0, initialized = 0;
  int64_t nodes = 0, warnings = 0;
  std::string network;  // "IB", "Socket", "AWS Libfabric" …: of "Using network"
  std::string first_warning;
};

struct ProfileFacts {
  std::string source;
  Value<TimelineFacts> timeline;
  Value<std::vector<KernelCounters>> counters;
  Value<NcclLog> nccl;
  Value<double> spill_bytes;  // of ptxas -v
  Value<double> recompiles;
};

// Recognizes Chrome/Kineto JSON, an Nsight Systems SQLite export, Nsight Compute CSV, an NCCL log, ptxas -v.
// Throws Error when it is none of them.
ProfileFacts read_profile(const std::string& path);

Timeline read_chrome_trace(std::string_view text, const std::string& what);
Timeline read_nsys_export(const std::string& path);
ProfileFacts read_log(std::string_view text, const std::string& what);

}  // namespace cheetah::doctor
