// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/table.h"
#include "lab/analysis/roofline.h"

namespace cheetah::analysis {
namespace {

constexpr int kColumns = 66, kRows = 20;
constexpr size_t kMaxMarks = 26;

std::string rate(double value, const char* unit) {
  constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P"};
  size_t prefix = 0;
  for (; value >= 1000 && prefix + 1 < std::size(kPrefixes); ++prefix) value /= 1000;
  return format("{:.3g} {}{}", value, kPrefixes[prefix], unit);
}

// Both axes logarithmic, in characters.
class Canvas {
 public:
  Canvas(double x_low, double x_high, double y_low, double y_high)
      : x_low_(std::log(x_low)),
        x_step_((std::log(x_high) - x_low_) / (kColumns - 1)),
        y_high_(std::log(y_high)),
        y_step_((y_high_ - std::log(y_low)) / (kRows - 1)),
        rows_(kRows, std::string(kColumns, ' ')) {}

  double x_of(int column) const { return std::exp(x_low_ + column * x_step_); }
  double y_of(int row) const { return std::exp(y_high_ - row * y_step_); }
  void put(double x, double y, char mark) {
    const double column = std::round((std::log(x) - x_low_) / x_step_),
                 row = std::round((y_high_ - std::log(y)) / y_step_);
    if (!(column >= 0 && column < kColumns && row >= 0 && row < kRows)) return;
    rows_[static_cast<size_t>(row)][static_cast<size_t>(column)] = mark;
  }
  const std::string& row(int index) const { return rows_[static_cast<size_t>(index)]; }

