// SPDX-License-Identifier: MIT
#include <algorithm>

#include "base/format.h"
#include "base/markup.h"
#include "base/report_page.h"
#include "load/report.h"

namespace cheetah {
namespace {

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
  return report_table({"latency, ms", "mean", "p50", "p90", "p95", "p99"}, rows);
}

// Share of samples at or below each value; at most a few hundred points of it.
ChartSeries cumulative(std::string name, std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  ChartSeries series{.name = std::move(name)};
  constexpr size_t kMostPoints = 300;
  const size_t stride = std::max<size_t>(1, samples.size() / kMostPoints);
  for (size_t i = 0; i < samples.size(); i += stride)
    series.points.push_back(
        {1e3 * samples[i], 100.0 * static_cast<double>(i + 1) / static_cast<double>(samples.size())});
  if (!samples.empty()) series.points.push_back({1e3 * samples.back(), 100});
  return series;
}

const ChartAxis kMilliseconds{.label = "", .unit = "milliseconds"};
const ChartAxis kShare{.label = "share of requests", .unit = "percent"};

// Where the objective lies on the axis of times.
std::vector<ChartMark> objective_x(const std::optional<double>& seconds) {
  if (!seconds) return {};
  return {{.x = 1e3 * *seconds, .label = format("objective {} ms", ms(*seconds)), .objective = true}};
}
std::vector<ChartMark> objective_y(const std::optional<double>& seconds) {
  if (!seconds) return {};
  return {{.y = 1e3 * *seconds, .label = format("objective {} ms", ms(*seconds)), .objective = true}};
}

std::string latency_plots(const LoadStep& step, const Slo& slo) {
  std::vector<double> scheduled, sent, tpot, itl;
  ChartSeries over_time{.name = "TTFT", .dots = true};
  for (const RequestRecord& r : step.records) {
    if (!r.ok()) continue;
    scheduled.push_back(r.first_s - r.scheduled_s);
    sent.push_back(r.first_s - r.sent_s);
    if (const auto seconds = r.tpot_s()) tpot.push_back(*seconds);
    itl.insert(itl.end(), r.gaps_s.begin(), r.gaps_s.end());
    over_time.points.push_back({r.scheduled_s, 1e3 * scheduled.back()});
  }
  return "<div class=\"grid-2\">\n" +
         report_chart(LineChart{.title = "Time to first token",
             .x = kMilliseconds,
             .y = kShare,
             .series = {cumulative("from schedule", scheduled), cumulative("from send", sent)},
             .marks = objective_x(slo.ttft_s)}) +
         report_chart(LineChart{.title = "Time between tokens",
             .x = kMilliseconds,
             .y = kShare,
             .series = {cumulative("TPOT", tpot), cumulative("ITL", itl)},
             .marks = objective_x(slo.tpot_s)}) +
         "</div>\n" +
         report_chart(LineChart{.title = "Time to first token as the run went on",
             .x = {.label = "since the start", .unit = "seconds"},
             .y = kMilliseconds,
             .series = {over_time},
             .marks = objective_y(slo.ttft_s)});
}

std::string step_html(const LoadStep& step, const Slo& slo) {
  const LoadSummary& s = step.summary;
  return report_tiles({{"Completed", format("{} of {}", s.completed, s.requests)},
             {"Requests", format("{:.3g}", s.request_rate), "per second"},
             {"Output", format("{:.1f}", s.output_rate), "tokens/s"},
             {"Goodput", format("{:.3g}", s.goodput), "good requests/s"},
             {"Attainment", format("{:.1f}", 100 * s.attainment), "%"}, {"TTFT p99", ms(s.ttft.p99), "ms"},
             {"TPOT p99", ms(s.tpot.p99), "ms"}, {"Client lag p99", ms(s.send_lag.p99), "ms"}}) +
         latency_plots(step, slo) + "<h2>Latency</h2>\n" + latency_table(s);
}

std::string sweep_html(const LoadReport& report) {
  std::vector<std::vector<std::string>> rows;
  ChartSeries offered{.name = "offered"}, goodput{.name = "goodput"};
  ChartSeries ttft50{.name = "TTFT p50"}, ttft99{.name = "TTFT p99"};
  ChartSeries tpot50{.name = "TPOT p50"}, tpot99{.name = "TPOT p99"};
  for (const LoadStep& step : report.steps) {
    const LoadSummary& s = step.summary;
    const double rate = step.rate.value_or(0);
    rows.push_back(
        {format("{:.3g}/s", rate), format("{:.3g}/s", s.goodput), format("{:.1f} %", 100 * s.attainment),
            format("{:.1f}", s.output_rate), ms(s.ttft.p50), ms(s.ttft.p99), ms(s.tpot.p50), ms(s.tpot.p99)});
    offered.points.push_back({rate, rate});
    goodput.points.push_back({rate, s.goodput});
    ttft50.points.push_back({rate, 1e3 * s.ttft.p50});
    ttft99.points.push_back({rate, 1e3 * s.ttft.p99});
    tpot50.points.push_back({rate, 1e3 * s.tpot.p50});
    tpot99.points.push_back({rate, 1e3 * s.tpot.p99});
  }
  const auto knee = report.knee();
  const auto best =
      std::ranges::max_element(report.steps, {}, [](const LoadStep& s) { return s.summary.goodput; });
  const auto plot = [&](const char* title, const ChartAxis& y, std::vector<ChartSeries> series,
                        std::vector<ChartMark> marks) {
    if (knee) marks.push_back({.x = report.steps[*knee].rate, .label = "knee"});
    return report_chart(LineChart{.title = title,
        .x = {.label = "offered requests/s"},
        .y = y,
        .series = std::move(series),
        .marks = std::move(marks)});
  };
  std::string out = report_tiles(
      {{"Knee", knee ? format("{:.3g}", *report.steps[*knee].rate) : "none", knee ? "requests/s" : ""},
          {"Best goodput", best == report.steps.end() ? "–" : format("{:.3g}", best->summary.goodput),
              "good requests/s"},
          {"Rates tried", format("{}", report.steps.size())}});
  out += plot("Goodput", {.label = "good requests/s"}, {goodput, offered}, {}) + "<div class=\"grid-2\">\n" +
         plot("Time to first token", kMilliseconds, {ttft50, ttft99}, objective_y(report.slo.ttft_s)) +
         plot("Time per output token", kMilliseconds, {tpot50, tpot99}, objective_y(report.slo.tpot_s)) +
         "</div>\n";
  return out + "<h2>Rates</h2>\n" +
         report_table({"rate", "goodput", "attainment", "tokens/s", "TTFT p50, ms", "TTFT p99, ms",
                          "TPOT p50, ms", "TPOT p99, ms"},
             rows);
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : dump_json(value);
}

std::string setup_html(const LoadReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (const Json* part : {&report.setup, &report.provenance})
    for (const auto& [name, value] : part->items()) rows.push_back({name, text_of(value)});
  return "<h2>Setup</h2>\n" + report_table({"", ""}, rows);
}

// Of a sweep the same warning may come at every rate: it is said once, with its rates.
std::string warnings_html(const LoadReport& report) {
  const auto without_numbers = [](std::string text) {
    std::erase_if(text, [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
    return text;
  };
  struct Warning {
    std::string text, rates;
  };
  std::vector<std::pair<std::string, Warning>> all;  // by what they are without their numbers
  for (const LoadStep& step : report.steps)
    for (const std::string& warning : warnings_of(step.summary, step.client)) {
      const std::string key = without_numbers(warning);
      auto at = std::ranges::find(all, key, [](const auto& one) { return one.first; });
      if (at == all.end()) at = all.insert(all.end(), {key, {warning, ""}});
      at->second.rates += format("{}{:.3g}/s", at->second.rates.empty() ? "" : ", ", step.rate.value_or(0));
    }
  std::string out;
  for (const auto& [key, warning] : all)
    out += format("<p class=\"note warn\">{}{}</p>\n",
        report.is_sweep ? format("At {}: ", warning.rates) : "", escape_markup(warning.text));
  return out;
}

}  // namespace

std::string report_html(const LoadReport& report) {
  const auto field = [](const Json& json, const char* name) {
    return json.contains(name) ? text_of(json.at(name)) : std::string();
  };
  const std::string model = field(report.setup, "model"), server = field(report.setup, "server");
  std::string body = warnings_html(report);
  if (report.is_sweep) body += sweep_html(report);
  if (!report.is_sweep)
    for (const LoadStep& step : report.steps) body += step_html(step, report.slo);
  body += setup_html(report) + "<h2>What the words mean</h2>\n<dl class=\"words\">\n";
  for (const Definition& definition : definitions())
    body +=
        format("<dt>{}</dt><dd>{}</dd>\n", escape_markup(definition.name), escape_markup(definition.text));
  return report_page({.kind = report.is_sweep ? "Load sweep" : "Load test",
                         .title = model.empty() ? "a server" : model,
                         .date = field(report.provenance, "date"),
                         .about = server},
      body + "</dl>\n");
}

}  // namespace cheetah
