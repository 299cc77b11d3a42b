// SPDX-License-Identifier: MIT
#include "lab/report/html.h"

#include <algorithm>
#include <array>

#include "base/format.h"
#include "base/markup.h"
#include "lab/report/svg.h"
#include "lab/report/text.h"

namespace cheetah::lab {
namespace {

constexpr const char* kStyle = R"(
:root{color-scheme:light dark;--back:#fff;--text:#1d2025;--soft:#667080;--line:#e3e6ea}
@media(prefers-color-scheme:dark){:root{--back:#16181c;--text:#e4e7eb;--soft:#9aa3b0;--line:#2e333b}}
body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:var(--text);background:var(--back)}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;margin:1rem 0;font-size:14px}
td,th{padding:.2rem .6rem;border-bottom:1px solid var(--line);text-align:right;font-weight:400}
td:first-child,th:first-child{text-align:left}thead th{color:var(--soft)}
section{border-top:2px solid var(--line);margin-top:2.5rem}a{color:inherit}
svg{width:100%;height:auto;margin:.6rem 0}svg text{fill:var(--text);font:12px system-ui,sans-serif}
svg .title{font-weight:600;font-size:14px}svg .tick,svg .label{fill:var(--soft)}
.grid{stroke:var(--line)}.line{fill:none;stroke-width:2}.roof{fill:none;stroke:var(--soft);stroke-width:1.5}
.mark{stroke:var(--soft);stroke-dasharray:4 3}.whisker{stroke:var(--text);fill:none}
rect.baseline{fill:#8d97a5}rect.faster{fill:#2a8c62}rect.neutral{fill:#b9a25a}rect.slower{fill:#c4552d}rect.impossible,rect.wrong{fill:#7d1f3f}
.faster{color:#2a8c62}.slower,.wrong,.impossible{color:#c4552d;font-weight:600}.soft{color:var(--soft)}
circle.s0{fill:#c77700}path.s0{stroke:#c77700}circle.s1{fill:#2a8c82}path.s1{stroke:#2a8c82}circle.s2{fill:#8a5fbf}path.s2{stroke:#8a5fbf}
circle.s3{fill:#c4552d}path.s3{stroke:#c4552d}circle.s4{fill:#3f76c9}path.s4{stroke:#3f76c9}circle.s5{fill:#7a8a2a}path.s5{stroke:#7a8a2a}
circle.s6{fill:#b0457f}path.s6{stroke:#b0457f}circle.s7{fill:#5d6b7a}path.s7{stroke:#5d6b7a}
)";

std::string anchor(const std::string& id) {
  std::string out = id;
  std::ranges::replace(out, '/', '-');
  return escape_markup(out);
}

std::string cell(const std::string& text, std::string_view css_class = "") {
  return css_class.empty() ? format("<td>{}</td>", escape_markup(text))
                           : format("<td class=\"{}\">{}</td>", css_class, escape_markup(text));
}

std::string header(const std::vector<std::string>& names) {
  std::string out = "<table><thead><tr>";
  for (const std::string& name : names) out += format("<th>{}</th>", escape_markup(name));
  return out + "</tr></thead><tbody>\n";
}

std::string variant_row(const VariantResult& v) {
  std::string out = "<tr>" + cell(v.name);
  if (v.median_s > 0) {
    out += cell(human_time(v.median_s)) + cell(format("±{:.1f} %", 100 * v.spread)) + cell(human_rate(v));
    out += cell(v.roof_rate > 0 ? format("{:.0f} % {}", 100 * v.roof_share, name_of(v.cost.roof)) : "");
    out += cell(format("{:.2f}x [{:.2f}, {:.2f}]", v.speedup.ratio, v.speedup.low, v.speedup.high));
  } else {
    out += "<td></td><td></td><td></td><td></td>" + cell(v.note);
  }
  return out + cell(std::string(name_of(v.verdict)), name_of(v.verdict)) + "</tr>\n";
}

std::string size_section(const SizeResult& size) {
  BarPlot plot{.title = format("Speed-up over the baseline, {}", size.label), .bars = {}, .mark = 1};
  std::string rows =
      header({size.label, "time", "spread", "rate", "of the roof", "speed-up, 95 %", "verdict"});
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
  rows += "</tbody></table>\n";
  if (!plot.bars.empty()) rows = bars_svg(plot) + rows;
  return rows + format("<p class=\"soft\">{} rounds, {} input sets, least detectable effect {:.1f} %.</p>\n",
                    size.num_rounds, size.num_sets, 100 * size.detectable);
}

double work_of(const VariantResult& v) {
  if (v.cost.items > 0) return v.cost.items;
  return counts_flops(v.cost.roof) || v.cost.bytes == 0 ? v.cost.flops : v.cost.bytes;
}

// Rate over work, one line a variant; only where there are sizes to sweep.
std::string sweep_plot(const ExperimentResult& e) {
  if (e.sizes.size() < 2) return "";
  LinePlot plot{.title = "Rate over size",
      .x_label = "work (bytes, operations or items)",
      .y_label = "work/s",
      .lines = {}};
  for (size_t i = 0; i < e.variants.size(); ++i) {
    Line line{.name = e.variants[i].name, .points = {}};
    for (const SizeResult& size : e.sizes) {
      if (i >= size.variants.size()) continue;
      const VariantResult& v = size.variants[i];
      if (v.median_s > 0 && work_of(v) > 0) line.points.emplace_back(work_of(v), work_of(v) / v.median_s);
    }
    plot.lines.push_back(std::move(line));
  }
  return lines_svg(plot);
}

// The diagonal and flat limits of a domain, cut to the intensities shown.
void add_roof_lines(const LabRun& run, Domain domain, std::array<double, 2> intensity, LinePlot& plot) {
  double peak = 0;
  for (const MeasuredRoof& roof : run.roofs)
    if (roof.domain == domain && counts_flops(roof.roof)) peak = std::max(peak, roof.rate);
  for (const MeasuredRoof& roof : run.roofs) {
    if (roof.domain != domain || roof.roof == Roof::kHostLink) continue;
    Line line{.name = std::string(name_of(roof.roof)), .points = {}, .roof = true};
    if (counts_flops(roof.roof)) {
      line.points = {{intensity[0], roof.rate}, {intensity[1], roof.rate}};
    } else if (counts_bytes(roof.roof)) {
      const double end =
          peak > 0 ? std::clamp(peak / roof.rate, intensity[0] * 1.01, intensity[1]) : intensity[1];
      line.points = {{intensity[0], intensity[0] * roof.rate}, {end, end * roof.rate}};
    }
    if (!line.points.empty()) plot.lines.push_back(std::move(line));
  }
}

std::string roofline_plot(const LabRun& run, const ExperimentResult& e) {
  LinePlot plot{
      .title = "Roofline, measured", .x_label = "operations a byte", .y_label = "operations/s", .lines = {}};
  std::array<double, 2> intensity{1e300, 0};
  const SizeResult* largest = e.sizes.empty() ? nullptr : &e.sizes.back();
  for (const VariantResult& v : largest ? largest->variants : std::vector<VariantResult>{}) {
    if (v.median_s <= 0 || v.cost.flops <= 0 || v.cost.bytes <= 0) continue;
    const double x = v.cost.flops / v.cost.bytes;
    intensity = {std::min(intensity[0], x), std::max(intensity[1], x)};
    plot.lines.push_back({.name = v.name, .points = {{x, v.cost.flops / v.median_s}}, .dots = true});
  }
  if (plot.lines.empty()) return "";
  add_roof_lines(run, e.domain, {intensity[0] / 8, intensity[1] * 8}, plot);
  return lines_svg(plot);
}

std::string experiment_section(const LabRun& run, const ExperimentResult& e) {
  std::string out = format("<section id=\"{}\"><h2>{} <span class=\"soft\">{}</span></h2>\n<p>{}</p>\n",
      anchor(e.id), escape_markup(e.title), escape_markup(e.id), escape_markup(e.question));
  out += format("<p class=\"soft\">{}</p>\n", escape_markup(e.mechanism));
  if (!e.claim.empty()) out += format("<p>Claim: {}</p>\n", escape_markup(e.claim));
  if (!e.skipped.empty()) return out + format("<p>Skipped: {}</p></section>\n", escape_markup(e.skipped));
  for (const std::string& each : e.disturbances)
    out += format("<p class=\"slower\">While it ran, {}.</p>\n", escape_markup(each));
  out += "<ul>";
  for (const VariantText& variant : e.variants)
    out += format("<li><b>{}</b>: {}</li>\n", escape_markup(variant.name), escape_markup(variant.idea));
  out += "</ul>\n";
  for (const SizeResult& size : e.sizes) out += size_section(size);
  return out + sweep_plot(e) + roofline_plot(run, e) + "</section>\n";
}

std::string summary_table(const LabRun& run) {
  std::string out = header({"experiment", "size", "best variant", "speed-up", "of the roof", "verdict"});
  for (const ExperimentResult& e : run.experiments) {
    if (e.sizes.empty()) continue;
    const SizeResult& size = e.sizes.back();
    const VariantResult* best = nullptr;
    for (const VariantResult& v : size.variants)
      if (v.median_s > 0 && (best == nullptr || v.median_s < best->median_s)) best = &v;
    out += format("<tr><td><a href=\"#{}\">{}</a></td>", anchor(e.id), escape_markup(e.title)) +
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
    out += cell(verdict, verdict) + "</tr>\n";
  }
  return out + "</tbody></table>\n";
}

std::string provenance_table(const LabRun& run) {
  const Provenance& p = run.provenance;
  std::string out = header({"where this comes from", ""});
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) out += "<tr>" + cell(name) + cell(value) + "</tr>\n";
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
    out += "<tr>" + cell(format("roof: {} {}", name_of(roof.domain), name_of(roof.roof))) +
           cell(format("{:.4g} {}", roof.rate / scale, unit)) + "</tr>\n";
  }
  return out + "</tbody></table>\n";
}

}  // namespace

std::string report_html(const LabRun& run) {
  std::string out = format(
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\"><title>Lab "
      "report</title><style>{}</style></head><body>\n"
      "<h1>Lab report</h1>\n<p class=\"soft\">{}</p>\n",
      kStyle, escape_markup(run.provenance.hardware));
  out += summary_table(run);
  for (const ExperimentResult& e : run.experiments) out += experiment_section(run, e);
  return out + "<section>" + provenance_table(run) + "</section></body></html>\n";
}

}  // namespace cheetah::lab
