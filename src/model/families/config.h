// SPDX-License-Identifier: MIT
#pragma once
// What model families share in reading a Hugging Face config.json: checked fields, sizes, rotary embeddings.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "model/traits.h"
#include "model/weight_names.h"

namespace cheetah {

struct FamilyModel {
  ModelTraits traits;
  WeightNames names;
};

// One config object. Every getter throws an Error that names the file, the field, its value and the rule.
class Config {
 public:
  Config(const Json& object, const std::string& what) : object_(object), fields_(object, what) {}

  bool has(std::string_view name) const { return fields_.has(name); }
  bool stands(std::string_view name) const { return object_.contains(name); }  // even as null
  const Json* find(std::string_view name) const { return fields_.find(name); }
  const std::string& what() const { return fields_.what(); }

  int64_t size(std::string_view name) const;  // 1 .. kMaxSize
  int64_t size_or(std::string_view name, int64_t fallback) const;
  int64_t integer_or(std::string_view name, int64_t fallback, int64_t low, int64_t high) const {
    return fields_.integer_or(name, fallback, low, high);
  }
  double positive(std::string_view name) const;  // finite and above 0
  double positive_or(std::string_view name, double fallback) const;
  double not_negative_or(std::string_view name, double fallback) const;
  bool boolean_or(std::string_view name, bool fallback) const { return fields_.boolean_or(name, fallback); }
  std::string string_or(std::string_view name, std::string fallback) const {
    return fields_.string_or(name, std::move(fallback));
  }
  std::vector<double> positives(std::string_view name, int64_t count) const;  // exactly count of them
  Activation activation(std::string_view name, std::string fallback) const;
  // For a field that transformers reads but that only has one value here.
  void require_boolean(std::string_view name, bool value, const std::string& why) const;
  // 0 where null; fallback where absent.
  int64_t window_or(std::string_view name, int64_t fallback) const;

  [[noreturn]] void reject(std::string_view name, const std::string& rule) const;

 private:
  const Json& object_;
  JsonFields fields_;
};

// Values a family's config takes where a field is absent.
struct ConfigDefaults {
  int64_t vocab = 0;     // 0: must be there
  int64_t heads = 0;     // 0: must be there
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t head_dim = 0;  // 0: hidden / heads
  int64_t max_positions = 2048;
  double eps = 1e-6;
  double theta = 10000.0;
  bool tied = false;
  std::string_view activation_field = "hidden_act";
  std::string activation = "silu";
};

// The traits and names of a llama-like model: sizes, norms, activation, one rotary embedding.
FamilyModel read_base(const Config& config, const ConfigDefaults& defaults);

// The embedding for rotary dimensions out of `head_dim`. layer_type picks a part of rope_parameters where it
// is divided by layer types; "" takes the whole.
RopeTraits read_rope(
    const Config& config, int64_t head_dim, double default_theta, std::string_view layer_type = "");
// The same for families that may turn a part of a head only, default_part where no field says.
RopeTraits read_partial_rope(
    const Config& config, int64_t head_dim, double default_theta, double default_part);
// Yarn's correction of the softmax scale (DeepSeek), 1 without.
double read_mscale_correction(const Config& config);

// layer_types as "this layer is sliding"; nullopt where the config has none.
std::optional<std::vector<bool>> read_sliding_layers(const Config& config, int64_t layers);
void set_windows(ModelTraits& traits, const std::vector<bool>& sliding, int64_t window);
// sliding_window in the layers that slide, which a null refuses.
void set_sliding_windows(
    const Config& config, const std::vector<bool>& sliding, int64_t default_window, ModelTraits& traits);
void set_all_windows(ModelTraits& traits, int64_t window);
// use_sliding_window, sliding_window, max_window_layers, layer_types of the Qwen families.
void read_qwen_windows(const Config& config, ModelTraits& traits);
// attention_bias of families where it covers q, k, v and o alike.
void read_attention_bias(const Config& config, bool fallback, WeightNames& names);

}  // namespace cheetah
