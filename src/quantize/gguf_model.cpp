// SPDX-License-Identifier: MIT
#include "quantize/gguf_model.h"

#include <array>
#include <cmath>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

using Role = GgufTensorSource::Role;

struct Architecture {
  std::string_view model_type;
  std::string_view name;
  bool pairs_rotary = false;  // llama.cpp turns neighbouring dimensions, Hugging Face the two halves
};

constexpr std::array kArchitectures = {Architecture{"llama", "llama", true},
    Architecture{"mistral", "llama", true}, Architecture{"mixtral", "llama", true},
    Architecture{"granite", "granite", true}, Architecture{"qwen2", "qwen2"}, Architecture{"qwen3", "qwen3"},
    Architecture{"qwen3_moe", "qwen3moe"}, Architecture{"olmo2", "olmo2"}};

const Architecture& architecture_of(const SourceModel& source) {
  std::string known;
  for (const Architecture& one : kArchitectures) {
    if (one.model_type == source.family().traits.family) return one;
    known += (known.empty() ? "" : ", ") + std::string(one.model_type);
  }
  throw Error(format("{}: a \"{}\" model is not written to GGUF; those that are: {}", source.path(),
      source.family().traits.family, known));
}

std::string indexed(const std::string& pattern, int64_t index) {
  const size_t at = pattern.find("{}");
  return at == std::string::npos ? pattern
                                 : pattern.substr(0, at) + std::to_string(index) + pattern.substr(at + 2);
}

class HuggingFaceConverter {
 public:
  explicit HuggingFaceConverter(const SourceModel& source)
      : source_(source),
        traits_(source.family().traits),
        names_(source.family().names),
        config_(source.checkpoint().config()),
        architecture_(architecture_of(source)) {}

  GgufModel run() {
    put_sizes();
    put_rope();
    put_experts();
    put_gguf_tokenizer(source_, model_.metadata);
    whole(root() + names_.embedding, "token_embd", Role::kEmbedding);
    whole(root() + names_.final_norm, "output_norm", Role::kPlain);
    for (const std::string& head : names_.heads)
      if (!traits_.tied_embeddings && source_.has(head + ".weight")) whole(head, "output", Role::kOutput);
    for (int64_t layer = 0; layer < std::ssize(traits_.layers); ++layer) put_layer(layer);
    return std::move(model_);
  }

 private:
  std::string root() const {
    for (const std::string& root : names_.roots)
      if (source_.has(root + names_.embedding + ".weight")) return root;
    return names_.roots.front();
  }
  std::string key(const char* name) const { return format("{}.{}", architecture_.name, name); }

  void put_sizes() {
    GgufMetadata& meta = model_.metadata;
    meta.text("general.architecture", architecture_.name);
    meta.text("general.name", model_name(source_.path()));
    meta.count("general.quantization_version", 2);
    meta.count(key("context_length"), traits_.max_positions);
    meta.count(key("embedding_length"), traits_.hidden);
    meta.count(key("block_count"), std::ssize(traits_.layers));
    meta.count(key("feed_forward_length"), traits_.ffn);
    meta.count(key("attention.head_count"), traits_.heads);
    meta.count(key("attention.head_count_kv"), traits_.kv_heads);
    meta.count(key("attention.key_length"), traits_.head_dim);
    meta.count(key("attention.value_length"), traits_.head_dim);
    meta.number(key("attention.layer_norm_rms_epsilon"), static_cast<double>(traits_.norm_eps));
    meta.count(key("vocab_size"), traits_.vocab);
    if (architecture_.name != "granite") return;
    meta.number(key("embedding_scale"), static_cast<double>(traits_.embedding_scale));
    meta.number(key("residual_scale"), static_cast<double>(traits_.residual_scale));
    meta.number(key("attention.scale"), static_cast<double>(traits_.attention_scale));
    meta.number(key("logit_scale"), 1.0 / static_cast<double>(traits_.logit_scale));
  }

