// SPDX-License-Identifier: MIT
#include "lab/report/svg.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/markup.h"

namespace cheetah::lab {
namespace {

constexpr double kWidth = 720;

// Values to pixels on a logarithmic axis; ticks at 1, 2 and 5, or at powers of ten where there are many of
// those.
struct LogScale {
  double low = 1, high = 10, from = 0, to = 1;
  double at(double value) const {
    return from + (to - from) * (std::log(value) - std::log(low)) / (std::log(high) - std::log(low));
  }
  std::vector<double> ticks() const {
    std::vector<double> out;
    const bool sparse = std::log10(high / low) > 4;
    const std::vector<double> steps = sparse ? std::vector<double>{1} : std::vector<double>{1, 2, 5};
    for (double power = std::floor(std::log10(low)); power <= std::log10(high); ++power)
      for (const double step : steps)
        if (const double tick = step * std::pow(10, power); tick >= low && tick <= high) out.push_back(tick);
    return out;
  }
};

std::string short_number(double value) {
  constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P"};
  size_t prefix = 0;
  for (; value >= 1000 && prefix + 1 < std::size(kPrefixes); ++prefix) value /= 1000;
  return format("{:.3g}{}", value, kPrefixes[prefix]);
}

struct Frame {
  LogScale x, y;
};

Frame frame_of(const LinePlot& plot, double height) {
  Frame frame{.x = {.low = 1e300, .high = 0, .from = 64, .to = kWidth - 150},
      .y = {.low = 1e300, .high = 0, .from = height - 44, .to = 34}};
  for (const Line& line : plot.lines)
    for (const auto& [x, y] : line.points) {
      frame.x.low = std::min(frame.x.low, x), frame.x.high = std::max(frame.x.high, x);
      frame.y.low = std::min(frame.y.low, y), frame.y.high = std::max(frame.y.high, y);
    }
  for (LogScale* scale : {&frame.x, &frame.y}) {
    scale->low /= 1.15;
    scale->high *= 1.15;
  }
  return frame;
}

std::string axes(const LinePlot& plot, const Frame& f, double height) {
  std::string out;
  for (const double tick : f.y.ticks())
    out += format(
        R"(<path class="grid" d="M{:.1f},{:.1f}H{:.1f}"/><text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)",
        f.x.from, f.y.at(tick), f.x.to, f.x.from - 6, f.y.at(tick) + 4, short_number(tick));
  for (const double tick : f.x.ticks())
    out += format(
        R"(<path class="grid" d="M{0:.1f},{1:.1f}V{2:.1f}"/><text class="tick" x="{0:.1f}" y="{3:.1f}" text-anchor="middle">{4}</text>)",
        f.x.at(tick), f.y.from, f.y.to, f.y.from + 16, short_number(tick));
  out += format(R"(<text class="label" x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)",
      (f.x.from + f.x.to) / 2, height - 8, escape_markup(plot.x_label));
  return out +
         format(
             R"svg(<text class="label" transform="translate(14,{:.1f}) rotate(-90)" text-anchor="middle">{}</text>)svg",
             (f.y.from + f.y.to) / 2, escape_markup(plot.y_label));
}

std::string drawn(const Line& line, size_t index, const Frame& f) {
  std::string out, path;
  for (const auto& [x, y] : line.points) {
    path += format("{}{:.1f},{:.1f}", path.empty() ? "M" : "L", f.x.at(x), f.y.at(y));
    if (!line.roof)
      out +=
          format(R"(<circle class="s{}" cx="{:.1f}" cy="{:.1f}" r="3.5"><title>{}: {}, {}</title></circle>)",
              index % 8, f.x.at(x), f.y.at(y), escape_markup(line.name), short_number(x), short_number(y));
  }
  if (line.roof) {
    const auto& [x, y] = line.points.back();
    return format(
        R"(<path class="roof" d="{}"/><text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)",
        path, f.x.at(x), f.y.at(y) - 5, escape_markup(line.name));
  }
  return line.dots ? out : format(R"(<path class="line s{}" d="{}"/>)", index % 8, path) + out;
}

std::string legend(const LinePlot& plot, double x) {
  std::string out;
  double y = 40;
  for (size_t i = 0; i < plot.lines.size(); ++i) {
    if (plot.lines[i].roof) continue;
    out += format(
        R"(<circle class="s{}" cx="{:.1f}" cy="{:.1f}" r="4"/><text class="tick" x="{:.1f}" y="{:.1f}">{}</text>)",
        i % 8, x, y, x + 8, y + 4, escape_markup(plot.lines[i].name));
    y += 17;
  }
  return out;
}

std::string opened(const std::string& title, double height) {
  return format(
      R"(<svg viewBox="0 0 {} {}" role="img" aria-label="{}"><text class="title" x="8" y="20">{}</text>)",
      kWidth, height, escape_markup(title), escape_markup(title));
}

}  // namespace

std::string lines_svg(const LinePlot& plot) {
  constexpr double kHeight = 340;
  const bool empty = std::ranges::all_of(plot.lines, [](const Line& line) { return line.points.empty(); });
  if (empty) return "";
  const Frame frame = frame_of(plot, kHeight);
  std::string out = opened(plot.title, kHeight) + axes(plot, frame, kHeight);
  for (size_t i = 0; i < plot.lines.size(); ++i)
    if (!plot.lines[i].points.empty()) out += drawn(plot.lines[i], i, frame);
  return out + legend(plot, kWidth - 140) + "</svg>\n";
}

}  // namespace cheetah::lab
