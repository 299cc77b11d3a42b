// SPDX-License-Identifier: MIT
#include <algorithm>
#include <limits>

#include "base/format.h"
#include "lab/analysis/roofline.h"
#include "lab/report/svg.h"

namespace cheetah::analysis {
namespace {

// The colours of web/look.css; a file of its own carries them.
constexpr const char* kStyle =
    "<style>svg{font:12px system-ui,sans-serif;background:#fff;color:#1f1b15}text{fill:#1f1b15}.title{font-weight:600}"
    ".tick,.label{fill:#675f52}.grid{stroke:#e5e1d8;fill:none}.roof{stroke:#675f52;stroke-width:1.5;fill:none}"
    ".s0{fill:#c26a00}.s1{fill:#1d6fa5}.s2{fill:#2a7d5c}.s3{fill:#7b50b0}.s4{fill:#b8432f}.s5{fill:#5f7a1f}"
    ".s6{fill:#a83c78}.s7{fill:#55636f}</style>";

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
      .title = "Roofline, " + roofs.source, .x_label = "FLOP per byte", .y_label = "FLOP/s", .lines = {}};
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
