// SPDX-License-Identifier: MIT
#pragma once
// The roofline with several levels of memory and several number types: where a kernel is under the roofs,
// how far it can rise, and what another precision would change. Pure.
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace cheetah::analysis {

struct MemoryRoof {
  std::string level;  // "dram", "l2", "l1"
  double bytes_per_s = 0;
};
struct MathRoof {
  std::string dtype;  // "fp32", "bf16", "fp8"
  double flops_per_s = 0;
};
struct RoofSet {
  std::string source;  // where the numbers come from: a measured run, or a data sheet
  bool measured = false;
  std::vector<MemoryRoof> memory;  // the farthest from the SM first
  std::vector<MathRoof> math;

  const MemoryRoof* level(std::string_view name) const;
  const MathRoof* dtype(std::string_view name) const;
};

struct LevelBytes {
  std::string level;
  double bytes = 0;
};
struct RooflinePoint {
  std::string name;
  std::string dtype = "fp32";
  double flops = 0;
  std::vector<LevelBytes> traffic;
  double seconds = 0;  // 0: not measured, only what is attainable can be told
};

struct LevelReading {
  std::string level;
  double intensity = 0;        // FLOP a byte
  double ridge = 0;            // where this level's roof meets the type's
  double attainable = 0;       // FLOP/s under this level and the type's peak
  double bandwidth_share = 0;  // of the level's bytes/s that were moved; 0 without a time
};
// The same work in another number type.
struct PrecisionChange {
  std::string dtype;
  double intensity = 0;      // at the limiting level, bytes scaled with the type
  double attainable = 0;     // FLOP/s
  double bound_speedup = 0;  // of the attainable times
  std::string limit;
};
struct PointReading {
  RooflinePoint point;
  std::vector<LevelReading> levels;
  std::string limit;        // the level or the type whose roof is lowest
  double attainable = 0;    // FLOP/s; 0 when neither a level nor the type is known
  double achieved = 0;      // FLOP/s; 0 without a time
  double headroom = 0;      // attainable over achieved
  bool impossible = false;  // achieved passes the roof by more than 5 %: counts, time or roof are wrong
  std::vector<PrecisionChange> changes;
  std::vector<std::string> advice;
  std::vector<std::string> unknown;  // levels and types without a roof
};
PointReading read_point(const RoofSet& roofs, const RooflinePoint& point);

// Bits of a number of this type; nullopt for a name we do not know.
std::optional<int> bits_of(std::string_view dtype);

// {"source": "...", "measured": true, "memory": {"dram": 4.2e12}, "math": {"bf16": 7.9e14}}. Throws Error.
RoofSet roofs_from_json(const Json& document, const std::string& what);
// Data sheets, for planning without the card: h200, h100, b200, a100, l40s. Throws UsageError that lists
// them.
RoofSet data_sheet(std::string_view card);
// "name=gemm,flops=2.1e9,bytes=12e6,l2=40e6,us=5,dtype=bf16". Throws UsageError.
RooflinePoint parse_point(const std::string& text);

std::string roofline_text(const RoofSet& roofs, const std::vector<PointReading>& points);
Json roofline_json(const RoofSet& roofs, const std::vector<PointReading>& points);
// A file of its own: both axes logarithmic, no network.
std::string roofline_svg(const RoofSet& roofs, const std::vector<PointReading>& points);

}  // namespace cheetah::analysis
