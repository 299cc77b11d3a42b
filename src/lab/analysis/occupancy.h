// SPDX-License-Identifier: MIT
#pragma once
// How many blocks of a kernel one SM can hold, what limits them, and what would change that.
#include <optional>
#include <string>
#include <vector>

#include "lab/analysis/sm_limits.h"

namespace cheetah::analysis {

struct KernelResources {
  int64_t threads = 256;              // of a block
  int64_t registers = 32;             // of a thread
  int64_t shared_bytes = 0;           // static and dynamic, of a block
  int64_t shared_carveout_bytes = 0;  // of the SM's memory kept as shared memory; 0: as much as it can
};

enum class Limiter { kRegisters, kSharedMemory, kWarps, kBlockSlots };
std::string_view name_of(Limiter limiter);

struct Occupancy {
  int64_t blocks = 0;  // an SM can hold; 0: it cannot be launched
  int64_t warps = 0;
  double share = 0;       // of the SM's warps, 0 to 1
  double lane_share = 0;  // of the lanes of those warps that have a thread
  int64_t warps_per_block = 0;
  // How many blocks each resource alone would allow.
  int64_t blocks_by_registers = 0, blocks_by_shared = 0, blocks_by_warps = 0, blocks_by_slots = 0;
  std::vector<Limiter> limiters;  // all that allow no more than `blocks`: each must be lifted to gain
  std::string impossible;         // why it cannot be launched

  bool limited_by(Limiter limiter) const;
};

// Pure; any values of `kernel` from 0 up.
Occupancy occupancy(const SmLimits& sm, const KernelResources& kernel);

// The next occupancy that one change alone can reach.
struct Step {
  KernelResources kernel;
  Occupancy occupancy;
};
std::optional<Step> next_larger_block(const SmLimits& sm, const KernelResources& kernel);
std::optional<Step> next_smaller_block(const SmLimits& sm, const KernelResources& kernel);
// The most registers, or shared memory, with which more warps fit than now.
std::optional<Step> fewer_registers(const SmLimits& sm, const KernelResources& kernel);
std::optional<Step> less_shared_memory(const SmLimits& sm, const KernelResources& kernel);

// Every block size of whole warps; every count of registers that changes the result, the largest first;
// likewise shared memory.
std::vector<Step> block_size_sweep(const SmLimits& sm, const KernelResources& kernel);
std::vector<Step> register_steps(const SmLimits& sm, const KernelResources& kernel);
std::vector<Step> shared_memory_steps(const SmLimits& sm, const KernelResources& kernel);

// The registers a thread may have under __launch_bounds__(threads, min_blocks); nullopt when no SM can hold
// as many threads (ptxas then ignores min_blocks).
std::optional<int64_t> launch_bounds_cap(const SmLimits& sm, int64_t threads, int64_t min_blocks);

}  // namespace cheetah::analysis
