// SPDX-License-Identifier: MIT
#pragma once
// Reports as pages: the same look (web/look.css) and the same charts (web/chart.js) as the server's page, both inside
// the file, which opens anywhere and asks nothing of a network.
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cheetah {

struct ReportTitle {
  std::string kind;   // "Load test"
  std::string title;  // what of: a model, a machine
  std::string date;   // 2026-01-31T12:00:00Z, or ""
  std::string about;  // one line below; may be ""
};
// `body`: markup, from the functions below or escaped by escape_markup().
std::string report_page(const ReportTitle& title, const std::string& body);

// A table that scrolls in its own box where it is too wide. Cells are text.
std::string report_table(
    const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows);
// The same of cells that are markup already, <td> and all.
std::string report_table_of_rows(const std::vector<std::string>& header, const std::string& rows);
// Large numbers in a row: what each is, the number, its unit.
struct ReportTile {
  std::string name, value, unit = {};
};
std::string report_tiles(const std::vector<ReportTile>& tiles);
// A pill in one of look.css's colours, e.g. "good", "warn", "bad" or a verdict's.
std::string report_badge(const std::string& text, std::string_view css_class);

// Units are names of web/chart.js: plain, short, count, seconds, milliseconds, percent.
struct ChartAxis {
  std::string label, unit = "plain";
  bool log = false;
};
struct ChartSeries {
  std::string name;
  std::vector<std::pair<double, double>> points = {};  // x, y; above 0 on axes that are logarithmic
  bool dots = false;                                   // points alone, instead of a line
  bool roof = false;                                   // a limit, named at its end
};
struct ChartMark {
  std::optional<double> x = {}, y = {};
  std::string label;
  bool objective = false;  // an SLO
};
struct LineChart {
  std::string title;
  ChartAxis x, y;
  std::vector<ChartSeries> series;
  std::vector<ChartMark> marks = {};
};
std::string report_chart(const LineChart& chart);  // without a point: a sentence

struct ChartBar {
  std::string name;
  double value = 0;
  double low = 0, high = 0;  // confidence interval; equal: none
  std::string label;         // at the bar's end
  std::string css_class;     // a verdict of look.css
};
struct BarChart {
  std::string title;
  std::vector<ChartBar> bars;
  double mark = 0;  // a line at this value; 0: none
};
std::string report_chart(const BarChart& chart);

}  // namespace cheetah
