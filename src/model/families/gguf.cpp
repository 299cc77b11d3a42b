// SPDX-License-Identifier: MIT
// GGUF architectures. Their converters have already permuted llama's query and key rows to interleaved rotary
// pairs and added one to Gemma's norm weights.
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "model/families/gguf_config.h"
#include "model/rope_scaling.h"

namespace cheetah {
namespace {

constexpr int64_t kMaxWindow = int64_t{1} << 30;

float inverse_root(double value) { return static_cast<float>(1.0 / std::sqrt(value)); }

void read_llama(const GgufConfig& config, FamilyModel& model) {
  model.traits.rope = read_gguf_rope(config, model.traits.head_dim, true);
  model.traits.rope.layout = RopeLayout::kInterleaved;
  read_gguf_experts(config, model.traits);
  const int64_t window = config.integer_or("attention.sliding_window", 0, 0, kMaxWindow);
  set_all_windows(model.traits, window);
}

void read_granite(const GgufConfig& config, FamilyModel& model) {
  read_llama(config, model);
  ModelTraits& traits = model.traits;
  traits.embedding_scale = static_cast<float>(config.positive_or("embedding_scale", 1.0));
  traits.residual_scale = static_cast<float>(config.positive_or("residual_scale", 1.0));
  if (config.has("attention.scale"))
    traits.attention_scale = static_cast<float>(config.positive("attention.scale"));
  traits.logit_scale = static_cast<float>(1.0 / config.positive_or("logit_scale", 1.0));
}

void read_qwen2(const GgufConfig& config, FamilyModel& model) {
  model.traits.rope = read_gguf_rope(config, model.traits.head_dim, true);
}

void read_qwen3(const GgufConfig& config, FamilyModel& model) {
  read_qwen2(config, model);
  model.traits.qk_norm = true;
}

void read_qwen3_moe(const GgufConfig& config, FamilyModel& model) {
  read_qwen3(config, model);
  read_gguf_experts(config, model.traits);
}

void read_gemma(const GgufConfig& config, FamilyModel& model) {
  ModelTraits& traits = model.traits;
  traits.post_norm = true;
  traits.activation = Activation::kGeluTanh;
  traits.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(traits.hidden)));
  traits.rope = read_gguf_rope(config, traits.head_dim, true);
  traits.attention_soft_cap = static_cast<float>(config.positive_or("attn_logit_softcapping", 0.0));
  traits.logit_soft_cap = static_cast<float>(config.positive_or("final_logit_softcapping", 0.0));
  model.names.attention_out = "post_attention_norm";
  model.names.mlp_out = "post_ffw_norm";
}

// The format has no place for query_pre_attn_scalar; only the 27B models differ from the head's size.
void scale_27b(ModelTraits& traits, size_t layers_of_27b) {
  if (traits.layers.size() != layers_of_27b) return;
  traits.attention_scale = inverse_root(static_cast<double>(traits.hidden / traits.heads));
}

void read_gemma2(const GgufConfig& config, FamilyModel& model) {
  read_gemma(config, model);
  set_periodic_windows(model.traits, config.integer_or("attention.sliding_window", 4096, 0, kMaxWindow), 2);
  scale_27b(model.traits, 46);
}

void read_gemma3(const GgufConfig& config, FamilyModel& model) {
  read_gemma(config, model);
  ModelTraits& traits = model.traits;
  traits.qk_norm = true;
  const int64_t window = config.integer_or("attention.sliding_window", 0, 0, kMaxWindow);
  set_periodic_windows(traits, window, config.integer_or("attention.sliding_window_pattern", 6, 1, 4096));
  traits.local_rope = make_rope(
      {.theta = config.positive_or("rope.freq_base_swa", 10000.0), .rotary_dim = traits.head_dim / 2 * 2});
  for (LayerTraits& layer : traits.layers) layer.local_rope = layer.window > 0;
  scale_27b(traits, 62);
}

void read_phi3(const GgufConfig& config, FamilyModel& model) {
  model.traits.rope = read_gguf_rope(config, model.traits.head_dim, true);
  set_all_windows(model.traits, config.integer_or("attention.sliding_window", 0, 0, kMaxWindow));
  model.names.qkv = "attn_qkv";
  model.names.gate_up = "ffn_up";
}

