// SPDX-License-Identifier: MIT
#include "lab/analysis/launch_advice.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"

namespace cheetah::analysis {
namespace {

using Level = Advice::Level;

void advise_on_lanes(const Launch& launch, std::vector<Advice>& advice) {
  const int64_t threads = launch.kernel.threads;
  if (threads % kWarpLanes == 0) {
    advice.push_back({Level::kGood, format("{} threads are whole warps", threads), ""});
    return;
  }
  const int64_t whole = (threads + kWarpLanes - 1) / kWarpLanes * kWarpLanes;
  advice.push_back(
      {Level::kBad, format("{} threads leave {} lanes of the last warp unused", threads, whole - threads),
          format("{} threads cost the same", whole)});
}

void advise_on_limits(const Launch& launch, std::vector<Advice>& advice) {
  if (launch.grid_x > kMaxGridX)
    advice.push_back({Level::kBad, format("grid.x {} passes the limit of {}", launch.grid_x, kMaxGridX),
        "more elements per thread, or a grid-stride loop"});
  for (const int64_t dimension : {launch.grid_y, launch.grid_z})
    if (dimension > kMaxGridYZ)
      advice.push_back(
          {Level::kBad, format("grid.y or grid.z {} passes the limit of {}", dimension, kMaxGridYZ),
              "put the long dimension in x"});
}

void advise_on_coverage(const Launch& launch, std::vector<Advice>& advice) {
  if (launch.elements == 0) return;
  const double covered = static_cast<double>(launch.blocks()) * static_cast<double>(launch.kernel.threads) *
                         static_cast<double>(launch.per_thread);
  const double wanted = static_cast<double>(launch.elements);
  if (covered < wanted)
    advice.push_back({Level::kBad, format("the grid covers {:.0f} of {} elements", covered, launch.elements),
        "grid = ceil(elements / (threads x elements per thread)), or a grid-stride loop"});
  else
    advice.push_back({Level::kGood,
        format("the grid covers all {} elements{}", launch.elements,
            covered > wanted ? format(" and {:.0f} more: the kernel must check its index", covered - wanted)
                             : ""),
        ""});
}

void advise_on_waves(LaunchReport& report) {
  const Launch& launch = report.launch;
  if (launch.blocks() == 0 || report.occupancy.blocks == 0) return;
  const int64_t slots = report.occupancy.blocks * launch.num_sms;
  const double blocks = static_cast<double>(launch.blocks());
  report.waves = blocks / static_cast<double>(slots);
  const double whole = std::ceil(report.waves);
  if (launch.blocks() < launch.num_sms) {
    report.tail_idle_share = 1 - blocks / static_cast<double>(launch.num_sms);
    report.advice.push_back({Level::kBad,
        format("{} blocks for {} SMs: {:.0f} % of the SMs have nothing to do", launch.blocks(),
            launch.num_sms, 100 * report.tail_idle_share),
        "smaller blocks or tiles, split-K, a larger batch, or another kernel beside it"});
    return;
  }
  // Below one wave every block has its place at once: some SMs only hold fewer of them.
  report.tail_idle_share = report.waves <= 1 ? 0 : 1 - report.waves / whole;
  const bool bad = report.tail_idle_share > 0.2;
  report.advice.push_back({bad ? Level::kNote : Level::kGood,
      format("{:.2f} waves of {} blocks; the last one leaves {:.0f} % of the SM time idle", report.waves,
          slots, 100 * report.tail_idle_share),
      bad ? format("a grid of {} blocks (whole waves), a persistent kernel, or smaller blocks",
                static_cast<int64_t>(std::max(1.0, std::floor(report.waves))) * slots)
          : ""});
}

void advise_on_bounds(const SmLimits& sm, const Launch& launch, std::vector<Advice>& advice) {
  if (!launch.bounds_threads) return;
  const int64_t threads = *launch.bounds_threads, blocks = launch.bounds_blocks.value_or(1);
  const auto cap = launch_bounds_cap(sm, threads, blocks);
  if (!cap) {
    advice.push_back({Level::kBad,
        format("__launch_bounds__({}, {}) asks for {} threads or {} blocks on an SM that holds {} and {}: "
               "ptxas ignores the second value",
            threads, blocks, threads * blocks, blocks, sm.max_threads(), sm.max_blocks),
        format(
            "at most {} blocks", std::min(sm.max_blocks, sm.max_threads() / std::max<int64_t>(1, threads)))});
    return;
  }
  const bool tight = launch.kernel.registers > *cap;
  advice.push_back({tight ? Level::kNote : Level::kGood,
      format("__launch_bounds__({}, {}) leaves {} registers a thread{}", threads, blocks, *cap,
          tight ? format(
                      "; the kernel takes {} now, so ptxas would spill or recompute", launch.kernel.registers)
                : ""),
      tight ? "check the spill lines of ptxas -v, and time both" : ""});
  if (launch.kernel.threads > threads)
    advice.push_back({Level::kBad,
        format("a block of {} threads passes __launch_bounds__({}): the launch fails", launch.kernel.threads,
            threads),
        "raise the bound"});
}

void advise_on_occupancy(const LaunchReport& report, std::vector<Advice>& advice) {
  const Occupancy& now = report.occupancy;
  if (now.blocks == 0)
    advice.push_back({Level::kBad, now.impossible, "it cannot be launched as it is"});
  else if (now.share < 0.25)
    advice.push_back({Level::kNote, format("{:.3g} % occupancy", 100 * now.share),
        "enough for matrix kernels that copy asynchronously; others hide latency better from 50 % on"});
}

}  // namespace

int64_t Launch::blocks() const {
  const double blocks =
      static_cast<double>(grid_x) * static_cast<double>(grid_y) * static_cast<double>(grid_z);
  return blocks < 0x1p62 ? grid_x * grid_y * grid_z : int64_t{1} << 62;
}

LaunchReport advise(const SmLimits& sm, Launch launch) {
  if (launch.num_sms == 0) launch.num_sms = sm.num_sms;
  if (launch.grid_x == 0 && launch.elements > 0) {
    const int64_t each = std::max<int64_t>(1, launch.kernel.threads * launch.per_thread);
    launch.grid_x = (launch.elements + each - 1) / each;
  }
  LaunchReport report{.launch = launch, .occupancy = occupancy(sm, launch.kernel), .advice = {}};
  advise_on_occupancy(report, report.advice);
  advise_on_lanes(launch, report.advice);
  advise_on_limits(launch, report.advice);
  if (launch.blocks() > 0) advise_on_coverage(launch, report.advice);
  advise_on_waves(report);
  advise_on_bounds(sm, launch, report.advice);
  return report;
}

}  // namespace cheetah::analysis
