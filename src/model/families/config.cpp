// SPDX-License-Identifier: MIT
#include "model/families/config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 26;
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxHeads = 16384;
constexpr int64_t kMaxHeadDim = 16384;
constexpr int64_t kMaxPositions = int64_t{1} << 30;

constexpr std::array<std::pair<std::string_view, Activation>, 9> kActivations = {{
    {"silu", Activation::kSilu},
    {"swish", Activation::kSilu},
    {"gelu", Activation::kGeluErf},
    {"gelu_python", Activation::kGeluErf},
    {"gelu_new", Activation::kGeluTanh},
    {"gelu_fast", Activation::kGeluTanh},
    {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"quick_gelu", Activation::kQuickGelu},
    {"relu", Activation::kRelu},
}};

}  // namespace

void Config::reject(std::string_view name, const std::string& rule) const {
  const Json* value = find(name);
  throw Error(format("{}: field \"{}\" is {}, expected {}", what(), name,
      value ? printable(dump_json(*value)) : "absent", rule));
}

int64_t Config::size(std::string_view name) const { return fields_.integer(name, 1, kMaxSize); }

int64_t Config::size_or(std::string_view name, int64_t fallback) const {
  return fields_.integer_or(name, fallback, 1, kMaxSize);
}

double Config::positive(std::string_view name) const {
  const double value = fields_.number(name);
  if (!(value > 0.0)) reject(name, "a number above 0");
  return value;
}

double Config::positive_or(std::string_view name, double fallback) const {
  return has(name) ? positive(name) : fallback;
}

double Config::not_negative_or(std::string_view name, double fallback) const {
  const double value = fields_.number_or(name, fallback);
  if (value < 0.0) reject(name, "a number from 0");
  return value;
}

std::vector<double> Config::positives(std::string_view name, int64_t count) const {
  const Json* list = find(name);
  const std::string rule = format("a list of {} numbers above 0", count);
  if (!list || !list->is_array() || static_cast<int64_t>(list->size()) != count) reject(name, rule);
  std::vector<double> values;
  for (const Json& value : *list) {
    if (!value.is_number() || !(value.get<double>() > 0.0) || !std::isfinite(value.get<double>()))
      reject(name, rule);
    values.push_back(value.get<double>());
  }
  return values;
}

Activation Config::activation(std::string_view name, std::string fallback) const {
  const std::string wanted = string_or(name, std::move(fallback));
  std::string known;
  for (const auto& [text, kind] : kActivations) {
    if (text == wanted) return kind;
    known += (known.empty() ? "" : ", ") + std::string(text);
  }
  reject(name, "one of " + known);
}

void Config::require_boolean(std::string_view name, bool value, const std::string& why) const {
  if (boolean_or(name, value) != value) reject(name, format("{}: {}", value ? "true" : "false", why));
}

int64_t Config::window_or(std::string_view name, int64_t fallback) const {
  if (!stands(name)) return fallback;
  return fields_.integer_or(name, 0, 1, kMaxPositions);
}

FamilyModel read_base(const Config& config, const ConfigDefaults& defaults) {
  FamilyModel model;
  ModelTraits& traits = model.traits;
  traits.vocab = defaults.vocab ? config.size_or("vocab_size", defaults.vocab) : config.size("vocab_size");
  traits.hidden = config.size("hidden_size");
  traits.ffn = config.size("intermediate_size");
  if (!config.has("num_hidden_layers")) config.size("num_hidden_layers");
  traits.layers.resize(static_cast<size_t>(config.integer_or("num_hidden_layers", 0, 1, kMaxLayers)));
  if (defaults.heads == 0 && !config.has("num_attention_heads")) config.size("num_attention_heads");
  traits.heads = config.integer_or("num_attention_heads", defaults.heads, 1, kMaxHeads);
  const bool null_kv_heads = config.stands("num_key_value_heads") && !config.has("num_key_value_heads");
  const int64_t kv_heads = defaults.kv_heads == 0 || null_kv_heads ? traits.heads : defaults.kv_heads;
  traits.kv_heads = config.integer_or("num_key_value_heads", kv_heads, 1, kMaxHeads);
  if (traits.heads % traits.kv_heads != 0)
    config.reject("num_key_value_heads", format("a divisor of num_attention_heads = {}", traits.heads));
  traits.head_dim = config.integer_or("head_dim", defaults.head_dim, 1, kMaxHeadDim);
  if (traits.head_dim == 0) {
    if (traits.hidden % traits.heads != 0)
      config.reject("hidden_size", format("a multiple of num_attention_heads = {}", traits.heads));
    traits.head_dim = traits.hidden / traits.heads;
  }
  traits.max_positions =
      config.integer_or("max_position_embeddings", defaults.max_positions, 1, kMaxPositions);
  traits.norm_eps = static_cast<float>(config.positive_or("rms_norm_eps", defaults.eps));
  traits.activation = config.activation(defaults.activation_field, defaults.activation);
  traits.tied_embeddings = config.boolean_or("tie_word_embeddings", defaults.tied);
  traits.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(traits.head_dim)));
  return model;
}

std::optional<std::vector<bool>> read_sliding_layers(const Config& config, int64_t layers) {
  const Json* types = config.find("layer_types");
  if (!types) return std::nullopt;
  if (!types->is_array() || static_cast<int64_t>(types->size()) < layers)
    config.reject("layer_types", format("a list of {} layer types", layers));
  std::vector<bool> sliding;
  for (int64_t i = 0; i < layers; ++i) {
    const Json& type = (*types)[static_cast<size_t>(i)];
    if (type != "full_attention" && type != "sliding_attention")
      config.reject("layer_types", "\"full_attention\" or \"sliding_attention\" for each layer");
    sliding.push_back(type == "sliding_attention");
  }
  return sliding;
}

void set_windows(ModelTraits& traits, const std::vector<bool>& sliding, int64_t window) {
  for (size_t i = 0; i < traits.layers.size(); ++i) traits.layers[i].window = sliding[i] ? window : 0;
}

void set_sliding_windows(
    const Config& config, const std::vector<bool>& sliding, int64_t default_window, ModelTraits& traits) {
  const int64_t window = config.window_or("sliding_window", default_window);
  if (window == 0 && std::ranges::find(sliding, true) != sliding.end())
    config.reject("sliding_window", "a number of tokens: some layers slide");
  set_windows(traits, sliding, window);
}

void set_all_windows(ModelTraits& traits, int64_t window) {
  for (LayerTraits& layer : traits.layers) layer.window = window;
}

void read_qwen_windows(const Config& config, ModelTraits& traits) {
  const int64_t window =
      config.boolean_or("use_sliding_window", false) ? config.window_or("sliding_window", 4096) : 0;
  if (window == 0) return;
  const auto count = static_cast<int64_t>(traits.layers.size());
  const int64_t first = config.integer_or("max_window_layers", 28, 0, kMaxSize);
  std::vector<bool> sliding;
  for (int64_t i = 0; i < count; ++i) sliding.push_back(i >= first);
  set_windows(traits, read_sliding_layers(config, count).value_or(sliding), window);
}

void read_attention_bias(const Config& config, bool fallback, WeightNames& names) {
  const Presence bias = config.boolean_or("attention_bias", fallback) ? Presence::kYes : Presence::kNo;
  names.qkv_bias = names.o_bias = bias;
}

}  // namespace cheetah
