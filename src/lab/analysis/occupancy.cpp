// SPDX-License-Identifier: MIT
#include "lab/analysis/occupancy.h"

#include <algorithm>

#include "base/format.h"

namespace cheetah::analysis {
namespace {

constexpr int64_t kNoLimit = int64_t{1} << 40;  // above every other one

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t rounded_up(int64_t value, int64_t unit) { return ceil_div(value, unit) * unit; }

int64_t registers_per_warp(int64_t registers) { return rounded_up(registers * kWarpLanes, kRegisterUnit); }

// Warps that the registers suffice for. Each quarter of an SM holds whole warps, so the rest of a quarter is
// lost.
int64_t warps_by_registers(int64_t registers) {
  if (registers == 0) return kNoLimit;
  return kRegistersPerSm / kSubPartitions / registers_per_warp(registers) * kSubPartitions;
}

int64_t shared_of_sm(const SmLimits& sm, const KernelResources& kernel) {
  return kernel.shared_carveout_bytes > 0 ? std::min(kernel.shared_carveout_bytes, sm.shared_bytes)
                                          : sm.shared_bytes;
}

std::string why_impossible(const SmLimits& sm, const KernelResources& kernel, int64_t warps) {
  if (kernel.threads < 1) return "a block needs at least one thread";
  if (kernel.threads > kMaxThreadsPerBlock)
    return format("{} threads per block; the most is {}", kernel.threads, kMaxThreadsPerBlock);
  if (kernel.registers > kMaxRegistersPerThread)
    return format("{} registers a thread; the most is {}", kernel.registers, kMaxRegistersPerThread);
  if (kernel.shared_bytes > sm.shared_bytes_per_block)
    return format(
        "{} bytes of shared memory a block; the most is {}", kernel.shared_bytes, sm.shared_bytes_per_block);
  if (registers_per_warp(kernel.registers) * rounded_up(warps, kSubPartitions) > kRegistersPerSm)
    return format("{} threads of {} registers need more than the {} of an SM", kernel.threads,
        kernel.registers, kRegistersPerSm);
  return "";
}

void find_limiters(Occupancy& result) {
  const std::pair<Limiter, int64_t> limits[] = {{Limiter::kRegisters, result.blocks_by_registers},
      {Limiter::kSharedMemory, result.blocks_by_shared}, {Limiter::kWarps, result.blocks_by_warps},
      {Limiter::kBlockSlots, result.blocks_by_slots}};
  result.blocks = std::ranges::min(limits, {}, &std::pair<Limiter, int64_t>::second).second;
  for (const auto& [limiter, blocks] : limits)
    if (blocks == result.blocks) result.limiters.push_back(limiter);
}

// The first of these values of `field` with which more warps fit than now.
std::optional<Step> first_better(const SmLimits& sm, KernelResources kernel, int64_t KernelResources::*field,
    int64_t from, int64_t to, int64_t by) {
  const Occupancy now = occupancy(sm, kernel);
  for (int64_t value = from; by > 0 ? value <= to : value >= to; value += by) {
    kernel.*field = value;
    Occupancy then = occupancy(sm, kernel);
    if (then.warps > now.warps) return Step{kernel, std::move(then)};
  }
  return std::nullopt;
}

// The values from `from` down to 0 where the number of blocks changes.
std::vector<Step> steps_down(
    const SmLimits& sm, KernelResources kernel, int64_t KernelResources::*field, int64_t from, int64_t by) {
  std::vector<Step> steps;
  for (int64_t value = from; value >= 0; value -= by) {
    kernel.*field = value;
    Occupancy result = occupancy(sm, kernel);
    if (result.blocks > 0 && (steps.empty() || result.blocks != steps.back().occupancy.blocks))
      steps.push_back({kernel, std::move(result)});
  }
  return steps;
}

}  // namespace

std::string_view name_of(Limiter limiter) {
  switch (limiter) {
    case Limiter::kRegisters:
      return "registers";
    case Limiter::kSharedMemory:
      return "shared memory";
    case Limiter::kWarps:
      return "warps";
    case Limiter::kBlockSlots:
      return "block slots";
  }
  return "";
}

bool Occupancy::limited_by(Limiter limiter) const {
  return std::ranges::find(limiters, limiter) != limiters.end();
}

Occupancy occupancy(const SmLimits& sm, const KernelResources& kernel) {
  Occupancy result;
  result.warps_per_block = ceil_div(std::max<int64_t>(1, kernel.threads), kWarpLanes);
  result.impossible = why_impossible(sm, kernel, result.warps_per_block);
  if (!result.impossible.empty()) return result;
  const int64_t shared = rounded_up(kernel.shared_bytes + kReservedSharedBytes, kSharedUnit);
  result.blocks_by_registers = warps_by_registers(kernel.registers) / result.warps_per_block;
  result.blocks_by_shared = shared_of_sm(sm, kernel) / shared;
  result.blocks_by_warps = sm.max_warps / result.warps_per_block;
  result.blocks_by_slots = sm.max_blocks;
  find_limiters(result);
  if (result.blocks == 0)
    result.impossible = "the SM's shared memory, as it is carved out, does not hold one block";
  result.warps = result.blocks * result.warps_per_block;
  result.share = static_cast<double>(result.warps) / static_cast<double>(sm.max_warps);
  result.lane_share =
      static_cast<double>(kernel.threads) / static_cast<double>(result.warps_per_block * kWarpLanes);
  return result;
}

std::optional<Step> next_larger_block(const SmLimits& sm, const KernelResources& kernel) {
  return first_better(sm, kernel, &KernelResources::threads,
      kernel.threads / kWarpLanes * kWarpLanes + kWarpLanes, kMaxThreadsPerBlock, kWarpLanes);
}

std::optional<Step> next_smaller_block(const SmLimits& sm, const KernelResources& kernel) {
  const int64_t start = std::min(kMaxThreadsPerBlock, (kernel.threads - 1) / kWarpLanes * kWarpLanes);
  return first_better(sm, kernel, &KernelResources::threads, start, kWarpLanes, -kWarpLanes);
}

std::optional<Step> fewer_registers(const SmLimits& sm, const KernelResources& kernel) {
  return first_better(sm, kernel, &KernelResources::registers,
      std::min(kernel.registers - 1, kMaxRegistersPerThread), 16, -1);
}

std::optional<Step> less_shared_memory(const SmLimits& sm, const KernelResources& kernel) {
  const int64_t most = std::min(kernel.shared_bytes, sm.shared_bytes_per_block);
  return first_better(
      sm, kernel, &KernelResources::shared_bytes, (most - 1) / kSharedUnit * kSharedUnit, 0, -kSharedUnit);
}

std::vector<Step> block_size_sweep(const SmLimits& sm, const KernelResources& kernel) {
  std::vector<Step> steps;
  for (KernelResources at = kernel;
       at.threads = static_cast<int64_t>(steps.size() + 1) * kWarpLanes, at.threads <= kMaxThreadsPerBlock;)
    steps.push_back({at, occupancy(sm, at)});
  return steps;
}

std::vector<Step> register_steps(const SmLimits& sm, const KernelResources& kernel) {
  return steps_down(sm, kernel, &KernelResources::registers, kMaxRegistersPerThread, 1);
}

std::vector<Step> shared_memory_steps(const SmLimits& sm, const KernelResources& kernel) {
  return steps_down(sm, kernel, &KernelResources::shared_bytes, sm.shared_bytes_per_block, kSharedUnit);
}

std::optional<int64_t> launch_bounds_cap(const SmLimits& sm, int64_t threads, int64_t min_blocks) {
  const int64_t warps = ceil_div(threads, kWarpLanes) * min_blocks;
  if (threads < 1 || min_blocks < 1 || warps > sm.max_warps || min_blocks > sm.max_blocks)
    return std::nullopt;
  const int64_t cap = kRegistersPerSm / (warps * kWarpLanes) / 8 * 8;
  return std::min(cap, kMaxRegistersPerThread);
}

}  // namespace cheetah::analysis
