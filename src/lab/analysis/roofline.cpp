// SPDX-License-Identifier: MIT
#include "lab/analysis/roofline.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"

namespace cheetah::analysis {
namespace {

constexpr double kTolerance = 1.05;  // clocks move and roofs carry noise

struct Bits {
  std::string_view dtype;
  int bits;
};
constexpr Bits kBits[] = {{"fp64", 64}, {"fp32", 32}, {"tf32", 32}, {"bf16", 16}, {"fp16", 16}, {"fp8", 8},
    {"int8", 8}, {"fp4", 4}};

// The lowest roof over the point: a level of memory or the math of its type.
struct Lowest {
  double flops_per_s = 0;
  std::string limit;
  double intensity = 0;
};

Lowest lowest_roof(
    const RoofSet& roofs, const RooflinePoint& point, const std::string& dtype, double byte_scale) {
  Lowest lowest;
  const auto offer = [&](double flops, const std::string& limit, double intensity) {
    if (lowest.flops_per_s == 0 || flops < lowest.flops_per_s) lowest = {flops, limit, intensity};
  };
  if (const MathRoof* math = roofs.dtype(dtype)) offer(math->flops_per_s, dtype + " math", 0);
  for (const LevelBytes& traffic : point.traffic)
    if (const MemoryRoof* memory = roofs.level(traffic.level); memory != nullptr && traffic.bytes > 0) {
      const double intensity = point.flops / (traffic.bytes * byte_scale);
      offer(intensity * memory->bytes_per_s, memory->level + " bandwidth", intensity);
    }
  return lowest;
}

void read_levels(const RoofSet& roofs, PointReading& reading) {
  const RooflinePoint& point = reading.point;
  const MathRoof* math = roofs.dtype(point.dtype);
  for (const LevelBytes& traffic : point.traffic) {
    const MemoryRoof* memory = roofs.level(traffic.level);
    if (traffic.bytes <= 0) continue;
    LevelReading level{.level = traffic.level, .intensity = point.flops / traffic.bytes};
    if (memory == nullptr) {
      reading.unknown.push_back(format("no roof for {}", traffic.level));
    } else {
      level.attainable = level.intensity * memory->bytes_per_s;
      if (math != nullptr) {
        level.ridge = math->flops_per_s / memory->bytes_per_s;
        level.attainable = std::min(level.attainable, math->flops_per_s);
      }
      if (point.seconds > 0) level.bandwidth_share = traffic.bytes / point.seconds / memory->bytes_per_s;
    }
    reading.levels.push_back(std::move(level));
  }
  if (math == nullptr) reading.unknown.push_back(format("no roof for {} math", point.dtype));
}

void read_changes(const RoofSet& roofs, PointReading& reading) {
  const auto now_bits = bits_of(reading.point.dtype);
  if (!now_bits || reading.attainable <= 0) return;
  for (const MathRoof& math : roofs.math) {
    const auto bits = bits_of(math.dtype);
    if (math.dtype == reading.point.dtype || !bits || *bits > *now_bits) continue;
    const double scale = static_cast<double>(*bits) / *now_bits;
    const Lowest then = lowest_roof(roofs, reading.point, math.dtype, scale);
    reading.changes.push_back({.dtype = math.dtype,
        .intensity = then.intensity,
        .attainable = then.flops_per_s,
        .bound_speedup = then.flops_per_s / reading.attainable,
        .limit = then.limit});
  }
}

void advise(PointReading& reading) {
  if (reading.achieved <= 0 || reading.attainable <= 0) return;
  if (reading.impossible) {
    reading.advice.push_back(
        "above the roof: the work was not all done, the bytes stay in a nearer cache, or the roof was "
        "measured too low");
    return;
  }
  const bool near = reading.headroom < 1.25, memory = reading.limit.ends_with("bandwidth");
  if (near && memory)
    reading.advice.push_back(
        "at the memory roof: move fewer bytes (reuse, fusion, smaller types); nothing else raises it");
  else if (near)
    reading.advice.push_back(
        "at the math roof: a cheaper type or fewer operations; fusion to remove gaps between kernels");
  else if (reading.headroom > 3)
    reading.advice.push_back(
        "far below both roofs: more parallel work, more loads in flight, longer grids; lab diagnose "
        "tells which");
  else
    reading.advice.push_back(
        "below its roof: overlap loads with math, balance blocks; lab diagnose tells what waits");
}

}  // namespace

const MemoryRoof* RoofSet::level(std::string_view name) const {
  const auto found = std::ranges::find(memory, name, &MemoryRoof::level);
  return found == memory.end() ? nullptr : &*found;
}

const MathRoof* RoofSet::dtype(std::string_view name) const {
  const auto found = std::ranges::find(math, name, &MathRoof::dtype);
  return found == math.end() ? nullptr : &*found;
}

std::optional<int> bits_of(std::string_view dtype) {
  for (const Bits& known : kBits)
    if (known.dtype == dtype) return known.bits;
  return std::nullopt;
}

PointReading read_point(const RoofSet& roofs, const RooflinePoint& point) {
  PointReading reading{.point = point, .levels = {}, .limit = {}, .changes = {}, .advice = {}, .unknown = {}};
  read_levels(roofs, reading);
  const Lowest lowest = lowest_roof(roofs, point, point.dtype, 1);
  reading.limit = lowest.limit;
  reading.attainable = lowest.flops_per_s;
  if (point.seconds > 0) reading.achieved = point.flops / point.seconds;
  if (reading.achieved > 0) reading.headroom = reading.attainable / reading.achieved;
  reading.impossible = reading.attainable > 0 && reading.achieved > kTolerance * reading.attainable;
  read_changes(roofs, reading);
  advise(reading);
  return reading;
}

RoofSet roofs_from_json(const Json& document, const std::string& what) {
  const JsonFields fields(document, what);
  RoofSet roofs;
  roofs.source = fields.string_or("source", what);
  roofs.measured = fields.boolean_or("measured", false);
  const auto numbers = [&](const char* name, auto add) {
    const Json* object = fields.find(name);
    if (object == nullptr) return;
    if (!object->is_object()) throw Error(format("{}: {}: expected an object of numbers", what, name));
    const JsonFields inside(*object, format("{}: {}", what, name));
    for (const auto& [key, value] : object->items()) {
      const double rate = inside.number(key);
      if (!(rate > 0))
        throw Error(format("{}: {}: {}: expected a number above 0", what, name, printable(key)));
      add(printable(key), rate);
    }
  };
  numbers("memory", [&](const std::string& level, double rate) { roofs.memory.push_back({level, rate}); });
  numbers("math", [&](const std::string& dtype, double rate) { roofs.math.push_back({dtype, rate}); });
  if (roofs.memory.empty() && roofs.math.empty())
    throw Error(format("{}: expected 'memory' (bytes/s by level) or 'math' (FLOP/s by type)", what));
  return roofs;
}

RoofSet data_sheet(std::string_view card) {
  // Vendors' data sheets, dense rates; L2 and shared memory have none.
  struct Sheet {
    std::string_view name;
    double dram, fp32, bf16, fp8;
  };
  constexpr Sheet kSheets[] = {{"h200", 4.8e12, 67e12, 989e12, 1979e12},
      {"h100", 3.35e12, 67e12, 989e12, 1979e12}, {"b200", 8e12, 80e12, 2250e12, 4500e12},
      {"a100", 2.039e12, 19.5e12, 312e12, 0}, {"l40s", 0.864e12, 91.6e12, 362e12, 733e12}};
  std::string names;
  for (const Sheet& sheet : kSheets) {
    names += format("{}{}", names.empty() ? "" : ", ", sheet.name);
    if (sheet.name != card) continue;
    RoofSet roofs{.source = format("data sheet of {}: these were not measured", card),
        .memory = {{"dram", sheet.dram}},
        .math = {{"fp32", sheet.fp32}, {"bf16", sheet.bf16}}};
    if (sheet.fp8 > 0) roofs.math.push_back({"fp8", sheet.fp8});
    return roofs;
  }
  throw UsageError(format("--card: '{}' is not known; known: {}", printable(card), names));
}

RooflinePoint parse_point(const std::string& text) {
  RooflinePoint point;
  for (const std::string_view part : split(text, ',')) {
    const size_t equals = part.find('=');
    const std::string_view key = trimmed(part.substr(0, equals));
    const std::string_view value = equals == std::string_view::npos ? "" : trimmed(part.substr(equals + 1));
    if (key == "name") {
      point.name = printable(value, 100);
    } else if (key == "dtype") {
      point.dtype = printable(value);
    } else {
      const auto number = to_number(value);
      if (!number || *number < 0)
        throw UsageError(format("--point: '{}' is not KEY=NUMBER, name=… or dtype=…", printable(part)));
      if (key == "flops")
        point.flops = *number;
      else if (key == "us")
        point.seconds = *number * 1e-6;
      else
        point.traffic.push_back({key == "bytes" ? "dram" : printable(key), *number});
    }
  }
  if (!(point.flops > 0)) throw UsageError("--point: flops=NUMBER above 0 is missing");
  if (point.name.empty()) point.name = "point";
  return point;
}

}  // namespace cheetah::analysis