  // rope_parameters of newer configs, rope_scaling and rope_theta of older ones.
  Json rope_fields() const {
    for (const char* field : {"rope_parameters", "rope_scaling"})
      if (const auto at = config_.find(field); at != config_.end() && at->is_object()) return *at;
    return Json::object();
  }

  void put_rope() {
    const Json rope = rope_fields();
    GgufMetadata& meta = model_.metadata;
    const double theta = rope.value("rope_theta", config_.value("rope_theta", 10000.0));
    meta.number(key("rope.freq_base"), theta);
    meta.count(key("rope.dimension_count"), 2 * std::ssize(traits_.rope.inv_freq));
    const std::string kind = rope.value("rope_type", rope.value("type", std::string("default")));
    if (kind == "linear" || kind == "yarn") {
      meta.text(key("rope.scaling.type"), kind);
      meta.number(key("rope.scaling.factor"), rope.value("factor", 1.0));
    }
    if (kind == "yarn")
      meta.count(key("rope.scaling.original_context_length"),
          rope.value("original_max_position_embeddings", traits_.max_positions));
    if (kind == "llama3") put_frequency_factors(theta);
    if (kind != "linear" && kind != "yarn" && kind != "llama3" && kind != "default")
      throw Error(format("{}: rope scaling \"{}\" is not written to GGUF", source_.path(), printable(kind)));
    for (const LayerTraits& layer : traits_.layers)
      if (layer.window > 0 && !meta.has(key("attention.sliding_window")))
        meta.count(key("attention.sliding_window"), layer.window);
  }

  void put_frequency_factors(double theta) {
    GgufTensorSource factors{.name = "rope_freqs.weight", .role = Role::kPlain};
    const auto half = std::ssize(traits_.rope.inv_freq);
    for (int64_t i = 0; i < half; ++i) {
      const double plain = std::pow(theta, -static_cast<double>(i) / static_cast<double>(half));
      factors.numbers.push_back(
          static_cast<float>(plain / static_cast<double>(traits_.rope.inv_freq[static_cast<size_t>(i)])));
    }
    factors.shape = {half};
    model_.tensors.push_back(std::move(factors));
  }

  void put_experts() {
    const MoeTraits& moe = traits_.moe;
    if (moe.experts == 0) return;
    model_.metadata.count(key("expert_count"), moe.experts);
    model_.metadata.count(key("expert_used_count"), moe.top_k);
    model_.metadata.count(key("expert_feed_forward_length"), moe.expert_hidden);
  }

  GgufTensorSource& add(
      const std::string& name, Role role, std::vector<std::string> parts, const Shape& shape) {
    const LinearTensor* linear = parts.empty() ? nullptr : source_.linear(parts.front());
    model_.tensors.push_back(
        {.name = name, .role = role, .shape = shape, .parts = std::move(parts), .linear = linear});
    return model_.tensors.back();
  }

  // A tensor that is taken as it is, with its bias where it has one.
  void whole(const std::string& from, const std::string& to, Role role, int64_t paired_heads = 0) {
    for (const char* part : {".weight", ".bias"}) {
      if (!source_.has(from + part)) continue;
      const bool is_weight = part[1] == 'w';
      add(to + part, is_weight ? role : Role::kPlain, {from + part}, source_.tensor(from + part).shape)
          .paired_heads = paired_heads;
    }
  }

