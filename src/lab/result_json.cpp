// SPDX-License-Identifier: MIT
#include "lab/result_json.h"

#include "base/error.h"
#include "base/format.h"

namespace cheetah::lab {
namespace {

Json variant_json(const VariantResult& v) {
  Json json = {{"name", v.name}, {"verdict", name_of(v.verdict)}};
  if (!v.note.empty()) json["note"] = v.note;
  if (v.median_s <= 0) return json;
  json.update({{"median_s", v.median_s}, {"spread", v.spread}, {"samples", v.num_samples},
      {"rejected", v.num_rejected}, {"speedup", v.speedup.ratio}, {"speedup_low", v.speedup.low},
      {"speedup_high", v.speedup.high}, {"flops", v.cost.flops}, {"bytes", v.cost.bytes},
      {"roof", name_of(v.cost.roof)}, {"roof_rate", v.roof_rate}, {"roof_share", v.roof_share}});
  if (v.cost.items > 0) json.update({{"items", v.cost.items}, {"item", v.item}});
  return json;
}

Json size_json(const SizeResult& size) {
  Json variants = Json::array();
  for (const VariantResult& variant : size.variants) variants.push_back(variant_json(variant));
  return {{"size", size.label}, {"detectable_effect", size.detectable}, {"input_sets", size.num_sets},
      {"rounds", size.num_rounds}, {"variants", std::move(variants)}};
}

Json experiment_json(const ExperimentResult& e) {
  Json sizes = Json::array(), variants = Json::array();
  for (const SizeResult& size : e.sizes) sizes.push_back(size_json(size));
  for (const VariantText& variant : e.variants)
    variants.push_back({{"name", variant.name}, {"idea", variant.idea}});
  Json json = {{"id", e.id}, {"title", e.title}, {"question", e.question}, {"mechanism", e.mechanism},
      {"claim", {{"text", e.claim}, {"variant", e.claim_variant}, {"speedup", e.claim_speedup}}},
      {"domain", name_of(e.domain)}, {"timing", name_of(e.timing)}, {"variants", std::move(variants)},
      {"sizes", std::move(sizes)}, {"wall_s", e.wall_s}};
  if (!e.skipped.empty()) json["skipped"] = e.skipped;
  if (!e.disturbances.empty()) json["disturbances"] = e.disturbances;
  return json;
}

Json provenance_json(const Provenance& p) {
  Json json = {{"time", p.time}, {"hardware", p.hardware}, {"cpu", p.cpu}, {"simd", p.simd},
      {"cores", p.cores}, {"commit", p.commit}, {"quick", p.quick}, {"compiler", p.compiler}};
  if (!p.gpu.empty())
    json.update({{"gpu", p.gpu}, {"driver", p.driver}, {"cuda", p.cuda}, {"sm_mhz", p.sm_mhz},
        {"memory_mhz", p.memory_mhz}});
  return json;
}

// The elements of the array `name` of an object, each as fields; none when absent.
template <class Take>
void each_of(const JsonFields& fields, std::string_view name, Take&& take) {
  const Json* array = fields.find(name);
  if (array == nullptr) return;
  if (!array->is_array()) throw Error(format("{}: {}: expected an array", fields.what(), name));
  for (size_t i = 0; i < array->size(); ++i) take((*array)[i], format("{}: {}[{}]", fields.what(), name, i));
}

std::vector<std::string> strings_of(const JsonFields& fields, std::string_view name) {
  std::vector<std::string> strings;
  each_of(fields, name, [&](const Json& json, const std::string& what) {
    if (!json.is_string()) throw Error(format("{}: expected a string", what));
    strings.push_back(json.get<std::string>());
  });
  return strings;
}

Roof roof_of(const JsonFields& fields) {
  const std::string name = fields.string_or("roof", "none");
  const std::optional<Roof> roof = roof_named(name);
  if (!roof) throw Error(format("{}: roof: '{}' is none we know", fields.what(), printable(name)));
  return *roof;
}

Domain domain_of(const JsonFields& fields) {
  const std::string name = fields.string("domain");
  if (name != "cpu" && name != "cuda")
    throw Error(format("{}: domain: expected cpu or cuda, not '{}'", fields.what(), printable(name)));
  return name == "cpu" ? Domain::kCpu : Domain::kCuda;
}

constexpr int64_t kMost = int64_t{1} << 31;

VariantResult variant_from(const JsonFields& fields) {
  const std::string verdict = fields.string("verdict");
  const std::optional<Verdict> known = verdict_named(verdict);
  if (!known) throw Error(format("{}: verdict: '{}' is none we know", fields.what(), printable(verdict)));
  VariantResult v{.name = fields.string("name"), .verdict = *known, .note = fields.string_or("note", "")};
  v.median_s = fields.number_or("median_s", 0);
  v.spread = fields.number_or("spread", 0);
  v.num_samples = static_cast<int>(fields.integer_or("samples", 0, 0, kMost - 1));
  v.num_rejected = static_cast<int>(fields.integer_or("rejected", 0, 0, kMost - 1));
  v.speedup = {.ratio = fields.number_or("speedup", 1),
      .low = fields.number_or("speedup_low", 1),
      .high = fields.number_or("speedup_high", 1)};
  v.cost = {.flops = fields.number_or("flops", 0),
      .bytes = fields.number_or("bytes", 0),
      .roof = roof_of(fields),
      .items = fields.number_or("items", 0)};
  v.item = fields.string_or("item", "");
  v.roof_rate = fields.number_or("roof_rate", 0);
  v.roof_share = fields.number_or("roof_share", 0);
  return v;
}

SizeResult size_from(const JsonFields& fields) {
  SizeResult size{.label = fields.string("size"), .variants = {}};
  size.detectable = fields.number_or("detectable_effect", 0);
  size.num_sets = static_cast<int>(fields.integer_or("input_sets", 1, 0, kMost - 1));
  size.num_rounds = static_cast<int>(fields.integer_or("rounds", 0, 0, kMost - 1));
  each_of(fields, "variants", [&](const Json& json, const std::string& what) {
    size.variants.push_back(variant_from(JsonFields(json, what)));
  });
  return size;
}

ExperimentResult experiment_from(const JsonFields& fields) {
  ExperimentResult e;
  e.id = fields.string("id");
  e.title = fields.string("title");
  e.question = fields.string_or("question", "");
  e.mechanism = fields.string_or("mechanism", "");
  if (const Json* claim = fields.find("claim")) {
    const JsonFields said(*claim, fields.what() + ": claim");
    e.claim = said.string_or("text", "");
    e.claim_variant = said.string_or("variant", "");
    e.claim_speedup = said.number_or("speedup", 0);
  }
  e.domain = domain_of(fields);
  for (const Timing timing : {Timing::kGraphBatched, Timing::kEvents, Timing::kWallClock})
    if (fields.string_or("timing", "") == name_of(timing)) e.timing = timing;
  each_of(fields, "variants", [&](const Json& json, const std::string& what) {
    const JsonFields text(json, what);
    e.variants.push_back({.name = text.string("name"), .idea = text.string_or("idea", "")});
  });
  each_of(fields, "sizes", [&](const Json& json, const std::string& what) {
    e.sizes.push_back(size_from(JsonFields(json, what)));
  });
  e.skipped = fields.string_or("skipped", "");
  e.disturbances = strings_of(fields, "disturbances");
  e.wall_s = fields.number_or("wall_s", 0);
  return e;
}

Provenance provenance_from(const JsonFields& fields) {
  Provenance p;
  p.time = fields.string_or("time", "");
  p.hardware = fields.string("hardware");
  p.cpu = fields.string_or("cpu", "");
  p.simd = fields.string_or("simd", "");
  p.cores = static_cast<int>(fields.integer_or("cores", 0, 0, 1 << 20));
  p.commit = fields.string_or("commit", "");
  p.compiler = fields.string_or("compiler", "");
  p.gpu = fields.string_or("gpu", "");
  p.driver = fields.string_or("driver", "");
  p.cuda = fields.string_or("cuda", "");
  p.sm_mhz = fields.number_or("sm_mhz", 0);
  p.memory_mhz = fields.number_or("memory_mhz", 0);
  p.quick = fields.boolean_or("quick", false);
  return p;
}

}  // namespace

Json run_json(const LabRun& run) {
  Json roofs = Json::array(), experiments = Json::array();
  for (const MeasuredRoof& roof : run.roofs) {
    Json json = {{"domain", name_of(roof.domain)}, {"roof", name_of(roof.roof)}, {"rate", roof.rate}};
    if (roof.other_rate > 0) json["other_rate"] = roof.other_rate;
    roofs.push_back(std::move(json));
  }
  for (const ExperimentResult& experiment : run.experiments)
    experiments.push_back(experiment_json(experiment));
  return {{"provenance", provenance_json(run.provenance)}, {"roofs", std::move(roofs)},
      {"experiments", std::move(experiments)}};
}

LabRun run_from_json(const Json& json, const std::string& what) {
  const JsonFields fields(json, what);
  const Json* provenance = fields.find("provenance");
  if (provenance == nullptr) throw Error(format("{}: provenance is missing: not a result of the lab", what));
  LabRun run;
  run.provenance = provenance_from(JsonFields(*provenance, what + ": provenance"));
  each_of(fields, "roofs", [&](const Json& each, const std::string& where) {
    const JsonFields roof(each, where);
    run.roofs.push_back({.domain = domain_of(roof),
        .roof = roof_of(roof),
        .rate = roof.number("rate"),
        .other_rate = roof.number_or("other_rate", 0)});
  });
  each_of(fields, "experiments", [&](const Json& each, const std::string& where) {
    run.experiments.push_back(experiment_from(JsonFields(each, where)));
  });
  return run;
}

}  // namespace cheetah::lab
