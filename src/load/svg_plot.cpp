// SPDX-License-Identifier: MIT
#include "load/svg_plot.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/markup.h"

namespace cheetah {
namespace {

constexpr double kWidth = 640, kHeight = 300;
constexpr double kLeft = 60, kRight = 16, kTop = 34, kBottom = 46;

// One axis: values to pixels.
struct Scale {
  double low = 0, high = 1, from = 0, to = 1;
  double at(double value) const { return from + (to - from) * (value - low) / (high - low); }
};

Scale x_scale(const Plot& plot) {
  Scale scale{.low = 0, .high = 0, .from = kLeft, .to = kWidth - kRight};
  for (const PlotSeries& series : plot.series)
    for (const PlotPoint& point : series.points) scale.high = std::max(scale.high, point.x);
  if (scale.high == 0) scale.high = 1;
  return scale;
}

Scale y_scale(const Plot& plot) {
  Scale scale{.low = 0, .high = 0, .from = kHeight - kBottom, .to = kTop};
  for (const PlotSeries& series : plot.series)
    for (const PlotPoint& point : series.points) scale.high = std::max(scale.high, point.y);
  scale.high = scale.high > 0 ? 1.05 * scale.high : 1;
  return scale;
}

std::string axes(const Plot& plot, const Scale& x, const Scale& y) {
  std::string out;
  for (const double tick : axis_ticks(y.low, y.high, 6))
    out += format(
        R"(<path class="grid" d="M{:.1f},{:.1f}H{:.1f}"/><text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="end">{:g}</text>)",
        kLeft, y.at(tick), kWidth - kRight, kLeft - 6, y.at(tick) + 4, tick);
  for (const double tick : axis_ticks(x.low, x.high, 8))
    out += format(R"(<text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="middle">{:g}</text>)", x.at(tick),
        kHeight - kBottom + 16, tick);
  out += format(R"(<text class="label" x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)",
      (kLeft + kWidth - kRight) / 2, kHeight - 8, escape_markup(plot.x_label));
  out += format(
      R"svg(<text class="label" transform="translate(14,{:.1f}) rotate(-90)" text-anchor="middle">{}</text>)svg",
      (kTop + kHeight - kBottom) / 2, escape_markup(plot.y_label));
  return out;
}

std::string drawn(const PlotSeries& series, size_t index, const Scale& x, const Scale& y) {
  std::string out;
  if (series.dots) {
    for (const PlotPoint& point : series.points)
      out += format(
          R"(<circle class="s{}" cx="{:.1f}" cy="{:.1f}" r="2.2"/>)", index, x.at(point.x), y.at(point.y));
    return out;
  }
  for (const PlotPoint& point : series.points)
    out += format("{}{:.1f},{:.1f}", out.empty() ? "M" : "L", x.at(point.x), y.at(point.y));
  return format(R"(<path class="line s{}" d="{}"/>)", index, out);
}

std::string legend(const Plot& plot) {
  std::string out;
  double at = kWidth - kRight;
  for (size_t i = plot.series.size(); i-- > 0;) {
    const std::string& name = plot.series[i].name;
    at -= 7.0 * static_cast<double>(name.size()) + 26;
    out += format(
        R"(<circle class="s{}" cx="{:.1f}" cy="16" r="4"/><text class="tick" x="{:.1f}" y="20">{}</text>)", i,
        at, at + 8, escape_markup(name));
  }
  return out;
}

}  // namespace

std::vector<double> axis_ticks(double low, double high, int most) {
  const double raw = (high - low) / std::max(1, most);
  if (!(raw > 0)) return {low};
  const double power = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= raw) {
      step = factor * power;
      break;
    }
  std::vector<double> ticks;
  for (double i = std::ceil(low / step - 1e-9); i * step <= high * (1 + 1e-9); ++i)
    ticks.push_back(i * step + 0.0);  // never -0
  return ticks;
}

std::string svg(const Plot& plot) {
  const bool empty =
      std::all_of(plot.series.begin(), plot.series.end(), [](const auto& s) { return s.points.empty(); });
  if (empty) return format("<p>{}: nothing to plot.</p>\n", escape_markup(plot.title));
  const Scale x = x_scale(plot), y = y_scale(plot);
  std::string out = format(
      R"(<svg viewBox="0 0 {} {}" role="img" aria-label="{}"><text class="title" x="8" y="20">{}</text>)",
      kWidth, kHeight, escape_markup(plot.title), escape_markup(plot.title));
  out += axes(plot, x, y);
  for (size_t i = 0; i < plot.series.size(); ++i) out += drawn(plot.series[i], i, x, y);
  if (plot.mark_x)
    out += format(
        R"(<path class="mark" d="M{0:.1f},{1}V{2}"/><text class="tick" x="{3:.1f}" y="{4}">{5}</text>)",
        x.at(*plot.mark_x), kTop, kHeight - kBottom, x.at(*plot.mark_x) + 4, kTop + 12,
        escape_markup(plot.mark_label));
  return out + legend(plot) + "</svg>\n";
}

}  // namespace cheetah
