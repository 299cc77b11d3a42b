// SPDX-License-Identifier: MIT
#include "model/families/gguf_config.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/format.h"
#include "model/rope_scaling.h"

namespace cheetah {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 26;
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxHeads = 16384;
constexpr int64_t kMaxPositions = int64_t{1} << 30;

void name_gguf_weights(WeightNames& names) {
  names.roots = {""};
  names.embedding = "token_embd";
  names.positions = "position_embd";
  names.final_norm = "output_norm";
  names.heads = {"output"};
  names.layer = "blk.{}.";
  names.attention_in = "attn_norm";
  names.mlp_in = "ffn_norm";
  names.q = "attn_q";
  names.k = "attn_k";
  names.v = "attn_v";
  names.o = "attn_output";
  names.q_norm = "attn_q_norm";
  names.k_norm = "attn_k_norm";
  names.sinks = "attn_sinks.weight";
  names.q_a = "attn_q_a";
  names.q_a_norm = "attn_q_a_norm";
  names.q_b = "attn_q_b";
  names.kv_a = "attn_kv_a_mqa";
  names.kv_a_norm = "attn_kv_a_norm";
  names.kv_b = "attn_kv_b";
  names.k_b = "attn_k_b";
  names.v_b = "attn_v_b";
  names.gate = "ffn_gate";
  names.up = "ffn_up";
  names.down = "ffn_down";
  names.moe_roots = {""};
  names.router = "ffn_gate_inp";
  names.experts_gate = "ffn_gate_exps";
  names.experts_up = "ffn_up_exps";
  names.experts_gate_up.clear();
  names.experts_down = "ffn_down_exps";
  names.expert.clear();  // files of 2023 hold one tensor an expert
  names.expert_gate = "ffn_gate.{}";
  names.expert_up = "ffn_up.{}";
  names.expert_down = "ffn_down.{}";
  names.shared_gate = "ffn_gate_shexp";
  names.shared_up = "ffn_up_shexp";
  names.shared_down = "ffn_down_shexp";
  names.qkv_bias = names.o_bias = names.mlp_bias = Presence::kIfStored;
  names.ignored = {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"};
}

RopeScaling scaling_kind(const GgufConfig& config) {
  const std::string type = config.string_or("rope.scaling.type", "none");
  if (type == "none") return RopeScaling::kNone;
  if (type == "linear") return RopeScaling::kLinear;
  if (type == "yarn") return RopeScaling::kYarn;
  if (type == "longrope") return RopeScaling::kLongrope;
  config.reject("rope.scaling.type", printable(type), "none, linear, yarn or longrope");
}

// Factors in the file's tensors divide the frequencies (Llama 3), or come in a short and a long set (Phi 3).
void apply_factor_tensors(const GgufConfig& config, RopeConfig& rope, RopeTraits& traits) {
  const int64_t half = rope.rotary_dim / 2;
  const std::vector<double> factors = config.numbers_of_tensor("rope_freqs.weight", half);
  for (size_t i = 0; i < factors.size(); ++i)
    traits.inv_freq[i] = static_cast<float>(static_cast<double>(traits.inv_freq[i]) / factors[i]);
  rope.short_factors = config.numbers_of_tensor("rope_factors_short.weight", half);
  rope.long_factors = config.numbers_of_tensor("rope_factors_long.weight", half);
  if (rope.short_factors.empty() || rope.long_factors.empty()) return;
  rope.scaling = RopeScaling::kLongrope;
  rope.attention_factor = config.positive_or("rope.scaling.attn_factor", 1.0);
  traits = make_rope(rope);
}

}  // namespace

GgufConfig::GgufConfig(const GgufFile& file) : file_(file) {
  const auto name = file.string("general.architecture");
  if (!name) throw Error(format("{}: key \"general.architecture\" is missing", file.name()));
  architecture_ = *name;
}

std::string GgufConfig::key(std::string_view name) const { return architecture_ + "." + std::string(name); }

void GgufConfig::reject(std::string_view name, const std::string& found, const std::string& rule) const {
  throw Error(format("{}: key \"{}\" is {}, expected {}", file_.name(), key(name), found, rule));
}

int64_t GgufConfig::integer(std::string_view name, int64_t low, int64_t high) const {
  const std::string rule = format("a whole number from {} to {}", low, high);
  const GgufValue* stored = file_.find(key(name));
  if (!stored) reject(name, "absent", rule);
  if (stored->is_array) {  // one number per layer: taken where they agree
    const std::vector<int64_t> values = file_.integers(key(name));
    for (const int64_t value : values)
      if (value != values.front()) reject(name, "a list of different numbers", rule);
    if (values.empty()) reject(name, "an empty list", rule);
    if (values.front() < low || values.front() > high) reject(name, format("{}", values.front()), rule);
    return values.front();
  }
  const int64_t value = *file_.integer(key(name));
  if (value < low || value > high) reject(name, format("{}", value), rule);
  return value;
}

int64_t GgufConfig::integer_or(std::string_view name, int64_t fallback, int64_t low, int64_t high) const {
  return has(name) ? integer(name, low, high) : fallback;
}

double GgufConfig::positive(std::string_view name) const {
  const auto value = file_.number(key(name));
  if (!value) reject(name, "absent", "a number above 0");
  if (!(*value > 0.0) || !std::isfinite(*value)) reject(name, format("{}", *value), "a number above 0");
  return *value;
}

double GgufConfig::positive_or(std::string_view name, double fallback) const {
  return has(name) ? positive(name) : fallback;
}

bool GgufConfig::boolean_or(std::string_view name, bool fallback) const {
  return file_.boolean(key(name)).value_or(fallback);
}

std::string GgufConfig::string_or(std::string_view name, std::string fallback) const {
  const auto value = file_.string(key(name));
  return value ? std::string(*value) : fallback;
}

std::vector<double> GgufConfig::numbers_of_tensor(const std::string& name, int64_t count) const {
  std::vector<double> values;
  const auto at = file_.tensors().find(name);
  if (at == file_.tensors().end()) return values;
  if (at->second.dtype != DType::kF32 || at->second.shape.elements() != count)
    throw Error(format("{}: tensor \"{}\" is {} {}, expected F32 [{}]", file_.name(), name,
        name_of(at->second.dtype), at->second.shape.text(), count));
  for (int64_t i = 0; i < count; ++i) {
    float value = 0;
    std::memcpy(&value, at->second.data + i * 4, 4);
    if (!(value > 0.f) || !std::isfinite(value))
      throw Error(format("{}: tensor \"{}\" holds {}, expected numbers above 0", file_.name(), name, value));
    values.push_back(static_cast<double>(value));
  }
  return values;
}

FamilyModel read_gguf_base(const GgufConfig& config) {
  FamilyModel model;
  ModelTraits& traits = model.traits;
  name_gguf_weights(model.names);
  traits.hidden = config.integer("embedding_length", 1, kMaxSize);
  traits.layers.resize(static_cast<size_t>(config.integer("block_count", 1, kMaxLayers)));
  traits.heads = config.integer("attention.head_count", 1, kMaxHeads);
  traits.kv_heads = config.integer_or("attention.head_count_kv", traits.heads, 1, kMaxHeads);
  if (traits.heads % traits.kv_heads != 0)
    config.reject("attention.head_count_kv", format("{}", traits.kv_heads),
        format("a divisor of head_count = {}", traits.heads));
  if (!config.has("attention.key_length") && traits.hidden % traits.heads != 0)
    config.reject("embedding_length", format("{}", traits.hidden),
        format("a multiple of head_count = {}", traits.heads));
  traits.head_dim = config.integer_or("attention.key_length", traits.hidden / traits.heads, 1, kMaxSize);
  traits.ffn = config.integer_or("feed_forward_length", 0, 0, kMaxSize);
  traits.max_positions = config.integer_or("context_length", 2048, 1, kMaxPositions);
  traits.norm_eps = static_cast<float>(config.positive_or("attention.layer_norm_rms_epsilon", 1e-5));
  traits.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(traits.head_dim)));
  traits.tied_embeddings = !config.has_tensor("output.weight");
  const auto embedding = config.file().tensors().find("token_embd.weight");
  if (embedding == config.file().tensors().end() || embedding->second.shape.rank() != 2)
    throw Error(format("{}: tensor \"token_embd.weight\" is missing or no matrix", config.file().name()));
  traits.vocab = embedding->second.shape[0];
  return model;
}

