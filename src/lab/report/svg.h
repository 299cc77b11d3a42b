// SPDX-License-Identifier: MIT
#pragma once
// The report's plots as SVG text.
#include <string>
#include <vector>

namespace cheetah::lab {

struct Bar {
  std::string name;
  double value = 0;
  double low = 0, high = 0;  // confidence interval, drawn as a whisker
  std::string label;         // at the bar's end
  std::string css_class;     // the verdict: its colour
};
struct BarPlot {
  std::string title;
  std::vector<Bar> bars;
  double mark = 0;  // a vertical line, e.g. at 1; 0: none
};
std::string bars_svg(const BarPlot& plot);

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