void read_olmo2(const GgufConfig& config, FamilyModel& model) {
  model.traits.rope = read_gguf_rope(config, model.traits.head_dim, true);
  model.traits.pre_norm = false;
  model.traits.post_norm = true;
  model.traits.qk_norm_whole = true;
  model.names.attention_in.clear();
  model.names.mlp_in.clear();
  model.names.attention_out = "post_attention_norm";
  model.names.mlp_out = "post_ffw_norm";
}

void read_gpt_oss(const GgufConfig& config, FamilyModel& model) {
  ModelTraits& traits = model.traits;
  traits.rope = read_gguf_rope(config, traits.head_dim, false);
  traits.attention_sinks = true;
  set_periodic_windows(traits, config.integer_or("attention.sliding_window", 128, 0, kMaxWindow), 2);
  read_gguf_experts(config, traits);
  traits.moe.score = RouterScore::kSoftmaxOfTopK;
  traits.moe.normalize = false;
  traits.moe.clamped_swiglu = true;
  model.names.mlp_in = "post_attention_norm";
  model.names.router_bias = Presence::kYes;
  model.names.experts_bias = Presence::kYes;
}

void read_layer_norms(const GgufConfig& config, ModelTraits& traits) {
  traits.norm = NormKind::kLayer;
  traits.norm_eps = static_cast<float>(config.positive_or("attention.layer_norm_epsilon", 1e-5));
}

void read_gpt2(const GgufConfig& config, FamilyModel& model) {
  ModelTraits& traits = model.traits;
  read_layer_norms(config, traits);
  traits.learned_positions = true;
  traits.gated_mlp = false;
  traits.activation = Activation::kGeluTanh;
  for (LayerTraits& layer : traits.layers) layer.rotate = false;
  model.names.qkv = "attn_qkv";
}

// Files made before the latent heads were split keep attn_kv_b and count key and value heads in full.
void read_deepseek2(const GgufConfig& config, FamilyModel& model) {
  ModelTraits& traits = model.traits;
  MlaTraits& mla = traits.mla;
  constexpr int64_t kMaxDim = int64_t{1} << 20;
  traits.has_mla = true;
  const bool split = config.has("attention.key_length_mla");
  const int64_t key = config.integer(split ? "attention.key_length_mla" : "attention.key_length", 2, kMaxDim);
  mla.rope_dim = config.integer("rope.dimension_count", 2, key - 1);
  mla.nope_dim = key - mla.rope_dim;
  mla.value_dim = config.integer(split ? "attention.value_length_mla" : "attention.value_length", 1, kMaxDim);
  mla.kv_rank = config.integer("attention.kv_lora_rank", 1, kMaxDim);
  mla.q_rank = config.integer_or("attention.q_lora_rank", 0, 0, kMaxDim);
  mla.norm_eps = traits.norm_eps;
  traits.head_dim = key;
  traits.kv_heads = traits.heads;
  traits.attention_scale = inverse_root(static_cast<double>(key));
  traits.rope = read_gguf_rope(config, mla.rope_dim, true);
  traits.rope.layout = RopeLayout::kInterleaved;
  traits.rope.magnitude = 1.f;  // yarn's factor goes into the softmax scale
  const double log_multiplier = config.positive_or("rope.scaling.yarn_log_multiplier", 0.0);
  const double mscale = yarn_mscale(config.positive_or("rope.scaling.factor", 1.0), 10.0 * log_multiplier);
  traits.attention_scale *= static_cast<float>(mscale * mscale);
}

void read_deepseek2_model(const GgufConfig& config, FamilyModel& model) {
  constexpr int64_t kSoftmax = 1;  // expert_gating_func
  read_deepseek2(config, model);
  ModelTraits& traits = model.traits;
  read_gguf_experts(config, traits);
  MoeTraits& moe = traits.moe;
  if (moe.experts == 0) return;
  moe.normalize = config.boolean_or("expert_weights_norm", false);
  read_gguf_expert_groups(config, moe);
  read_gguf_gating(config, kSoftmax, model);
}

void read_olmoe(const GgufConfig& config, FamilyModel& model) {
  ModelTraits& traits = model.traits;
  traits.rope = read_gguf_rope(config, traits.head_dim, true);
  traits.qk_norm_whole = true;
  traits.qkv_clip = static_cast<float>(config.positive_or("attention.clamp_kqv", 0.0));
  read_gguf_experts(config, traits);
  traits.moe.normalize = config.boolean_or("expert_weights_norm", false);
}

