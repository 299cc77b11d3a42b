// SPDX-License-Identifier: MIT
#include "lab/report/html.h"

#include <algorithm>
#include <array>

#include "base/format.h"
#include "base/markup.h"
#include "base/report_page.h"
#include "lab/report/text.h"

namespace cheetah::lab {
namespace {

std::string anchor(const std::string& id) {
  std::string out = id;
  std::ranges::replace(out, '/', '-');
  return escape_markup(out);
}

std::string cell(const std::string& text) { return format("<td>{}</td>", escape_markup(text)); }
std::string first_cell(const std::string& text) {
  return format("<th scope=\"row\">{}</th>", escape_markup(text));
}
std::string verdict_cell(std::string_view verdict) {
  if (verdict.empty()) return "<td></td>";
  return "<td>" + report_badge(std::string(verdict), verdict) + "</td>";
}

std::string variant_row(const VariantResult& v) {
  std::string out = "<tr>" + first_cell(v.name);
  if (v.median_s > 0) {
    out += cell(human_time(v.median_s)) + cell(format("±{:.1f} %", 100 * v.spread)) + cell(human_rate(v));
    out += cell(v.roof_rate > 0 ? format("{:.0f} % {}", 100 * v.roof_share, name_of(v.cost.roof)) : "");
    out += cell(format("{:.2f}x [{:.2f}, {:.2f}]", v.speedup.ratio, v.speedup.low, v.speedup.high));
  } else {
    out += "<td></td><td></td><td></td><td></td>" + cell(v.note);
  }
  return out + verdict_cell(name_of(v.verdict)) + "</tr>\n";
}

std::string size_section(const SizeResult& size) {
  BarChart plot{.title = format("Speed-up over the baseline, {}", size.label), .bars = {}, .mark = 1};
  std::string rows;
  for (const VariantResult& v : size.variants) {
    rows += variant_row(v);
    if (v.median_s > 0)
      plot.bars.push_back({.name = v.name,
          .value = v.speedup.ratio,
          .low = v.speedup.low,
          .high = v.speedup.high,
          .label = format("{:.2f}x  {}", v.speedup.ratio, human_time(v.median_s)),
          .css_class = std::string(name_of(v.verdict))});
  }
  const std::string table = report_table_of_rows(
      {size.label, "time", "spread", "rate", "of the roof", "speed-up, 95 %", "verdict"}, rows);
  return (plot.bars.empty() ? "" : report_chart(plot)) + table +
         format("<p class=\"soft\">{} rounds, {} input sets, least detectable effect {:.1f} %.</p>\n",
             size.num_rounds, size.num_sets, 100 * size.detectable);
}

double work_of(const VariantResult& v) {
  if (v.cost.items > 0) return v.cost.items;
  return counts_flops(v.cost.roof) || v.cost.bytes == 0 ? v.cost.flops : v.cost.bytes;
}

// Rate over work, one line a variant; only where there are sizes to sweep.
std::string sweep_plot(const ExperimentResult& e) {
  if (e.sizes.size() < 2) return "";
  LineChart plot{.title = "Rate over size",
      .x = {.label = "work: bytes, operations or items", .unit = "short", .log = true},
      .y = {.label = "work/s", .unit = "short", .log = true},
      .series = {}};
  for (size_t i = 0; i < e.variants.size(); ++i) {
    ChartSeries line{.name = e.variants[i].name};
    for (const SizeResult& size : e.sizes) {
      if (i >= size.variants.size()) continue;
      const VariantResult& v = size.variants[i];
      if (v.median_s > 0 && work_of(v) > 0) line.points.emplace_back(work_of(v), work_of(v) / v.median_s);
    }
    plot.series.push_back(std::move(line));
  }
  return report_chart(plot);
}

// The diagonal and flat limits of a domain, cut to the intensities shown.
void add_roof_lines(const LabRun& run, Domain domain, std::array<double, 2> intensity, LineChart& plot) {
  double peak = 0;
  for (const MeasuredRoof& roof : run.roofs)
    if (roof.domain == domain && counts_flops(roof.roof)) peak = std::max(peak, roof.rate);
  for (const MeasuredRoof& roof : run.roofs) {
    if (roof.domain != domain || roof.roof == Roof::kHostLink) continue;
    ChartSeries line{.name = std::string(name_of(roof.roof)), .roof = true};
    if (counts_flops(roof.roof)) {
      line.points = {{intensity[0], roof.rate}, {intensity[1], roof.rate}};
    } else if (counts_bytes(roof.roof)) {
      const double end =
          peak > 0 ? std::clamp(peak / roof.rate, intensity[0] * 1.01, intensity[1]) : intensity[1];
      line.points = {{intensity[0], intensity[0] * roof.rate}, {end, end * roof.rate}};
    }
    if (!line.points.empty()) plot.series.push_back(std::move(line));
  }
}

std::string roofline_plot(const LabRun& run, const ExperimentResult& e) {
  LineChart plot{.title = "Roofline, measured",
      .x = {.label = "operations per byte", .log = true},
      .y = {.label = "operations/s", .unit = "short", .log = true},
      .series = {}};
  std::array<double, 2> intensity{1e300, 0};
  const SizeResult* largest = e.sizes.empty() ? nullptr : &e.sizes.back();
  for (const VariantResult& v : largest ? largest->variants : std::vector<VariantResult>{}) {
    if (v.median_s <= 0 || v.cost.flops <= 0 || v.cost.bytes <= 0) continue;
    const double x = v.cost.flops / v.cost.bytes;
    intensity = {std::min(intensity[0], x), std::max(intensity[1], x)};
    plot.series.push_back({.name = v.name, .points = {{x, v.cost.flops / v.median_s}}, .dots = true});
  }
  if (plot.series.empty()) return "";
  add_roof_lines(run, e.domain, {intensity[0] / 8, intensity[1] * 8}, plot);
  return report_chart(plot);
}

std::string experiment_section(const LabRun& run, const ExperimentResult& e) {
  std::string out = format("<section id=\"{}\"><h2>{} <span class=\"soft\">{}</span></h2>\n<p>{}</p>\n",
      anchor(e.id), escape_markup(e.title), escape_markup(e.id), escape_markup(e.question));
  out += format("<p class=\"soft\">{}</p>\n", escape_markup(e.mechanism));
  if (!e.claim.empty()) out += format("<p>Claim: {}</p>\n", escape_markup(e.claim));
  if (!e.skipped.empty()) return out + format("<p>Skipped: {}</p></section>\n", escape_markup(e.skipped));
  for (const std::string& each : e.disturbances)
    out += format("<p class=\"note warn\">While it ran, {}.</p>\n", escape_markup(each));
  out += "<ul>";
  for (const VariantText& variant : e.variants)
    out += format("<li><b>{}</b>: {}</li>\n", escape_markup(variant.name), escape_markup(variant.idea));
  out += "</ul>\n";
  for (const SizeResult& size : e.sizes) out += size_section(size);
  return out + sweep_plot(e) + roofline_plot(run, e) + "</section>\n";
}

std::string summary_table(const LabRun& run) {
  std::string out;
  for (const ExperimentResult& e : run.experiments) {
    if (e.sizes.empty()) continue;
    const SizeResult& size = e.sizes.back();
    const VariantResult* best = nullptr;
    for (const VariantResult& v : size.variants)
      if (v.median_s > 0 && (best == nullptr || v.median_s < best->median_s)) best = &v;
    out += format("<tr><th scope=\"row\"><a href=\"#{}\">{}</a></th>", anchor(e.id), escape_markup(e.title)) +
           cell(size.label);
    if (best != nullptr)
      out +=
          cell(best->name) + cell(format("{:.2f}x", best->speedup.ratio)) +
          cell(best->roof_rate > 0 ? format("{:.0f} % {}", 100 * best->roof_share, name_of(best->cost.roof))
                                   : "");
    else
      out += "<td></td><td></td><td></td>";
    const std::string verdict = e.has_wrong()     ? "wrong"
                                : best != nullptr ? std::string(name_of(best->verdict))
                                                  : "";
    out += verdict_cell(verdict) + "</tr>\n";
  }
  return report_table_of_rows(
      {"experiment", "size", "best variant", "speed-up", "of the roof", "verdict"}, out);
}

std::string provenance_table(const LabRun& run) {
  const Provenance& p = run.provenance;
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) rows.push_back({name, value});
  };
  add("time", p.time);
  add("CPU", format("{}, {} cores, {}", p.cpu, p.cores, p.simd));
  add("GPU", p.gpu);
  add("driver", p.driver);
  add("CUDA", p.cuda);
  if (p.sm_mhz > 0)
    add("clocks at the start", format("{:.0f} MHz, memory {:.0f} MHz", p.sm_mhz, p.memory_mhz));
  add("commit", p.commit);
  add("compiler", p.compiler);
  for (const MeasuredRoof& roof : run.roofs) {
    const char* unit = counts_flops(roof.roof) ? "TFLOP/s" : counts_bytes(roof.roof) ? "TB/s" : "million/s";
    const double scale = counts_flops(roof.roof) || counts_bytes(roof.roof) ? 1e12 : 1e6;
    rows.push_back({format("roof: {} {}", name_of(roof.domain), name_of(roof.roof)),
        format("{:.4g} {}", roof.rate / scale, unit)});
  }
  return report_table({"where this comes from", ""}, rows);
}

}  // namespace

std::string report_html(const LabRun& run) {
  std::string body = summary_table(run);
  for (const ExperimentResult& e : run.experiments) body += experiment_section(run, e);
  body += "<h2>Machine and build</h2>\n" + provenance_table(run);
  const std::string title = run.experiments.size() == 1 ? run.experiments.front().title
                                                        : format("{} experiments", run.experiments.size());
  return report_page(
      {.kind = "Lab", .title = title, .date = run.provenance.time, .about = run.provenance.hardware}, body);
}

}  // namespace cheetah::lab