RopeTraits read_gguf_rope(const GgufConfig& config, int64_t rotary_dim, bool yarn_truncates) {
  RopeConfig rope;
  rope.theta = config.positive_or("rope.freq_base", 10000.0);
  if (!(rope.theta > 1.0)) config.reject("rope.freq_base", format("{}", rope.theta), "a number above 1");
  rope.rotary_dim = config.integer_or("rope.dimension_count", rotary_dim, 2, rotary_dim);
  if (rope.rotary_dim % 2 != 0)
    config.reject("rope.dimension_count", format("{}", rope.rotary_dim), "an even number");
  rope.scaling = scaling_kind(config);
  rope.original_context = config.integer_or("rope.scaling.original_context_length",
      config.integer_or("context_length", 2048, 1, kMaxPositions), 1, kMaxPositions);
  rope.factor = config.positive_or("rope.scaling.factor", 1.0);
  rope.truncate = yarn_truncates;
  rope.beta_fast = config.positive_or("rope.scaling.yarn_beta_fast", 32.0);
  rope.beta_slow = config.positive_or("rope.scaling.yarn_beta_slow", 1.0);
  if (rope.scaling == RopeScaling::kLongrope) rope.scaling = RopeScaling::kNone;  // its factors are tensors
  RopeTraits traits = make_rope(rope);
  apply_factor_tensors(config, rope, traits);
  return traits;
}

void read_gguf_experts(const GgufConfig& config, ModelTraits& traits) {
  MoeTraits& moe = traits.moe;
  moe.experts = config.integer_or("expert_count", 0, 0, kMaxSize);
  if (moe.experts == 0) return;
  moe.top_k = config.integer("expert_used_count", 1, moe.experts);
  moe.expert_hidden = config.integer_or("expert_feed_forward_length", traits.ffn, 1, kMaxSize);
  moe.normalize = config.boolean_or("expert_weights_norm", true);
  moe.scale = static_cast<float>(config.positive_or("expert_weights_scale", 1.0));
  const auto count = static_cast<int64_t>(traits.layers.size());
  const int64_t dense = config.integer_or("leading_dense_block_count", 0, 0, kMaxLayers);
  for (int64_t i = dense; i < count; ++i) traits.layers[static_cast<size_t>(i)].moe = true;
}

void set_periodic_windows(ModelTraits& traits, int64_t window, int64_t period) {
  for (size_t i = 0; i < traits.layers.size(); ++i)
    traits.layers[i].window = (static_cast<int64_t>(i) + 1) % period != 0 ? window : 0;
}

}  // namespace cheetah
