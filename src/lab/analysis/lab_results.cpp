// SPDX-License-Identifier: MIT
#include "lab/analysis/lab_results.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"

namespace cheetah::analysis {
namespace {

struct RoofWord {
  std::string_view roof, word;
  bool is_math;
};
// The lab's names for its roofs, and ours.
constexpr RoofWord kWords[] = {{"DRAM", "dram", false}, {"DRAM read", "dram-read", false},
    {"L3", "l3", false}, {"L2", "l2", false}, {"L1", "l1", false}, {"FP32", "fp32", true},
    {"BF16 tensor", "bf16", true}, {"FP8 tensor", "fp8", true}, {"core DRAM", "core-dram", false},
    {"core FP32", "core-fp32", true}};

const RoofWord* word_of(std::string_view roof) {
  const auto found = std::ranges::find(kWords, roof, &RoofWord::roof);
  return found == std::end(kWords) ? nullptr : &*found;
}

using TakeFields = std::function<void(const JsonFields&)>;

void each_of(const JsonFields& fields, std::string_view name, const TakeFields& take) {
  const Json* array = fields.find(name);
  if (array == nullptr) return;
  if (!array->is_array()) throw Error(format("{}: {}: expected an array", fields.what(), name));
  for (size_t i = 0; i < array->size(); ++i)
    take(JsonFields((*array)[i], format("{}: {}[{}]", fields.what(), name, i)));
}

// One timed variant and the names above it.
struct Timed {
  std::string id = {}, domain = {}, size = {}, variant = {}, roof = {};
  double seconds = 0, flops = 0, bytes = 0;
  bool disturbed = false;

  std::string name() const { return printable(format("{} {} {}", id, size, variant), 200); }
  std::string dtype() const {
    const RoofWord* word = word_of(roof);
    return word != nullptr && word->is_math ? std::string(word->word) : "fp32";
  }
  std::string level() const {
    const RoofWord* word = word_of(roof);
    if (word != nullptr && !word->is_math) return std::string(word->word);
    return roof.starts_with("core") ? "core-dram" : "dram";
  }
};

void read_variant(const JsonFields& fields, Timed timed, std::vector<Timed>& all) {
  const std::string verdict = fields.string_or("verdict", "");
  timed.seconds = fields.number_or("median_s", 0);
  if (timed.seconds <= 0 || verdict == "wrong" || verdict == "impossible" || verdict == "skipped") return;
  timed.variant = fields.string_or("name", "");
  timed.roof = fields.string_or("roof", "");
  timed.flops = fields.number_or("flops", 0);
  timed.bytes = fields.number_or("bytes", 0);
  all.push_back(std::move(timed));
}

std::vector<Timed> timed_variants(const Json& run, const std::string& what) {
  std::vector<Timed> all;
  each_of(JsonFields(run, what), "experiments", [&](const JsonFields& experiment) {
    Timed timed{.id = experiment.string_or("id", ""), .domain = experiment.string_or("domain", "")};
    const Json* disturbances = experiment.find("disturbances");
    timed.disturbed = disturbances != nullptr && !disturbances->empty();
    each_of(experiment, "sizes", [&](const JsonFields& size) {
      timed.size = size.string_or("size", "");
      each_of(size, "variants", [&](const JsonFields& variant) { read_variant(variant, timed, all); });
    });
  });
  return all;
}

std::string hardware_of(const Json& run, const std::string& what) {
  const Json* provenance = JsonFields(run, what).find("provenance");
  if (provenance == nullptr || !provenance->is_object()) return "unknown hardware";
  const JsonFields fields(*provenance, what);
  return fields.string_or("hardware", "unknown hardware") + ", " + fields.string_or("time", "");
}

RoofSet roofs_of_domain(const Json& run, const std::string& domain, const std::string& what) {
  RoofSet roofs{.source = format("measured: {} ({})", hardware_of(run, what), domain),
      .measured = true,
      .memory = {},
      .math = {}};
  each_of(JsonFields(run, what), "roofs", [&](const JsonFields& fields) {
    const RoofWord* word = word_of(fields.string_or("roof", ""));
    const double rate = fields.number_or("rate", 0);
    if (fields.string_or("domain", "") != domain || word == nullptr || rate <= 0) return;
    if (word->is_math)
      roofs.math.push_back({std::string(word->word), rate});
    else
      roofs.memory.push_back({std::string(word->word), rate});
  });
  return roofs;
}

Counters counters_of(const Timed& timed, const RoofSet& roofs) {
  Counters counters{.name = timed.name(), .values = {}, .stalls = {}};
  counters.values["duration_us"] = timed.seconds * 1e6;
  if (timed.disturbed) counters.values["disturbed"] = 1;
  if (timed.flops > 0) counters.values["gflops"] = timed.flops / timed.seconds * 1e-9;
  const MemoryRoof* dram = roofs.level("dram");
  const MathRoof* math = roofs.dtype(timed.dtype());
  if (timed.flops > 0 && math != nullptr)
    counters.values["math_pct"] = 100 * timed.flops / timed.seconds / math->flops_per_s;
  if (timed.bytes <= 0 || timed.level() != "dram") return counters;
  counters.values["least_bytes"] = timed.bytes;
  counters.values["intensity"] = timed.flops / timed.bytes;
  if (dram == nullptr) return counters;
  counters.values["dram_pct"] = 100 * timed.bytes / timed.seconds / dram->bytes_per_s;
  if (math != nullptr) counters.values["ridge"] = math->flops_per_s / dram->bytes_per_s;
  return counters;
}

}  // namespace

bool is_lab_run(const Json& document) {
  return document.is_object() && document.contains("experiments") && document.contains("provenance");
}

RoofSet roofs_of_run(const Json& run, const std::string& domain, const std::string& what) {
  RoofSet roofs = roofs_of_domain(run, domain.empty() ? "cuda" : domain, what);
  if (domain.empty() && roofs.memory.empty() && roofs.math.empty()) roofs = roofs_of_domain(run, "cpu", what);
  if (roofs.memory.empty() && roofs.math.empty())
    throw Error(format("{}: no roof was measured in this run", what));
  return roofs;
}

std::vector<RooflinePoint> points_of_run(
    const Json& run, const std::string& domain, const std::string& what) {
  std::vector<RooflinePoint> points;
  for (const Timed& timed : timed_variants(run, what))
    if (timed.flops > 0 && timed.domain == domain)
      points.push_back({.name = timed.name(),
          .dtype = timed.dtype(),
          .flops = timed.flops,
          .traffic = {{timed.level(), timed.bytes}},
          .seconds = timed.seconds});
  return points;
}

std::vector<Counters> counters_of_run(const Json& run, const std::string& what) {
  const RoofSet roofs = roofs_of_domain(run, "cuda", what);
  std::vector<Counters> all;
  for (const Timed& timed : timed_variants(run, what))
    if (timed.domain == "cuda") all.push_back(counters_of(timed, roofs));
  if (all.empty())
    throw Error(format("{}: no variant was timed on a GPU, and the rules are about GPUs", what));
  return all;
}

}  // namespace cheetah::analysis