  void put_layer(int64_t layer) {
    const std::string from = source_.layer_root(layer), to = format("blk.{}.", layer);
    const bool pairs = architecture_.pairs_rotary;
    const auto norm = [&](const std::string& name, const char* target) {
      if (!name.empty()) whole(from + name, to + target, Role::kPlain);
    };
    norm(names_.attention_in, "attn_norm");
    norm(names_.attention_out, "post_attention_norm");
    norm(names_.mlp_in, "ffn_norm");
    norm(names_.mlp_out, "post_ffw_norm");
    if (traits_.qk_norm || traits_.qk_norm_whole)
      norm(names_.q_norm, "attn_q_norm"), norm(names_.k_norm, "attn_k_norm");
    whole(from + names_.q, to + "attn_q", Role::kMatrix, pairs ? traits_.heads : 0);
    whole(from + names_.k, to + "attn_k", Role::kMatrix, pairs ? traits_.kv_heads : 0);
    whole(from + names_.v, to + "attn_v", Role::kMatrix);
    whole(from + names_.o, to + "attn_output", Role::kMatrix);
    if (traits_.layers[static_cast<size_t>(layer)].moe) {
      put_moe(from, to);
      return;
    }
    whole(from + names_.gate, to + "ffn_gate", Role::kMatrix);
    whole(from + names_.up, to + "ffn_up", Role::kMatrix);
    whole(from + names_.down, to + "ffn_down", Role::kMatrix);
  }

  void put_moe(const std::string& layer, const std::string& to) {
    std::string from = layer + names_.moe_roots.front();
    for (const std::string& root : names_.moe_roots)
      if (source_.has(layer + root + names_.router + ".weight")) from = layer + root;
    whole(from + names_.router, to + "ffn_gate_inp", Role::kPlain);
    const MoeTraits& moe = traits_.moe;
    const Shape in{moe.experts, moe.expert_hidden, traits_.hidden},
        out{moe.experts, traits_.hidden, moe.expert_hidden};
    if (!names_.experts_gate_up.empty() && source_.has(from + names_.experts_gate_up)) {
      for (const int64_t half : {0, 1}) {
        GgufTensorSource& part = add(to + (half ? "ffn_up_exps.weight" : "ffn_gate_exps.weight"),
            Role::kMatrix, {from + names_.experts_gate_up}, in);
        part.first_row = half * moe.expert_hidden;
        part.rows = moe.expert_hidden;
      }
      add(to + "ffn_down_exps.weight", Role::kMatrix, {from + names_.experts_down}, out);
      return;
    }
    const auto stack = [&](const std::string& role, const char* target, const Shape& shape) {
      std::vector<std::string> parts;
      for (int64_t e = 0; e < moe.experts; ++e)
        parts.push_back(from + indexed(names_.expert + role, e) + ".weight");
      add(to + target, Role::kMatrix, std::move(parts), shape).linear = nullptr;
    };
    stack(names_.expert_gate, "ffn_gate_exps.weight", in);
    stack(names_.expert_up, "ffn_up_exps.weight", in);
    stack(names_.expert_down, "ffn_down_exps.weight", out);
  }

  const SourceModel& source_;
  const ModelTraits& traits_;
  const WeightNames& names_;
  const Json& config_;
  const Architecture& architecture_;
  GgufModel model_;
};

GgufModel copy_gguf(const SourceModel& source) {
  const GgufFile& file = *source.checkpoint().gguf();
  GgufModel model;
  for (const auto& [key, value] : file.metadata()) {
    const bool own = key == "general.file_type" || key == "general.alignment" || key.starts_with("split.") ||
                     key.starts_with("cheetah.");
    if (!own) model.metadata.copy(key, value);
  }
  for (const auto& [name, view] : source.tensors()) {
    GgufTensorSource tensor{.name = name,
        .role = Role::kPlain,
        .shape = view.shape,
        .parts = {name},
        .linear = source.linear(name)};
    const bool router = name.find("ffn_gate_inp") != std::string::npos;
    if (name == "token_embd.weight")
      tensor.role = Role::kEmbedding;
    else if (name == "output.weight")
      tensor.role = Role::kOutput;
    else if (view.shape.rank() >= 2 && !router && source.layer_of(name) >= 0)
      tensor.role = Role::kMatrix;
    model.tensors.push_back(std::move(tensor));
  }
  return model;
}

}  // namespace

GgufModel describe_gguf(const SourceModel& source) {
  return source.checkpoint().gguf() ? copy_gguf(source) : HuggingFaceConverter(source).run();
}

}  // namespace cheetah
