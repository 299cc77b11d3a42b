// SPDX-License-Identifier: MIT
#include "base/format.h"
#include "base/table.h"
#include "load/report.h"

namespace cheetah {
namespace {

std::string milliseconds(double seconds) { return format("{:.1f}", 1e3 * seconds); }

void add_row(Table& table, const std::string& name, const Distribution& d) {
  if (d.count == 0) return;
  table.add({name, milliseconds(d.mean), milliseconds(d.p50), milliseconds(d.p90), milliseconds(d.p95),
      milliseconds(d.p99), milliseconds(d.max)});
}

std::string latency_table(const LoadSummary& s) {
  Table table({"latency, ms", "mean", "p50", "p90", "p95", "p99", "max"});
  add_row(table, "TTFT from schedule", s.ttft);
  add_row(table, "TTFT from send", s.ttft_from_sent);
  add_row(table, "TPOT", s.tpot);
  add_row(table, "ITL", s.itl);
  add_row(table, "E2E from schedule", s.e2e);
  add_row(table, "E2E from send", s.e2e_from_sent);
  return table.render();
}

std::string slo_text(const Slo& slo) {
  std::string text;
  if (slo.ttft_s) text += format("TTFT ≤ {:g} ms", 1e3 * *slo.ttft_s);
  if (slo.tpot_s) text += format("{}TPOT ≤ {:g} ms", text.empty() ? "" : ", ", 1e3 * *slo.tpot_s);
  return text.empty() ? "none: every whole answer is good" : text;
}

std::string throughput_table(const LoadStep& step, const Slo& slo) {
  const LoadSummary& s = step.summary;
  Table table({"throughput", ""});
  table.add({"requests", format("{} of {} completed", s.completed, s.requests)});
  table.add({"duration", format("{:.2f} s", s.duration_s)});
  if (s.offered_rate) table.add({"offered", format("{:.3g} requests/s", *s.offered_rate)});
  table.add({"requests/s", format("{:.3f}", s.request_rate)});
  table.add({"output tokens/s", format("{:.1f}", s.output_rate)});
  table.add({"all tokens/s", format("{:.1f}", s.total_rate)});
  table.add({"in flight, mean", format("{:.1f}", s.mean_in_flight)});
  table.add({"SLO", slo_text(slo)});
  table.add({"goodput", format("{:.3f} requests/s ({:.1f} % of requests)", s.goodput, 100 * s.attainment)});
  table.add({"tokens", format("{} prompt ({} cached), {} output in {} events", s.prompt_tokens,
                           s.cached_tokens, s.output_tokens, s.events)});
  table.add({"client", format("send lag p99 {:.2f} ms, {:.0f} % of a core", 1e3 * s.send_lag.p99,
                           100 * step.client.cpu_share)});
  return table.render();
}

std::string failure_table(const LoadSummary& s) {
  if (s.failures.empty()) return "";
  Table table({"failures", "count", "the first said"});
  for (const auto& [kind, count] : s.failures)
    table.add({kind, std::to_string(count), s.first_failure.at(kind)});
  return format("\n{}", table.render());
}

std::string warning_lines(const LoadStep& step) {
  std::string text;
  for (const std::string& warning : warnings_of(step.summary, step.client))
    text += "warning: " + warning + "\n";
  return text.empty() ? text : format("\n{}", text);
}

std::string sweep_table(const LoadReport& report) {
  Table table(
      {"rate", "goodput", "good", "tokens/s", "TTFT p50", "TTFT p99", "TPOT p50", "TPOT p99", "failed"});
  const auto knee = report.knee();
  for (size_t i = 0; i < report.steps.size(); ++i) {
    const LoadSummary& s = report.steps[i].summary;
    table.add({format("{}{:.3g}/s", knee == i ? "▶ " : "  ", report.steps[i].rate.value_or(0)),
        format("{:.3g}/s", s.goodput), format("{:.0f} %", 100 * s.attainment),
        format("{:.1f}", s.output_rate), milliseconds(s.ttft.p50) + " ms", milliseconds(s.ttft.p99) + " ms",
        milliseconds(s.tpot.p50) + " ms", milliseconds(s.tpot.p99) + " ms",
        std::to_string(s.requests - s.completed)});
  }
  return table.render();
}

std::string knee_line(const LoadReport& report) {
  const auto knee = report.knee();
  if (!knee) return "no rate of the sweep was served within the SLOs: start lower\n";
  const bool last = *knee + 1 == report.steps.size();
  return format("knee: {:.3g} requests/s{}\n", *report.steps[*knee].rate,
      last ? ", the highest rate tried: sweep higher to find its end" : "");
}

std::string sweep_warnings(const LoadReport& report) {
  std::string text;
  for (const LoadStep& step : report.steps)
    for (const std::string& warning : warnings_of(step.summary, step.client))
      text += format("warning: at {:.3g}/s {}\n", step.rate.value_or(0), warning);
  return text.empty() ? text : format("\n{}", text);
}

std::string setup_lines(const LoadReport& report) {
  std::string text;
  for (const auto& [name, value] : report.setup.items())
    text += format("{}: {}\n", name, value.is_string() ? value.get<std::string>() : dump_json(value));
  return text;
}

std::string definition_lines() {
  std::string text = "\n";
  for (const Definition& definition : definitions())
    text += format("{}: {}\n", definition.name, definition.text);
  return text;
}

}  // namespace

std::optional<size_t> LoadReport::knee() const {
  if (!is_sweep) return std::nullopt;
  std::vector<SweepPoint> points;
  for (const LoadStep& step : steps) points.push_back({step.rate.value_or(0), step.summary});
  return find_knee(points);
}

std::string report_text(const LoadReport& report) {
  std::string text = setup_lines(report) + "\n";
  if (report.is_sweep)
    return text + sweep_table(report) + "\n" + format("SLO: {}\n", slo_text(report.slo)) + knee_line(report) +
           sweep_warnings(report) + definition_lines();
  for (const LoadStep& step : report.steps)
    text += throughput_table(step, report.slo) + "\n" + latency_table(step.summary) +
            failure_table(step.summary) + warning_lines(step);
  return text + definition_lines();
}

}  // namespace cheetah
