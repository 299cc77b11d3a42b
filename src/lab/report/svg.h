// SPDX-License-Identifier: MIT
#pragma once
// A roofline as SVG text, for a file of its own; reports draw with web/chart.js.
#include <string>
#include <vector>

namespace cheetah::lab {

struct Line {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x, y; both above 0
  bool dots = false;                              // points alone
  bool roof = false;                              // drawn as a limit, labelled at its end
};
// Both axes logarithmic.
struct LinePlot {
  std::string title, x_label, y_label;
  std::vector<Line> lines;
};
std::string lines_svg(const LinePlot& plot);

}  // namespace cheetah::lab