// Its converter permutes rows as llama's does; the format has no list of the layers without positions.
void read_smollm3(const GgufConfig& config, FamilyModel& model) {
  constexpr size_t kPeriod = 4;
  model.traits.rope = read_gguf_rope(config, model.traits.head_dim, true);
  model.traits.rope.layout = RopeLayout::kInterleaved;
  std::vector<LayerTraits>& layers = model.traits.layers;
  for (size_t i = 0; i < layers.size(); ++i) layers[i].rotate = (i + 1) % kPeriod != 0;
}

void read_cohere2(const GgufConfig& config, FamilyModel& model) {
  ModelTraits& traits = model.traits;
  read_layer_norms(config, traits);
  traits.norm_bias = false;
  traits.parallel_blocks = traits.shared_norm = true;
  traits.logit_scale = static_cast<float>(config.positive_or("logit_scale", 0.0625));
  traits.rope = read_gguf_rope(config, traits.head_dim, true);
  traits.rope.layout = RopeLayout::kInterleaved;  // as the model was trained: nothing is permuted
  set_periodic_windows(traits, config.integer("attention.sliding_window", 1, kMaxWindow),
      config.integer_or("attention.sliding_window_pattern", 4, 1, 4096));
  for (LayerTraits& layer : traits.layers) layer.rotate = layer.window > 0;
}

void read_starcoder2(const GgufConfig& config, FamilyModel& model) {
  ModelTraits& traits = model.traits;
  read_layer_norms(config, traits);
  traits.gated_mlp = false;
  traits.activation = Activation::kGeluTanh;
  traits.rope = read_gguf_rope(config, traits.head_dim, true);
  set_all_windows(traits, config.integer_or("attention.sliding_window", 0, 0, kMaxWindow));
}

// The converter has put the rows of queries, keys and values apart. Nothing names the activation: the
// family's default.
void read_gptneox(const GgufConfig& config, FamilyModel& model) {
  ModelTraits& traits = model.traits;
  read_layer_norms(config, traits);
  traits.gated_mlp = false;
  traits.activation = Activation::kGeluErf;
  traits.parallel_blocks = config.boolean_or("use_parallel_residual", true);
  traits.rope = read_gguf_rope(config, traits.head_dim, true);
  model.names.qkv = "attn_qkv";
}

constexpr std::array kArchitectures = {
    GgufArchitecture{"llama", "llama", read_llama},
    GgufArchitecture{"granite", "granite", read_granite},
    GgufArchitecture{"qwen2", "qwen2", read_qwen2},
    GgufArchitecture{"qwen3", "qwen3", read_qwen3},
    GgufArchitecture{"qwen3moe", "qwen3_moe", read_qwen3_moe},
    GgufArchitecture{"gemma2", "gemma2", read_gemma2},
    GgufArchitecture{"gemma3", "gemma3_text", read_gemma3},
    GgufArchitecture{"phi3", "phi3", read_phi3},
    GgufArchitecture{"olmo2", "olmo2", read_olmo2},
    GgufArchitecture{"gpt-oss", "gpt_oss", read_gpt_oss},
    GgufArchitecture{"gpt2", "gpt2", read_gpt2},
    GgufArchitecture{"deepseek2", "deepseek", read_deepseek2_model},
    GgufArchitecture{"glm4moe", "glm4_moe", read_gguf_glm4_moe},
    GgufArchitecture{"cohere2", "cohere2", read_cohere2},
    GgufArchitecture{"olmoe", "olmoe", read_olmoe},
    GgufArchitecture{"smollm3", "smollm3", read_smollm3},
    GgufArchitecture{"starcoder2", "starcoder2", read_starcoder2},
    GgufArchitecture{"gptneox", "gpt_neox", read_gptneox},
};

}  // namespace

std::span<const GgufArchitecture> gguf_architectures() { return kArchitectures; }

FamilyModel read_gguf_family(const GgufFile& file) {
  const GgufConfig config(file);
  std::string known;
  for (const GgufArchitecture& architecture : kArchitectures) {
    if (architecture.name == config.architecture()) {
      FamilyModel model = read_gguf_base(config);
      model.traits.family = architecture.family;
      architecture.refine(config, model);
      return model;
    }
    known += (known.empty() ? "" : ", ") + std::string(architecture.name);
  }
  throw Error(format("{}: unsupported architecture \"{}\"; supported: {}", file.name(),
      printable(config.architecture()), known));
}

}  // namespace cheetah