 private:
  double x_low_, x_step_, y_high_, y_step_;
  std::vector<std::string> rows_;
};

// The intensity that places a point: at the level that limits it, or else the first it has.
double place_of(const PointReading& reading) {
  for (const LevelReading& level : reading.levels)
    if (reading.limit == level.level + " bandwidth") return level.intensity;
  return reading.levels.empty() ? 0 : reading.levels.front().intensity;
}

Canvas canvas_for(const RoofSet& roofs, const std::vector<PointReading>& points) {
  double x_low = 1e300, x_high = 0, y_low = 1e300, y_high = 0;
  const auto see = [&](double x, double y) {
    if (x > 0) x_low = std::min(x_low, x), x_high = std::max(x_high, x);
    if (y > 0) y_low = std::min(y_low, y), y_high = std::max(y_high, y);
  };
  for (const MathRoof& math : roofs.math)
    for (const MemoryRoof& memory : roofs.memory)
      see(math.flops_per_s / memory.bytes_per_s, math.flops_per_s);
  for (const PointReading& reading : points)
    see(place_of(reading), reading.achieved > 0 ? reading.achieved : reading.attainable);
  if (x_high <= 0) see(1, 0);
  if (y_high <= 0) see(0, 1);
  return Canvas(x_low / 4, x_high * 4, y_low / 4, y_high * 2);
}

char mark_of(size_t index) { return static_cast<char>('A' + index); }

std::string plot(const RoofSet& roofs, const std::vector<PointReading>& points) {
  if (roofs.memory.empty() || roofs.math.empty()) return "";
  Canvas canvas = canvas_for(roofs, points);
  double top = 0;
  for (const MathRoof& math : roofs.math) top = std::max(top, math.flops_per_s);
  for (int column = 0; column < kColumns; ++column) {
    const double x = canvas.x_of(column);
    for (const MemoryRoof& memory : roofs.memory)
      if (x * memory.bytes_per_s <= top) canvas.put(x, x * memory.bytes_per_s, '/');
    for (const MathRoof& math : roofs.math)
      if (x * roofs.memory.back().bytes_per_s >= math.flops_per_s) canvas.put(x, math.flops_per_s, '-');
  }
  for (size_t i = 0; i < std::min(points.size(), kMaxMarks); ++i)
    canvas.put(
        place_of(points[i]), points[i].achieved > 0 ? points[i].achieved : points[i].attainable, mark_of(i));
  std::string text = "\nFLOP/s by FLOP per byte, both logarithmic\n";
  for (int row = 0; row < kRows; ++row)
    text += format("{:>10} |{}\n", row % 4 == 0 ? rate(canvas.y_of(row), "") : "", canvas.row(row));
  text += format("{:>10} +{}\n{:>11}{:<22.3g}{:<22.3g}{:>22.3g}\n", "", std::string(kColumns, '-'), "",
      canvas.x_of(0), canvas.x_of(kColumns / 2), canvas.x_of(kColumns - 1));
  return text;
}

std::string roofs_text(const RoofSet& roofs) {
  std::string text = format("roofs ({})\n", roofs.source);
  for (const MathRoof& math : roofs.math)
    text += format("  {:<6} {}\n", math.dtype, rate(math.flops_per_s, "FLOP/s"));
  for (const MemoryRoof& memory : roofs.memory) {
    text += format("  {:<6} {}", memory.level, rate(memory.bytes_per_s, "B/s"));
    for (const MathRoof& math : roofs.math)
      text += format("{} ridge with {} at {:.3g}", &math == &roofs.math.front() ? ";" : ",", math.dtype,
          math.flops_per_s / memory.bytes_per_s);
    text += "\n";
  }
  return text;
}

std::string point_text(const PointReading& reading, const std::string& mark) {
  const RooflinePoint& point = reading.point;
  std::string text = format("\n{}{} ({})\n", mark, point.name, point.dtype);
  for (const LevelReading& level : reading.levels) {
    text += format("  {:<5} {:.4g} FLOP per byte", level.level, level.intensity);
    if (level.attainable > 0) text += format(", attainable {}", rate(level.attainable, "FLOP/s"));
    if (level.bandwidth_share > 0) text += format(", {:.3g} % of its bandwidth", 100 * level.bandwidth_share);
    text += "\n";
  }
  if (reading.attainable > 0)
    text += format("  limit: {}, {}\n", reading.limit, rate(reading.attainable, "FLOP/s"));
  if (reading.achieved > 0)
    text += format("  achieved {}, headroom {:.3g}x\n", rate(reading.achieved, "FLOP/s"), reading.headroom);
  for (const PrecisionChange& change : reading.changes)
    text += format(
        "  in {}: at most {:.3g}x, then limited by {}\n", change.dtype, change.bound_speedup, change.limit);
  for (const std::string& advice : reading.advice) text += format("  try: {}\n", advice);
  for (const std::string& unknown : reading.unknown) text += format("  not known: {}\n", unknown);
  return text;
}

}  // namespace

std::string roofline_text(const RoofSet& roofs, const std::vector<PointReading>& points) {
  std::string text = roofs_text(roofs) + plot(roofs, points);
  for (size_t i = 0; i < points.size(); ++i)
    text += point_text(points[i], i < kMaxMarks ? format("{} ", mark_of(i)) : "");
  return text;
}

Json roofline_json(const RoofSet& roofs, const std::vector<PointReading>& points) {
  Json memory = Json::object(), math = Json::object(), all = Json::array();
  for (const MemoryRoof& roof : roofs.memory) memory[roof.level] = roof.bytes_per_s;
  for (const MathRoof& roof : roofs.math) math[roof.dtype] = roof.flops_per_s;
  for (const PointReading& reading : points) {
    Json levels = Json::array(), changes = Json::array();
    for (const LevelReading& level : reading.levels)
      levels.push_back({{"level", level.level}, {"intensity", level.intensity}, {"ridge", level.ridge},
          {"attainable", level.attainable}, {"bandwidth_share", level.bandwidth_share}});
    for (const PrecisionChange& change : reading.changes)
      changes.push_back(
          {{"dtype", change.dtype}, {"bound_speedup", change.bound_speedup}, {"limit", change.limit}});
    all.push_back({{"name", reading.point.name}, {"dtype", reading.point.dtype},
        {"levels", std::move(levels)}, {"limit", reading.limit}, {"attainable", reading.attainable},
        {"achieved", reading.achieved}, {"headroom", reading.headroom}, {"impossible", reading.impossible},
        {"precision", std::move(changes)}, {"advice", reading.advice}, {"unknown", reading.unknown}});
  }
  return {{"source", roofs.source}, {"measured", roofs.measured}, {"memory", std::move(memory)},
      {"math", std::move(math)}, {"points", std::move(all)}};
}

}  // namespace cheetah::analysis
