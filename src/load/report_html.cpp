// SPDX-License-Identifier: MIT
#include <algorithm>

#include "base/format.h"
#include "base/markup.h"
#include "load/report.h"
#include "load/svg_plot.h"

namespace cheetah {
namespace {

constexpr const char* kStyle = R"(
:root{color-scheme:light dark;--text:#211c14;--soft:#6a6152;--line:#e4dfd5;--back:#faf8f4}
@media(prefers-color-scheme:dark){:root{--text:#efe9dd;--soft:#a89f8e;--line:#37322a;--back:#15130f}}
body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:2rem auto;padding:0 1rem;color:var(--text);background:var(--back)}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;margin:1rem 0}
td,th{padding:.2rem .6rem;border-bottom:1px solid var(--line);text-align:right;font-weight:400}
td:first-child,th:first-child{text-align:left}thead th{color:var(--soft)}
svg{width:100%;height:auto;margin:1rem 0}
svg text{fill:var(--text);font:12px system-ui,sans-serif}svg .title{font-weight:600;font-size:14px}svg .tick,svg .label{fill:var(--soft)}
.grid{stroke:var(--line)}.line{fill:none;stroke-width:2}.mark{stroke:var(--soft);stroke-dasharray:4 3}
circle.s0{fill:#c77700}path.s0{stroke:#c77700}circle.s1{fill:#2a8c82}path.s1{stroke:#2a8c82}circle.s2{fill:#8a5fbf}path.s2{stroke:#8a5fbf}
.warning{border-left:4px solid #c77700;padding-left:.8rem}dt{font-weight:600}dd{margin:0 0 .4rem;color:var(--soft)}
)";

std::string row(const std::vector<std::string>& cells, const char* tag = "td") {
  std::string out = "<tr>";
  for (const std::string& cell : cells) out += format("<{0}>{1}</{0}>", tag, escape_markup(cell));
  return out + "</tr>\n";
}

std::string table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows) {
  std::string out = "<table><thead>" + row(header, "th") + "</thead><tbody>\n";
  for (const auto& cells : rows) out += row(cells);
  return out + "</tbody></table>\n";
}

std::string ms(double seconds) { return format("{:.1f}", 1e3 * seconds); }

std::string latency_table(const LoadSummary& s) {
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const char* name, const Distribution& d) {
    if (d.count > 0) rows.push_back({name, ms(d.mean), ms(d.p50), ms(d.p90), ms(d.p95), ms(d.p99)});
  };
  add("TTFT from schedule", s.ttft);
  add("TTFT from send", s.ttft_from_sent);
  add("TPOT", s.tpot);
  add("ITL", s.itl);
  add("E2E from schedule", s.e2e);
  add("E2E from send", s.e2e_from_sent);
  return table({"latency, ms", "mean", "p50", "p90", "p95", "p99"}, rows);
}

// Share of samples at or below each value; at most a few hundred points of it.
PlotSeries cumulative(std::string name, std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  PlotSeries series{.name = std::move(name), .points = {}};
  constexpr size_t kMostPoints = 300;
  const size_t stride = std::max<size_t>(1, samples.size() / kMostPoints);
  for (size_t i = 0; i < samples.size(); i += stride)
    series.points.push_back(
        {1e3 * samples[i], 100.0 * static_cast<double>(i + 1) / static_cast<double>(samples.size())});
  if (!samples.empty()) series.points.push_back({1e3 * samples.back(), 100});
  return series;
}

std::string latency_plots(const LoadStep& step) {
  std::vector<double> scheduled, sent, tpot, itl;
  PlotSeries over_time{.name = "TTFT", .points = {}, .dots = true};
  for (const RequestRecord& r : step.records) {
    if (!r.ok()) continue;
    scheduled.push_back(r.first_s - r.scheduled_s);
    sent.push_back(r.first_s - r.sent_s);
    if (const auto seconds = r.tpot_s()) tpot.push_back(*seconds);
    itl.insert(itl.end(), r.gaps_s.begin(), r.gaps_s.end());
    over_time.points.push_back({r.scheduled_s, 1e3 * scheduled.back()});
  }
  return svg({.title = "Time to first token",
             .x_label = "milliseconds",
             .y_label = "% of requests",
             .series = {cumulative("from schedule", scheduled), cumulative("from send", sent)}}) +
         svg({.title = "Time between tokens",
             .x_label = "milliseconds",
             .y_label = "%",
             .series = {cumulative("TPOT", tpot), cumulative("ITL", itl)}}) +
         svg({.title = "Time to first token as the run went on",
             .x_label = "seconds since the start",
             .y_label = "milliseconds",
             .series = {over_time}});
}

std::string step_html(const LoadStep& step) {
  const LoadSummary& s = step.summary;
  return table({"", ""}, {{"completed", format("{} of {}", s.completed, s.requests)},
                             {"requests/s", format("{:.3f}", s.request_rate)},
                             {"output tokens/s", format("{:.1f}", s.output_rate)},
                             {"goodput", format("{:.3f} requests/s", s.goodput)},
                             {"attainment", format("{:.1f} %", 100 * s.attainment)},
                             {"client send lag p99", ms(s.send_lag.p99) + " ms"}}) +
         latency_table(s) + latency_plots(step);
}

std::string sweep_html(const LoadReport& report) {
  std::vector<std::vector<std::string>> rows;
  PlotSeries offered{.name = "offered", .points = {}}, goodput{.name = "goodput", .points = {}};
  PlotSeries ttft50{.name = "TTFT p50", .points = {}}, ttft99{.name = "TTFT p99", .points = {}};
  PlotSeries tpot50{.name = "TPOT p50", .points = {}}, tpot99{.name = "TPOT p99", .points = {}};
  for (const LoadStep& step : report.steps) {
    const LoadSummary& s = step.summary;
    const double rate = step.rate.value_or(0);
    rows.push_back({format("{:.3g}/s", rate), format("{:.3g}/s", s.goodput), format("{:.1f}", s.output_rate),
        ms(s.ttft.p50), ms(s.ttft.p99), ms(s.tpot.p50), ms(s.tpot.p99)});
    offered.points.push_back({rate, rate});
    goodput.points.push_back({rate, s.goodput});
    ttft50.points.push_back({rate, 1e3 * s.ttft.p50});
    ttft99.points.push_back({rate, 1e3 * s.ttft.p99});
    tpot50.points.push_back({rate, 1e3 * s.tpot.p50});
    tpot99.points.push_back({rate, 1e3 * s.tpot.p99});
  }
  const auto knee = report.knee();
  const std::optional<double> mark = knee ? report.steps[*knee].rate : std::nullopt;
  const auto plot = [&](const char* title, const char* unit, std::vector<PlotSeries> series) {
    return svg({.title = title,
        .x_label = "offered requests/s",
        .y_label = unit,
        .series = std::move(series),
        .mark_x = mark,
        .mark_label = "knee"});
  };
  return table({"rate", "goodput", "tokens/s", "TTFT p50", "TTFT p99", "TPOT p50", "TPOT p99"}, rows) +
         plot("Goodput", "good requests/s", {goodput, offered}) +
         plot("Time to first token", "milliseconds", {ttft50, ttft99}) +
         plot("Time per output token", "milliseconds", {tpot50, tpot99});
}

std::string setup_html(const LoadReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, value] : report.setup.items())
    rows.push_back({name, value.is_string() ? value.get<std::string>() : dump_json(value)});
  for (const auto& [name, value] : report.provenance.items())
    rows.push_back({name, value.is_string() ? value.get<std::string>() : dump_json(value)});
  return table({"setup", ""}, rows);
}

}  // namespace

std::string report_html(const LoadReport& report) {
  std::string out = format(
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\"><title>Load "
      "test</title><style>{}</style></head><body>\n"
      "<h1>Load test</h1>\n",
      kStyle);
  for (const LoadStep& step : report.steps)
    for (const std::string& warning : warnings_of(step.summary, step.client))
      out += format("<p class=\"warning\">{}{}</p>\n",
          report.is_sweep ? format("At {:.3g}/s: ", step.rate.value_or(0)) : "", escape_markup(warning));
  out += report.is_sweep ? sweep_html(report) : "";
  if (!report.is_sweep)
    for (const LoadStep& step : report.steps) out += step_html(step);
  out += setup_html(report) + "<h2>What the words mean</h2>\n<dl>\n";
  for (const Definition& definition : definitions())
    out += format("<dt>{}</dt><dd>{}</dd>\n", escape_markup(definition.name), escape_markup(definition.text));
  return out + "</dl></body></html>\n";
}

}  // namespace cheetah
