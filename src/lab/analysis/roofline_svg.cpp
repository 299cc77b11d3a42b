// SPDX-License-Identifier: MIT
#include <algorithm>
#include <limits>

#include "base/format.h"
#include "lab/analysis/roofline.h"
#include "lab/report/svg.h"

namespace cheetah::analysis {
namespace {

// The report's pages carry their own; a file of its own needs these.
constexpr const char* kStyle =
    "<style>svg{font:12px sans-serif;background:#fff}.title{font-weight:bold}.grid{stroke:#ddd;fill:none}"
    ".roof{stroke:#444;stroke-width:1.5;fill:none}.s0{fill:#1f77b4}.s1{fill:#d62728}.s2{fill:#2ca02c}.s3{"
    "fill:#9467bd}"
    ".s4{fill:#ff7f0e}.s5{fill:#17becf}.s6{fill:#8c564b}.s7{fill:#7f7f7f}</style>";

struct Range {
  double low = std::numeric_limits<double>::max(), high = 0;
  void see(double value) {
    if (value > 0) low = std::min(low, value), high = std::max(high, value);
  }
};

double place_of(const PointReading& reading) {
  for (const LevelReading& level : reading.levels)
    if (reading.limit == level.level + " bandwidth") return level.intensity;
  return reading.levels.empty() ? 0 : reading.levels.front().intensity;
}

Range intensities(const RoofSet& roofs, const std::vector<PointReading>& points) {
  Range range;
  for (const MathRoof& math : roofs.math)
    for (const MemoryRoof& memory : roofs.memory) range.see(math.flops_per_s / memory.bytes_per_s);
  for (const PointReading& reading : points) range.see(place_of(reading));
  if (range.high <= 0) range.see(1);
  return {range.low / 4, range.high * 4};
}

void add_roofs(const RoofSet& roofs, const Range& x, lab::LinePlot& plot) {
  double top = 0;
  for (const MathRoof& math : roofs.math) top = std::max(top, math.flops_per_s);
  for (const MemoryRoof& memory : roofs.memory) {
    const double end = top > 0 ? std::min(x.high, top / memory.bytes_per_s) : x.high;
    if (end <= x.low) continue;
    plot.lines.push_back({.name = memory.level,
        .points = {{x.low, x.low * memory.bytes_per_s}, {end, end * memory.bytes_per_s}},
        .roof = true});
  }
  double fastest = 0;
  for (const MemoryRoof& memory : roofs.memory) fastest = std::max(fastest, memory.bytes_per_s);
  for (const MathRoof& math : roofs.math) {
    const double begin = fastest > 0 ? std::max(x.low, math.flops_per_s / fastest) : x.low;
    plot.lines.push_back({.name = math.dtype,
        .points = {{begin, math.flops_per_s}, {x.high, math.flops_per_s}},
        .roof = true});
  }
}

}  // namespace

std::string roofline_svg(const RoofSet& roofs, const std::vector<PointReading>& points) {
  lab::LinePlot plot{
      .title = "Roofline, " + roofs.source, .x_label = "FLOP a byte", .y_label = "FLOP/s", .lines = {}};
  for (const PointReading& reading : points) {
    const double x = place_of(reading), y = reading.achieved > 0 ? reading.achieved : reading.attainable;
    if (x > 0 && y > 0) plot.lines.push_back({.name = reading.point.name, .points = {{x, y}}, .dots = true});
  }
  add_roofs(roofs, intensities(roofs, points), plot);
  std::string drawing = lab::lines_svg(plot);
  if (drawing.empty()) return drawing;
  drawing.insert(drawing.find('>') + 1, kStyle);
  drawing.insert(drawing.find("<svg") + 4, " xmlns=\"http://www.w3.org/2000/svg\"");
  return drawing;
}

}  // namespace cheetah::analysis
