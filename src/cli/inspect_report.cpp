// SPDX-License-Identifier: MIT
#include "cli/inspect_report.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/format.h"
#include "base/table.h"
#include "model/cost.h"
#include "model/model.h"

namespace cheetah {
namespace {

constexpr std::array kCacheTypes = {DType::kF32, DType::kF16, DType::kBF16};
constexpr std::array kPlannedTypes = {DType::kBF16, DType::kQ8_0, DType::kQ4_K};
constexpr std::array<int64_t, 4> kPlannedBatches = {1, 8, 32, 128};
constexpr DType kPlannedCache = DType::kF16;

std::string bytes(double count) { return human_bytes(count); }
std::string count(double value) { return human_count(value); }
std::string count(int64_t value) { return human_count(static_cast<double>(value)); }

// A short context, then powers of eight up to what the model was made for.
std::vector<int64_t> contexts(const ModelTraits& traits) {
  std::vector<int64_t> list;
  for (int64_t context = 512; context < traits.max_positions; context *= 8) list.push_back(context);
  list.push_back(traits.max_positions);
  return list;
}

struct StepCost {
  double flops = 0;
  double bytes = 0;
};

StepCost decode_cost(const ModelFacts& facts, int64_t context) {
  return {.flops = decode_flops(facts.traits, context - 1),
      .bytes = decode_weight_bytes(facts.traits, facts.main_type) +
               kv_read_bytes(facts.traits, kPlannedCache, context - 1)};
}

// Per token of the prompt; the weights are read once for all of it.
StepCost prompt_cost(const ModelFacts& facts, int64_t tokens) {
  const auto n = static_cast<double>(tokens);
  const double cache = n * static_cast<double>(kv_bytes_per_token(facts.traits, kPlannedCache));
  return {.flops = prompt_flops(facts.traits, tokens) / n,
      .bytes = (decode_weight_bytes(facts.traits, facts.main_type) + cache) / n};
}

std::vector<std::string> features(const ModelTraits& t) {
  std::vector<std::string> list;
  const auto add = [&](bool present, std::string text) {
    if (present) list.push_back(std::move(text));
  };
  const auto windowed =
      std::ranges::count_if(t.layers, [](const LayerTraits& layer) { return layer.window > 0; });
  const auto sparse = std::ranges::count_if(t.layers, [](const LayerTraits& layer) { return layer.moe; });
  list.push_back(t.norm == NormKind::kRms ? "RMSNorm" : "LayerNorm");
  add(t.post_norm, t.pre_norm ? "norms before and after" : "norms after");
  add(t.qk_norm || t.qk_norm_whole, "Q/K norms");
  add(!t.rope.inv_freq.empty(), "rotary positions");
  add(t.learned_positions, "learned positions");
  add(t.has_mla, format("latent attention (rank {})", t.mla.kv_rank));
  add(windowed > 0, format("{} of {} layers see a window", windowed, t.layers.size()));
  add(t.attention_sinks, "attention sinks");
  add(t.attention_soft_cap > 0 || t.logit_soft_cap > 0, "soft caps");
  add(sparse > 0, format("{} experts, {} a token, in {} layers", t.moe.experts, t.moe.top_k, sparse));
  add(sparse > 0 && t.moe.shared_hidden > 0, "shared expert");
  add(t.gated_mlp, "gated MLP");
  add(t.tied_embeddings, "tied embeddings");
  return list;
}

std::string shape_text(const ModelFacts& facts) {
  const ModelTraits& t = facts.traits;
  return format(
      "{}: {}, {} parameters\n"
      "  layers {}, hidden {}, ffn {}, heads {} ({} for keys and values) of {}, vocabulary {}, positions {}\n"
      "  {}\n\n",
      facts.name, t.family, count(facts.parameters), t.layers.size(), t.hidden,
      t.ffn ? t.ffn : t.moe.expert_hidden, t.heads, t.kv_heads, t.head_dim, t.vocab, t.max_positions,
      fmt::join(features(t), ", "));
}

std::string weights_text(const ModelFacts& facts) {
  const ParameterCount parts = parameter_count(facts.traits);
  Table table({"parameters", "count", "active per token"});
  table.add({"embedding", count(parts.embedding), count(facts.traits.hidden)});
  table.add({"attention", count(parts.attention), count(parts.attention)});
  table.add({"MLP", count(parts.mlp), count(parts.active_mlp)});
  table.add({"head", parts.head ? count(parts.head) : format("tied"),
      count(facts.traits.vocab * facts.traits.hidden)});
  std::string text = table.render() + "\n";
  if (facts.stored.empty()) return text;
  Table types({"stored as", "tensors", "elements", "bytes"});
  for (const auto& [type, share] : facts.stored)
    types.add({std::string(name_of(type)), std::to_string(share.tensors), count(share.elements),
        bytes(static_cast<double>(share.bytes))});
  return text + types.render() + "\n";
}

std::string cost_text(const ModelFacts& facts) {
  Table cache({"cache", "bytes per token", format("at {} tokens", facts.traits.max_positions)});
  for (const DType type : kCacheTypes) {
    const auto per_token = static_cast<double>(kv_bytes_per_token(facts.traits, type));
    cache.add({std::string(name_of(type)), bytes(per_token),
        bytes(per_token * static_cast<double>(facts.traits.max_positions))});
  }
  Table cost({"per token", "FLOPs", "bytes", "FLOPs per byte"});
  const auto add = [&](const std::string& label, const StepCost& step) {
    cost.add({label, count(step.flops), bytes(step.bytes), format("{:.1f}", step.flops / step.bytes)});
  };
  for (const int64_t tokens : contexts(facts.traits))
    add(format("prompt of {}", tokens), prompt_cost(facts, tokens));
  for (const int64_t tokens : contexts(facts.traits))
    add(format("decode at context {}", tokens), decode_cost(facts, tokens));
  return format("{}\n{}(weights in {}, cache in {})\n", cache.render(), cost.render(),
      name_of(facts.main_type), name_of(kPlannedCache));
}

std::string fit_text(const ModelFacts& facts, int64_t memory) {
  std::vector<std::string> header = {"weights", "size"};
  for (const int64_t batch : kPlannedBatches) header.push_back(format("batch {}", batch));
  Table table(header);
  for (const DType type : kPlannedTypes) {
    std::vector<std::string> row = {std::string(name_of(type)), bytes(all_weight_bytes(facts.traits, type))};
    for (const int64_t batch : kPlannedBatches) {
      const int64_t fits = context_that_fits(facts, type, batch, memory);
      row.push_back(fits ? format("{}", fits) : format("-"));
    }
    table.add(row);
  }
  return format("context tokens per sequence in {} (cache in {}):\n{}", bytes(static_cast<double>(memory)),
      name_of(kPlannedCache), table.render());
}

Json cost_json(const ModelFacts& facts) {
  Json costs = Json::array();
  const auto add = [&](const char* phase, int64_t tokens, const StepCost& step) {
    costs.push_back({{"phase", phase}, {"tokens", tokens}, {"flops_per_token", step.flops},
        {"bytes_per_token", step.bytes}, {"flops_per_byte", step.flops / step.bytes}});
  };
  for (const int64_t tokens : contexts(facts.traits)) add("prefill", tokens, prompt_cost(facts, tokens));
  for (const int64_t tokens : contexts(facts.traits)) add("decode", tokens, decode_cost(facts, tokens));
  return costs;
}

Json fit_json(const ModelFacts& facts, int64_t memory) {
  Json fits = Json::array();
  for (const DType type : kPlannedTypes)
    for (const int64_t batch : kPlannedBatches)
      fits.push_back(
          {{"dtype", std::string(name_of(type))}, {"weight_bytes", all_weight_bytes(facts.traits, type)},
              {"batch", batch}, {"context_tokens", context_that_fits(facts, type, batch, memory)}});
  return fits;
}

}  // namespace

int64_t context_that_fits(const ModelFacts& facts, DType dtype, int64_t batch, int64_t memory) {
  const double left = static_cast<double>(memory) - all_weight_bytes(facts.traits, dtype);
  const auto token = static_cast<double>(batch * kv_bytes_per_token(facts.traits, kPlannedCache));
  return left <= 0 ? 0 : std::min(facts.traits.max_positions, static_cast<int64_t>(left / token));
}

std::string inspect_text(const ModelFacts& facts, std::optional<int64_t> memory) {
  std::string text = shape_text(facts) + weights_text(facts) + cost_text(facts);
  if (memory) text += format("\n{}", fit_text(facts, *memory));
  return text;
}

Json inspect_json(const ModelFacts& facts, std::optional<int64_t> memory) {
  const ModelTraits& t = facts.traits;
  const ParameterCount parts = parameter_count(t);
  Json json = {{"schema_version", 1}, {"name", facts.name}, {"family", t.family}, {"features", features(t)},
      {"parameters", facts.parameters},
      {"active_parameters", parts.attention + parts.active_mlp + t.vocab * t.hidden},
      {"weight_bytes", facts.weight_bytes}, {"layers", t.layers.size()}, {"hidden", t.hidden}, {"ffn", t.ffn},
      {"heads", t.heads}, {"kv_heads", t.kv_heads}, {"head_dim", t.head_dim}, {"vocabulary", t.vocab},
      {"max_positions", t.max_positions}, {"costs", cost_json(facts)}};
  for (const auto& [type, share] : facts.stored)
    json["stored"][std::string(name_of(type))] = {
        {"tensors", share.tensors}, {"elements", share.elements}, {"bytes", share.bytes}};
  for (const DType type : kCacheTypes)
    json["kv_bytes_per_token"][std::string(name_of(type))] = kv_bytes_per_token(t, type);
  if (memory) json["fits"] = {{"memory_bytes", *memory}, {"contexts", fit_json(facts, *memory)}};
  return json;
}

}  // namespace cheetah
