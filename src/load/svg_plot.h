// SPDX-License-Identifier: MIT
#pragma once
// Small plots as SVG text, for a report that must open anywhere.
#include <optional>
#include <string>
#include <vector>

namespace cheetah {

struct PlotPoint {
  double x = 0, y = 0;
};

struct PlotSeries {
  std::string name;
  std::vector<PlotPoint> points;
  bool dots = false;  // points alone, instead of a line
};

struct Plot {
  std::string title, x_label, y_label;
  std::vector<PlotSeries> series;
  std::optional<double> mark_x{};  // a vertical line, e.g. at the knee
  std::string mark_label{};
};

// Values on an axis that people like to read, at most about `most` of them, within [low, high].
std::vector<double> axis_ticks(double low, double high, int most);
// An <svg> element; series take the CSS classes s0, s1, ... for their colours. Without a point: a note.
std::string svg(const Plot& plot);

}  // namespace cheetah
