// SPDX-License-Identifier: MIT
#include "base/report_page.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/markup.h"
#include "base/report_files.h"

namespace cheetah {
namespace {

std::string_view embedded(std::string_view name) {
  for (const EmbeddedFile& file : embedded_report_files())
    if (file.name == name) return file.content;
  CHEETAH_ASSERT(false, "a report needs a file that is not embedded");
}

// "2026-01-31T12:00:00Z" as people write it.
std::string readable(std::string date) {
  std::ranges::replace(date, 'T', ' ');
  if (date.ends_with('Z')) date.replace(date.size() - 1, 1, " UTC");
  return date;
}

std::string header_row(const std::vector<std::string>& header) {
  std::string out = "<tr>";
  for (const std::string& name : header) out += format("<th scope=\"col\">{}</th>", escape_markup(name));
  return out + "</tr>";
}

std::string figure(const Json& spec) {
  return format("<figure data-chart=\"{}\"></figure>\n", escape_markup(dump_json(spec)));
}

Json axis_json(const ChartAxis& axis) {
  return {{"label", axis.label}, {"unit", axis.unit}, {"log", axis.log}};
}

// Six digits say more than a plot can show.
double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const double scale = std::pow(10, 5 - std::floor(std::log10(std::abs(value))));
  return std::isfinite(scale) && scale > 0 ? std::round(value * scale) / scale : value;
}

Json series_json(const ChartSeries& series) {
  Json points = Json::array();
  for (const auto& [x, y] : series.points) points.push_back(Json::array({rounded(x), rounded(y)}));
  Json json = {{"name", series.name}, {"points", std::move(points)}};
  if (series.dots) json["dots"] = true;
  if (series.roof) json["roof"] = true;
  return json;
}

}  // namespace

std::string report_page(const ReportTitle& title, const std::string& body) {
  const std::string date = title.date.substr(0, title.date.find('T'));
  const std::string about =
      title.about + (title.about.empty() || title.date.empty() ? "" : " · ") + readable(title.date);
  return format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<title>{0}: {1}{2}</title>\n<style>{3}</style>\n</head>\n<body>\n<main class=\"report\">\n"
      "<header><p class=\"kind\">{0}</p>\n<h1>{1}</h1>\n<p class=\"soft\">{4}</p></header>\n"
      "<noscript><p class=\"note\">The charts need JavaScript; the tables hold every number.</p></noscript>\n"
      "{5}</main>\n<script type=\"module\">{6}</script>\n</body>\n</html>\n",
      escape_markup(title.kind), escape_markup(title.title), date.empty() ? "" : ", " + escape_markup(date),
      embedded("look.css"), escape_markup(about), body, embedded("chart.js"));
}

std::string report_table_of_rows(const std::vector<std::string>& header, const std::string& rows) {
  const bool named = std::ranges::any_of(header, [](const std::string& name) { return !name.empty(); });
  return format(
      "<div class=\"table\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table>{}<tbody>\n{}</tbody></table></div>\n",
      escape_markup(named ? header.front() : "Table"),
      named ? "<thead>" + header_row(header) + "</thead>" : "", rows);
}

std::string report_table(
    const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows) {
  std::string out;
  for (const auto& cells : rows) {
    out += "<tr>";
    for (size_t i = 0; i < cells.size(); ++i)
      out += i == 0 ? format("<th scope=\"row\">{}</th>", escape_markup(cells[i]))
                    : format("<td>{}</td>", escape_markup(cells[i]));
    out += "</tr>\n";
  }
  return report_table_of_rows(header, out);
}

std::string report_tiles(const std::vector<ReportTile>& tiles) {
  std::string out = "<dl class=\"tiles\">\n";
  for (const ReportTile& tile : tiles)
    out += format("<div class=\"tile\"><dt>{}</dt><dd>{} <small>{}</small></dd></div>\n",
        escape_markup(tile.name), escape_markup(tile.value), escape_markup(tile.unit));
  return out + "</dl>\n";
}

std::string report_badge(const std::string& text, std::string_view css_class) {
  return format("<span class=\"badge {}\">{}</span>", css_class, escape_markup(text));
}

std::string report_chart(const LineChart& chart) {
  const bool empty = std::ranges::all_of(chart.series, [](const ChartSeries& s) { return s.points.empty(); });
  if (empty) return format("<p class=\"soft\">{}: nothing to plot.</p>\n", escape_markup(chart.title));
  Json series = Json::array(), marks = Json::array();
  for (const ChartSeries& one : chart.series) series.push_back(series_json(one));
  for (const ChartMark& mark : chart.marks) {
    Json json = {{"label", mark.label}, {"kind", mark.objective ? "slo" : "mark"}};
    if (mark.x) json["x"] = rounded(*mark.x);
    if (mark.y) json["y"] = rounded(*mark.y);
    marks.push_back(std::move(json));
  }
  return figure({{"title", chart.title}, {"x", axis_json(chart.x)}, {"y", axis_json(chart.y)},
      {"series", std::move(series)}, {"marks", std::move(marks)}});
}

std::string report_chart(const BarChart& chart) {
  if (chart.bars.empty())
    return format("<p class=\"soft\">{}: nothing to plot.</p>\n", escape_markup(chart.title));
  Json bars = Json::array();
  for (const ChartBar& bar : chart.bars)
    bars.push_back({{"name", bar.name}, {"value", rounded(bar.value)}, {"low", rounded(bar.low)},
        {"high", rounded(bar.high)}, {"label", bar.label}, {"kind", bar.css_class}});
  return figure({{"title", chart.title}, {"bars", std::move(bars)}, {"mark", rounded(chart.mark)}});
}

}  // namespace cheetah
