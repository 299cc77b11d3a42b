// SPDX-License-Identifier: MIT
#pragma once
// What one streaming multiprocessor holds, by compute capability.
#include <cstdint>
#include <span>
#include <string_view>

namespace cheetah::analysis {

struct SmLimits {
  int major = 0, minor = 0;
  std::string_view example;  // a card of this kind, whose SM count is num_sms
  int num_sms = 0;
  int64_t max_warps = 0;
  int64_t max_blocks = 0;
  int64_t shared_bytes = 0;            // of the SM
  int64_t shared_bytes_per_block = 0;  // the most one block may ask for (opt-in)

  int64_t max_threads() const { return 32 * max_warps; }
};

// The same on every card we know (CUDA programming guide, technical specifications).
inline constexpr int64_t kWarpLanes = 32;
inline constexpr int64_t kMaxThreadsPerBlock = 1024;
inline constexpr int64_t kRegistersPerSm = 65536;
inline constexpr int64_t kMaxRegistersPerThread = 255;
inline constexpr int64_t kRegisterUnit = 256;  // registers are given to a warp in these
inline constexpr int64_t kSubPartitions = 4;   // each has a quarter of the registers and warps of its own
inline constexpr int64_t kSharedUnit = 128;    // bytes
inline constexpr int64_t kReservedSharedBytes = 1024;  // of each block, by the system
inline constexpr int64_t kMaxGridX = 2147483647, kMaxGridYZ = 65535;

std::span<const SmLimits> known_sm_limits();
// "9.0", "90" or "sm_90a". Throws UsageError that lists what is known.
const SmLimits& sm_limits(std::string_view compute_capability);

}  // namespace cheetah::analysis
