// SPDX-License-Identifier: MIT
#include "cli/bench_report.h"

#include <ctime>

#include "base/format.h"
#include "base/statistics.h"
#include "base/table.h"
#include "cli/gpu_readings.h"
#include "cli/version.h"
#include "hw/cpu.h"
#include "model/cost.h"

namespace cheetah {
namespace {

// Least bytes of one decode step: the weights once, and each sequence's keys and values at the middle of the
// run. With experts the weights are those of one token, so larger batches read more than is counted.
double step_bytes(const BenchFacts& facts, int64_t batch) {
  const int64_t context = facts.plan.context_tokens + facts.plan.new_tokens / 2;
  return static_cast<double>(facts.model.decode_bytes()) +
         static_cast<double>(batch) * kv_read_bytes(facts.model.traits(), facts.kv_dtype, context);
}

double prompt_rate(const BenchFacts& facts) {
  return static_cast<double>(facts.plan.prompts * facts.plan.prompt_length()) /
         median(facts.samples.prompt_seconds);
}

double prompt_flops_rate(const BenchFacts& facts) {
  return static_cast<double>(facts.plan.prompts) *
         prompt_flops(facts.model.traits(), facts.plan.prompt_length()) /
         median(facts.samples.prompt_seconds);
}

Json prompt_json(const BenchFacts& facts) {
  return {{"prompts", facts.plan.prompts}, {"tokens", facts.plan.prompt_length()},
      {"tokens_per_second", prompt_rate(facts)}, {"seconds_median", median(facts.samples.prompt_seconds)},
      {"seconds_spread", relative_spread(facts.samples.prompt_seconds)},
      {"samples", facts.samples.prompt_seconds.size()}, {"flops_per_second", prompt_flops_rate(facts)},
      {"fma_ceiling_share", prompt_flops_rate(facts) / facts.fma_peak}, {"unit", facts.unit},
      {"unit_ceiling_share", prompt_flops_rate(facts) / facts.unit_peak}};
}

Json decode_json(const BenchFacts& facts, const DecodeSamples& decode) {
  const double step = median(decode.step_seconds);
  const double bytes = step_bytes(facts, decode.batch);
  return {{"batch", decode.batch}, {"context", facts.plan.context_tokens},
      {"tokens_per_second", static_cast<double>(decode.batch) / step}, {"step_seconds_median", step},
      {"step_seconds_spread", relative_spread(decode.step_seconds)},
      {"step_seconds_p99", quantile(decode.step_seconds, 0.99)}, {"steps", decode.step_seconds.size()},
      {"bytes_per_step", bytes}, {"bandwidth_ceiling_share", bytes / step / facts.read_bandwidth}};
}

}  // namespace

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Json provenance(int threads) {
  const CpuInfo cpu = read_cpu_info();
  const BuildInfo build = build_info();
  return {{"cpu", cpu.model}, {"logical_cores", cpu.logical_cores}, {"usable_cores", cpu.usable_cores},
      {"numa_nodes", cpu.numa_nodes}, {"simd", cpu.simd}, {"threads", threads}, {"version", build.version},
      {"commit", build.commit}, {"compiler", build.compiler}, {"date", utc_now()}};
}

std::string bench_table(const BenchFacts& facts) {
  Table table({"phase", "tokens/s", "time per step", "spread", "of ceiling"});
  if (!facts.samples.prompt_seconds.empty())
    table.add({facts.plan.prompts == 1
                   ? format("prompt {}", facts.plan.prompt_length())
                   : format("prompts {} x {}", facts.plan.prompts, facts.plan.prompt_length()),
        format("{:.1f}", prompt_rate(facts)), format("{:.1f} ms", 1e3 * median(facts.samples.prompt_seconds)),
        format("{:.1f} %", 100 * relative_spread(facts.samples.prompt_seconds)),
        format("{:.0f} % {}", 100 * prompt_flops_rate(facts) / facts.unit_peak, facts.unit)});
  for (const DecodeSamples& decode : facts.samples.decode) {
    if (decode.step_seconds.empty()) continue;
    const double step = median(decode.step_seconds);
    table.add({format("decode, batch {}", decode.batch),
        format("{:.1f}", static_cast<double>(decode.batch) / step), format("{:.2f} ms", 1e3 * step),
        format("{:.1f} %", 100 * relative_spread(decode.step_seconds)),
        format("{:.0f} % bandwidth", 100 * step_bytes(facts, decode.batch) / step / facts.read_bandwidth)});
  }
  return format(
      "{}, {} parameters, weights {} ({}), cache {}, compute {}, {}, {} threads\n"
      "ceilings measured now: read {:.1f} GB/s, F32 FMA {:.1f} GFLOP/s{}\n\n{}",
      facts.model.name(), human_count(static_cast<double>(facts.model.num_parameters())), facts.dtype,
      human_bytes(static_cast<double>(facts.model.weight_bytes())), name_of(facts.kv_dtype), facts.compute,
      facts.device, facts.threads, facts.read_bandwidth / 1e9, facts.fma_peak / 1e9,
      facts.unit_peak == facts.fma_peak ? "" : format(", {} {:.1f} GOP/s", facts.unit, facts.unit_peak / 1e9),
      table.render());
}

Json bench_json(const BenchFacts& facts) {
  Json result = {{"schema_version", 1}, {"kind", "bench-engine"}, {"provenance", provenance(facts.threads)},
      {"device", facts.device},
      {"model", {{"name", facts.model.name()}, {"family", facts.model.traits().family},
                    {"parameters", facts.model.num_parameters()},
                    {"weight_bytes", facts.model.weight_bytes()}, {"dtype", facts.dtype},
                    {"kv_dtype", std::string(name_of(facts.kv_dtype))}, {"compute", facts.compute}}},
      {"ceilings", {{"read_bytes_per_second", facts.read_bandwidth}, {"fma_flops_per_second", facts.fma_peak},
                       {"unit", facts.unit}, {"unit_operations_per_second", facts.unit_peak}}}};
  result["provenance"]["gpu"] = gpu_readings_json(facts.gpu);
  result["prompt"] = facts.samples.prompt_seconds.empty() ? Json(nullptr) : prompt_json(facts);
  result["decode"] = Json::array();
  for (const DecodeSamples& decode : facts.samples.decode)
    if (!decode.step_seconds.empty()) result["decode"].push_back(decode_json(facts, decode));
  return result;
}

}  // namespace cheetah
