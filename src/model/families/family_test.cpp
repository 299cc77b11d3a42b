// SPDX-License-Identifier: MIT
#include "model/families/family.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace cheetah {
namespace {

Json with(const char* text, const Json& changes = Json::object()) {
  Json config = Json::parse(text);
  config.merge_patch(changes);
  return config;
}

constexpr const char* kLlama =
    R"({"model_type": "llama", "vocab_size": 512, "hidden_size": 64, "intermediate_size": 128,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5})";

FamilyModel read(const Json& config) { return read_family(config, "config.json"); }

std::string error_of(const Json& config) {
  try {
    read(config);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Families, LlamaTakesDefaultsForWhatTheConfigLeavesOut) {
  const FamilyModel model = read(with(kLlama));
  EXPECT_EQ(model.traits.head_dim, 16);
  EXPECT_EQ(model.traits.kv_heads, 2);
  EXPECT_FLOAT_EQ(model.traits.attention_scale, 0.25f);
  EXPECT_FALSE(model.traits.tied_embeddings);
  EXPECT_EQ(model.names.qkv_bias, Presence::kNo);
  EXPECT_FLOAT_EQ(model.traits.rope.inv_freq[1], std::pow(10000.f, -0.125f));
}

TEST(Families, OldAndNewRopeFieldsMeanTheSame) {
  const Json scaling = {{"factor", 8.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0},
      {"original_max_position_embeddings", 64}};
  Json older = scaling, newer = scaling;
  older["type"] = "llama3";
  newer["rope_type"] = "llama3";
  newer["rope_theta"] = 500000.0;
  const auto a = read(with(kLlama, {{"rope_theta", 500000.0}, {"rope_scaling", older}}));
  const auto b = read(with(kLlama, {{"rope_parameters", newer}}));
  EXPECT_EQ(a.traits.rope.inv_freq, b.traits.rope.inv_freq);
  EXPECT_NE(a.traits.rope.inv_freq, read(with(kLlama, {{"rope_theta", 500000.0}})).traits.rope.inv_freq);
}

// As in transformers, where only some families turn a part of a head.
TEST(Families, LlamaTurnsWholeHeadsWhateverThePartialFactorSays) {
  EXPECT_EQ(read(with(kLlama, {{"partial_rotary_factor", 0.5}})).traits.rope.inv_freq.size(), 8u);
  const Json phi3 = with(kLlama, {{"model_type", "phi3"}, {"partial_rotary_factor", 0.5}});
  EXPECT_EQ(read(phi3).traits.rope.inv_freq.size(), 4u);
}

TEST(Families, MistralSlidesUnlessItsWindowIsNull) {
  const Json base = with(kLlama, {{"model_type", "mistral"}});
  EXPECT_EQ(read(base).traits.layers[1].window, 4096);
  Json none = base;
  none["sliding_window"] = nullptr;
  EXPECT_EQ(read(none).traits.layers[1].window, 0);
}

TEST(Families, QwenSlidesFromTheFirstWindowLayerOn) {
  const Json config =
      with(kLlama, {{"model_type", "qwen2"}, {"num_hidden_layers", 3}, {"use_sliding_window", true},
                       {"sliding_window", 8}, {"max_window_layers", 2}});
  const FamilyModel model = read(config);
  EXPECT_EQ(model.traits.layers[1].window, 0);
  EXPECT_EQ(model.traits.layers[2].window, 8);
  EXPECT_EQ(model.names.qkv_bias, Presence::kYes);
  EXPECT_EQ(model.names.o_bias, Presence::kNo);
}

TEST(Families, Qwen3MoePlacesExpertsByStepAndList) {
  const Json config =
      with(kLlama, {{"model_type", "qwen3_moe"}, {"num_hidden_layers", 4}, {"num_experts", 8},
                       {"num_experts_per_tok", 2}, {"decoder_sparse_step", 2}, {"mlp_only_layers", {3}}});
  const ModelTraits traits = read(config).traits;
  EXPECT_FALSE(traits.layers[0].moe);
  EXPECT_TRUE(traits.layers[1].moe);
  EXPECT_FALSE(traits.layers[3].moe);
}

TEST(Families, Gemma3ReadsTheTextPartAndBothRotaryBases) {
  Json text =
      with(kLlama, {{"model_type", "gemma3_text"}, {"num_hidden_layers", 6}, {"head_dim", 16},
                       {"rope_theta", 1e6}, {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}});
  const FamilyModel model = read(Json{{"model_type", "gemma3"}, {"text_config", text}});
  EXPECT_TRUE(model.traits.layers[0].local_rope);
  EXPECT_GT(model.traits.layers[0].window, 0);
  EXPECT_FALSE(model.traits.layers[5].local_rope);
  EXPECT_FLOAT_EQ(model.traits.rope.inv_freq[0], 0.125f);
  EXPECT_FLOAT_EQ(model.traits.local_rope.inv_freq[0], 1.f);
  EXPECT_EQ(model.names.roots.front(), "model.language_model.");
}

TEST(Families, Gemma3FillsInWhatPublishedConfigsLeaveOut) {
  const Json text = {{"model_type", "gemma3_text"}, {"hidden_size", 2560}, {"intermediate_size", 10240},
      {"num_hidden_layers", 34}, {"sliding_window", 1024}};
  const ModelTraits traits = read(Json{{"model_type", "gemma3"}, {"text_config", text}}).traits;
  EXPECT_EQ(traits.vocab, 262208);
  EXPECT_EQ(traits.heads, 8);
  EXPECT_EQ(traits.kv_heads, 4);
  EXPECT_EQ(traits.head_dim, 256);
  EXPECT_EQ(traits.layers[4].window, 1024);
  EXPECT_EQ(traits.layers[5].window, 0);
}

TEST(Families, Phi3LongropeUsesItsOwnOriginalContext) {
  Json config = with(kLlama, {{"model_type", "phi3"}, {"max_position_embeddings", 131072},
                                 {"original_max_position_embeddings", 4096}});
  config["rope_scaling"] = {{"type", "longrope"}, {"short_factor", std::vector<double>(8, 1.0)},
      {"long_factor", std::vector<double>(8, 2.0)}};
  const RopeTraits rope = read(config).traits.rope;
  EXPECT_EQ(rope.original_context, 4096);
  EXPECT_NEAR(rope.magnitude, std::sqrt(1 + std::log(32.0) / std::log(4096.0)), 1e-6);
}

TEST(Families, DeepseekV3CorrectsTheSoftmaxScaleForYarn) {
  Json config =
      with(kLlama, {{"model_type", "deepseek_v3"}, {"n_routed_experts", 8}, {"n_group", 2}, {"topk_group", 1},
                       {"num_experts_per_tok", 2}, {"qk_nope_head_dim", 48}, {"qk_rope_head_dim", 16}});
  config["q_lora_rank"] = nullptr;
  const ModelTraits plain = read(config).traits;
  EXPECT_EQ(plain.mla.q_rank, 0);
  EXPECT_FLOAT_EQ(plain.attention_scale, 0.125f);
  config["rope_scaling"] = {{"type", "yarn"}, {"factor", 40}, {"mscale", 1.0}, {"mscale_all_dim", 1.0},
      {"original_max_position_embeddings", 4096}};
  const ModelTraits scaled = read(config).traits;
  const double mscale = 0.1 * std::log(40.0) + 1;
  EXPECT_NEAR(scaled.attention_scale, 0.125 * mscale * mscale, 1e-6);
  EXPECT_FLOAT_EQ(scaled.rope.magnitude, 1.f);
}

TEST(Families, Gpt2CanScaleAttentionByLayer) {
  const ModelTraits traits = read(
      Json{{"model_type", "gpt2"}, {"vocab_size", 100}, {"n_embd", 64}, {"n_head", 4}, {"n_layer", 3},
          {"scale_attn_by_inverse_layer_idx", true},
          {"activation_function",
              "relu"}}).traits;
  EXPECT_FLOAT_EQ(traits.layers[2].attention_factor, 1.f / 3.f);
  EXPECT_EQ(traits.activation, Activation::kRelu);
  EXPECT_EQ(traits.ffn, 256);
}

TEST(Families, Glm4MoeTurnsHalfOfAHeadAndHasOneDenseLayerWhereNothingSaysOtherwise) {
  const Json config = with(kLlama, {{"model_type", "glm4_moe"}, {"n_routed_experts", 8},
                                       {"num_experts_per_tok", 2}, {"attention_bias", true}});
  const FamilyModel model = read(config);
  EXPECT_EQ(model.traits.rope.inv_freq.size(), 4u);  // 8 of 16 dimensions
  EXPECT_FALSE(model.traits.layers[0].moe);
  EXPECT_TRUE(model.traits.layers[1].moe);
  EXPECT_EQ(model.traits.moe.score, RouterScore::kSigmoid);
  EXPECT_EQ(model.traits.moe.shared_hidden, 1408);
  EXPECT_FALSE(model.traits.qk_norm);
  EXPECT_EQ(model.names.qkv_bias, Presence::kYes);
  EXPECT_EQ(model.names.o_bias, Presence::kNo);
  EXPECT_TRUE(read(with(kLlama, {{"model_type", "glm4_moe"}, {"use_qk_norm", true}})).traits.qk_norm);
}

TEST(Families, Cohere2GivesPositionsToSlidingLayersOnly) {
  const Json base =
      with(kLlama, {{"model_type", "cohere2"}, {"num_hidden_layers", 4}, {"sliding_window", 8}});
  const ModelTraits traits = read(base).traits;
  for (const size_t layer : {0u, 1u, 2u, 3u}) {
    EXPECT_EQ(traits.layers[layer].window, layer == 3 ? 0 : 8) << layer;
    EXPECT_EQ(traits.layers[layer].rotate, layer != 3) << layer;
  }
  EXPECT_TRUE(traits.parallel_blocks && traits.shared_norm && traits.tied_embeddings);
  EXPECT_FALSE(norms_have_bias(traits));
  EXPECT_FLOAT_EQ(traits.logit_scale, 0.0625f);
  EXPECT_EQ(traits.rope.layout, RopeLayout::kInterleaved);
  Json listed = base;
  listed["layer_types"] = {"full_attention", "sliding_attention", "full_attention", "full_attention"};
  EXPECT_TRUE(read(listed).traits.layers[1].rotate);
  EXPECT_FALSE(read(listed).traits.layers[2].rotate);
  EXPECT_TRUE(
      read(with(kLlama, {{"model_type", "cohere2"}, {"sliding_window_pattern", 2}})).traits.layers[0].rotate);
}

TEST(Families, OlmoeClipsQueriesKeysAndValuesOnlyWhereAsked) {
  const Json base = with(
      kLlama, {{"model_type", "olmoe"}, {"num_experts", 4}, {"num_experts_per_tok", 2}, {"clip_qkv", 1.5}});
  EXPECT_FLOAT_EQ(read(base).traits.qkv_clip, 1.5f);
  EXPECT_FALSE(read(base).traits.moe.normalize);
  EXPECT_TRUE(read(base).traits.qk_norm_whole);
  Json none = base;
  none["clip_qkv"] = nullptr;
  EXPECT_EQ(read(none).traits.qkv_clip, 0.f);
}

TEST(Families, Smollm3LeavesEveryFourthLayerWithoutPositions) {
  const Json base = with(kLlama, {{"model_type", "smollm3"}, {"num_hidden_layers", 5}});
  const ModelTraits traits = read(base).traits;
  EXPECT_TRUE(traits.layers[2].rotate);
  EXPECT_FALSE(traits.layers[3].rotate);
  EXPECT_TRUE(traits.layers[4].rotate);
  EXPECT_FLOAT_EQ(traits.rope.inv_freq[1], std::pow(2e6f, -0.125f));
  Json listed = base;
  listed["no_rope_layers"] = {1, 0, 0, 1, 1, 0};  // one more than there are layers
  listed["use_sliding_window"] = true;
  listed["sliding_window"] = 8;
  const ModelTraits other = read(listed).traits;
  EXPECT_FALSE(other.layers[1].rotate);
  EXPECT_EQ(other.layers[1].window, 8);
  EXPECT_EQ(other.layers[3].window, 0);
}

TEST(Families, Starcoder2HasBiasesEverywhereOrNowhereInItsMatrices) {
  const Json base = with(kLlama, {{"model_type", "starcoder2"}, {"norm_epsilon", 0.5}});
  const FamilyModel biased = read(base);
  EXPECT_EQ(biased.names.mlp_bias, Presence::kYes);
  EXPECT_FALSE(biased.traits.gated_mlp);
  EXPECT_FLOAT_EQ(biased.traits.norm_eps, 0.5f);
  EXPECT_EQ(biased.traits.activation, Activation::kGeluTanh);
  const FamilyModel plain = read(with(kLlama, {{"model_type", "starcoder2"}, {"use_bias", false}}));
  EXPECT_EQ(plain.names.o_bias, Presence::kNo);
  EXPECT_TRUE(norms_have_bias(plain.traits));
}

TEST(Families, GptNeoxReadsItsOwnNamesOfTheRotaryFields) {
  Json config = with(kLlama, {{"model_type", "gpt_neox"}, {"rotary_pct", 0.5}, {"rotary_emb_base", 5000}});
  config.erase("num_key_value_heads");
  const FamilyModel model = read(config);
  EXPECT_EQ(model.traits.rope.inv_freq.size(), 4u);  // 8 of 16 dimensions
  EXPECT_FLOAT_EQ(model.traits.rope.inv_freq[1], std::pow(5000.f, -0.25f));
  EXPECT_TRUE(model.traits.parallel_blocks);
  EXPECT_FALSE(model.traits.shared_norm);
  EXPECT_TRUE(model.names.qkv_by_head);
  config["use_parallel_residual"] = false;
  config["rope_parameters"] = {{"rope_type", "default"}, {"partial_rotary_factor", 1.0}};
  EXPECT_FALSE(read(config).traits.parallel_blocks);
  EXPECT_EQ(read(config).traits.rope.inv_freq.size(), 8u);
}

TEST(Families, NullKeyAndValueHeadsAreAsManyAsHeads) {
  Json config = with(kLlama, {{"model_type", "mistral"}, {"num_attention_heads", 4}});
  config["num_key_value_heads"] = nullptr;
  EXPECT_EQ(read(config).traits.kv_heads, 4);
}

TEST(Families, AnUnknownModelTypeListsTheKnownOnes) {
  const std::string message = error_of(with(kLlama, {{"model_type", "mamba"}}));
  EXPECT_EQ(message.find("config.json: unsupported architecture \"mamba\"; supported: llama, mistral"), 0u)
      << message;
}

TEST(Families, ABadFieldIsNamedWithItsValueAndItsRule) {
  struct Case {
    Json changes;
    std::string field;
    std::string value;
  };
  const std::vector<Case> cases = {
      {{{"num_attention_heads", 0}}, "num_attention_heads", "0"},
      {{{"num_key_value_heads", 3}}, "num_key_value_heads", "3"},
      {{{"head_dim", 0}}, "head_dim", "0"},
      {{{"num_hidden_layers", -1}}, "num_hidden_layers", "-1"},
      {{{"num_hidden_layers", 1e9}}, "num_hidden_layers", "1000000000"},
      {{{"vocab_size", int64_t{1} << 31}}, "vocab_size", "2147483648"},
      {{{"hidden_size", 65}}, "hidden_size", "65"},
      {{{"hidden_size", "64"}}, "hidden_size", "\"64\""},
      {{{"hidden_size", nullptr}}, "hidden_size", "missing"},
      {{{"rope_theta", 0}}, "rope_theta", "0"},
      {{{"rope_theta", -5.0}}, "rope_theta", "-5.0"},
      {{{"rms_norm_eps", 0.0}}, "rms_norm_eps", "0.0"},
      {{{"hidden_act", "mish"}}, "hidden_act", "\"mish\""},
      {{{"rope_scaling", {{"rope_type", "spiral"}}}}, "rope_type", "\"spiral\""},
      {{{"rope_scaling", {{"rope_type", "linear"}}}}, "factor", "missing"},
      {{{"rope_scaling", 5}}, "rope", "expected a JSON object"},
      {{{"rope_scaling", {{"rope_type", "longrope"}, {"short_factor", {1.0}}}}}, "short_factor",
          "a list of 8"},
      {{{"quantization_config", {{"quant_method", "exl2"}}}}, "quant_method", "\"exl2\""},
      {{{"model_type", "mixtral"}, {"num_local_experts", 4}, {"num_experts_per_tok", 5}},
          "num_experts_per_tok", "5"},
      {{{"model_type", "gemma2"}, {"layer_types", {"full_attention"}}}, "layer_types", "full_attention"},
      {{{"model_type", "deepseek_v3"}, {"n_routed_experts", 8}, {"n_group", 3}}, "n_group", "3"},
      {{{"model_type", "deepseek_v2"}, {"topk_method", "noaux_tc"}}, "topk_method", "noaux_tc"},
      {{{"model_type", "glm4_moe"}, {"n_routed_experts", 8}, {"n_group", 3}}, "n_group", "3"},
      {{{"model_type", "glm4_moe"}, {"n_routed_experts", 8}, {"n_group", 4}}, "num_experts_per_tok",
          "absent"},
      {{{"model_type", "cohere2"}, {"use_qk_norm", true}}, "use_qk_norm", "true"},
      {{{"model_type", "cohere2"}, {"use_parallel_block", false}}, "use_parallel_block", "false"},
      {{{"model_type", "cohere2"}, {"sliding_window", 0}}, "sliding_window", "0"},
      {{{"model_type", "olmoe"}, {"clip_qkv", -1.0}}, "clip_qkv", "-1.0"},
      {{{"model_type", "smollm3"}, {"no_rope_layers", {1}}}, "no_rope_layers", "[1]"},
      {{{"model_type", "smollm3"}, {"no_rope_layers", {1, 2}}}, "no_rope_layers", "[1,2]"},
      {{{"model_type", "smollm3"}, {"layer_types", {"sliding_attention", "full_attention"}}},
          "sliding_window", "absent"},
      {{{"model_type", "starcoder2"}, {"mlp_type", "gated"}}, "mlp_type", "\"gated\""},
      {{{"model_type", "gpt_neox"}, {"num_key_value_heads", 4}, {"rotary_pct", 1.5}}, "rotary",
          "24 rotary dimensions of 16"},
      {{{"model_type", "gpt_neox"}}, "num_key_value_heads", "2"},
      {{{"partial_rotary_factor", 0.5}, {"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}}},
          "partial_rotary_factor", "0.5"},
  };
  for (const Case& item : cases) {
    const std::string message = error_of(with(kLlama, item.changes));
    EXPECT_EQ(message.find("config.json"), 0u) << message;
    EXPECT_NE(message.find(item.field), std::string::npos) << message;
    EXPECT_NE(message.find(item.value), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace cheetah
