// SPDX-License-Identifier: MIT
// What a layer computes from what, and in which order: an Ops that writes down what it is asked.
#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "kernels/activation/activation.h"
#include "kernels/attention/attention.h"
#include "kernels/norm/norm.h"
#include "model/transformer.h"

namespace cheetah {
namespace {

struct RecordedStep {
  int64_t rows = 2, wanted = 2, logit_rows = 2;
  int64_t num_rows() const { return rows; }
  int64_t num_wanted() const { return wanted; }
  int64_t num_logits() const { return logit_rows; }
  bool wants_all_rows() const { return wanted == rows; }
};

struct RecordedRoutes {
  int64_t count = 0;
};

struct AddAndNormRows {
  const float* branch = nullptr;
  float* x = nullptr;
  float* y = nullptr;
  int64_t rows = 0, cols = 0;
  bool centered = false, post_norm = false;
  const float *branch_weight = nullptr, *branch_bias = nullptr;
  float scale = 1.f;
  const float *weight = nullptr, *bias = nullptr;
  float eps = 0.f, weight_offset = 0.f;
};

// Weights are known by where they lie; nothing is read or computed. kFuses: what a device does in one launch.
template <bool kFuses>
class RecordingOps {
 public:
  using Number = float;
  using Scratch = std::vector<float>;
  using Step = RecordedStep;
  using Routes = RecordedRoutes;
  using NormArgs = cheetah::NormArgs;
  using GatedArgs = cheetah::GatedArgs;
  using AttentionArgs = cheetah::AttentionArgs;
  template <class Y>
  using GemmArgs = cheetah::GemmArgs;
  static constexpr bool kAddsInProducts = kFuses;
  static constexpr bool kGatesInProducts = kFuses;
  static constexpr bool kAddsAndNorms = kFuses;
  struct Tables {
    std::string k_up = "k_up", v_up = "v_up", gate_up = "gate_up", gate = "gate", up = "up", down = "down";
  };

  explicit RecordingOps(const std::map<const void*, std::string>& names) : names_(names) {}
  const std::string& log() const { return log_; }

  template <class N = float>
  N* take(std::vector<float>& scratch, int64_t count) {
    scratch.resize(static_cast<size_t>(count));
    return scratch.data();
  }
  Tables tables(size_t) const { return {}; }
  void embed_tokens(const Step&, const WeightMatrix&, float, float*) { note("embed"); }
  void embed_positions(const Step&, const WeightMatrix&, float*) { note("embed_positions"); }
  void gemm(const cheetah::GemmArgs& args, Finish finish) {
    note(name_of(args.w.data) + (finish.gated ? "+gate" : "") + (finish.adds ? "+add" : "") +
             (finish.exact ? "+exact" : ""),
        args.m);
  }
  void rms_norm(const NormArgs& args) { note("norm:" + name_of(args.weight), args.rows); }
  void layer_norm(const NormArgs& args) { note("layer_norm:" + name_of(args.weight), args.rows); }
  void add_scaled(const float*, float, float*, int64_t) { note("add"); }
  void clip(float*, float, int64_t count) { note("clip", count); }
  void add_and_norm(const AddAndNormRows& args) {
    note("add" + (args.post_norm ? "+" + name_of(args.branch_weight) : "") +
         (args.y ? "+" + name_of(args.weight) : ""));
  }
  void copy_rows(int64_t, int64_t, Rows<const float>, Rows<float>) { note("copy"); }
  void copy_wanted(const Step&, const float*, float*, int64_t) { note("pick"); }
  void keep_hidden(const Step&, const float*) { note("hidden"); }
  float* logits(const Step&) { return nullptr; }
  void finish_logits(float*, int64_t, float, float) { note("finish_logits"); }
  bool finish_qkv(const Step&, size_t, const Qkv<float>&, const QkvFinish& finish) {
    if (kFuses) note(finish.q_norm ? "finish_qkv+norms" : "finish_qkv");
    return kFuses;
  }
  void rotate(const Step&, const HeadRows<float>&, int64_t heads, bool) { note("rotate", heads); }
  void write_kv(const Step&, size_t, Rows<const float>, Rows<const float>) { note("write_kv"); }
  AttentionArgs attention_args(const Step&, size_t) const { return {.kv = {}, .sequences = {}}; }
  void attention(const AttentionArgs&) { note("attention"); }
  void multiply_heads(const std::string& w, int64_t, const HeadRows<const float>&, const HeadRows<float>&) {
    note(w);
  }
  void activate(Activation, float*, int64_t) { note("activate"); }
  void gated_activation(const GatedArgs&) { note("gate"); }
  void clamped_swiglu(const ClampedSwigluArgs&) { note("clamped"); }
  RecordedRoutes route(const RouterArgs& args) {
    note("route");
    return {args.tokens * args.top_k};
  }
  void gather_rows(const Routes& routes, const float*, float*) { note("gather", routes.count); }
  void multiply_experts(const std::string& w, const Routes&, Rows<const float>, Rows<float>, Finish finish) {
    note("experts:" + w + (finish.gated ? "+gate" : ""));
  }
  void fill_zero(float*, int64_t) { note("zero"); }
  void combine_experts(const Routes&, int64_t, const float*, float*) { note("combine"); }

 private:
  std::string name_of(const void* data) const { return names_.at(data); }
  void note(const std::string& what) { log_ += (log_.empty() ? "" : " ") + what; }
  // How many rows or heads, where it is not the two that steps here have.
  void note(const std::string& what, int64_t count) {
    note(count == 2 ? what : what + "*" + std::to_string(count));
  }
  const std::map<const void*, std::string>& names_;
  std::string log_;
};

// Two heads of queries and one of keys, one layer.
struct TinyModel {
  ModelTraits traits;
  ModelWeights weights;
  std::deque<float> marks;  // what the weights point to
  std::map<const void*, std::string> names;

  const float* mark(const std::string& name) {
    const float* at = &marks.emplace_back();
    names[at] = name;
    return at;
  }
  WeightMatrix matrix(const std::string& name, int64_t rows, int64_t cols) {
    return {.rows = rows, .cols = cols, .data = reinterpret_cast<const std::byte*>(mark(name))};
  }
  MlpWeights mlp(const std::string& prefix, bool gated) {
    MlpWeights w;
    w.up.w = matrix(prefix + "up", 12, 8);
    w.down.w = matrix(prefix + "down", 8, 12);
    if (!gated) return w;
    w.gate.w = matrix(prefix + "gate", 12, 8);
    w.gate_up.w = matrix(prefix + "gate_up", 24, 8);
    return w;
  }

  TinyModel() {
    traits.vocab = 16, traits.hidden = 8, traits.ffn = 12;
    traits.heads = 2, traits.kv_heads = 1, traits.head_dim = 4;
    traits.layers.resize(1);
    LayerWeights& w = weights.layers.emplace_back();
    w.attention_in.weight = mark("in"), w.attention_out.weight = mark("out");
    w.mlp_in.weight = mark("mlp_in"), w.mlp_out.weight = mark("mlp_out");
    w.attention.qkv.w = matrix("qkv", 16, 8), w.attention.o.w = matrix("o", 8, 8);
    w.attention.q_norm.weight = mark("q_norm"), w.attention.k_norm.weight = mark("k_norm");
    w.mlp = mlp("", true);
    weights.final_norm.weight = mark("final");
    weights.head.w = matrix("head", 16, 8);
  }
  LayerWeights& layer() { return weights.layers.front(); }
  AttentionWeights& attention() { return layer().attention; }

  template <bool kFuses>
  std::string run(const RecordedStep& step) const {
    RecordingOps<kFuses> ops(names);
    Transformer<RecordingOps<kFuses>>(traits, weights, ops).run(step);
    return ops.log();
  }
  std::string by_steps(const RecordedStep& step = {}) const { return run<false>(step); }
  std::string fused(const RecordedStep& step = {}) const { return run<true>(step); }
};

TEST(Transformer, OrdersADenseLayer) {
  const TinyModel model;
  EXPECT_EQ(model.by_steps(),
      "embed norm:in qkv rotate rotate*1 write_kv attention o add norm:mlp_in gate_up gate down add "
      "norm:final hidden head");
  EXPECT_EQ(model.fused(),
      "embed norm:in qkv finish_qkv attention o+add norm:mlp_in gate_up+gate down+add norm:final hidden head");
}

TEST(Transformer, MultipliesByPartsThatLieApart) {
  TinyModel model;
  model.attention().qkv = {};
  model.attention().q.w = model.matrix("q", 8, 8);
  model.attention().k.w = model.matrix("k", 4, 8);
  model.attention().v.w = model.matrix("v", 4, 8);
  model.layer().mlp.gate_up = {};
  EXPECT_EQ(model.fused(),
      "embed norm:in q k v finish_qkv attention o+add norm:mlp_in gate up gate down+add norm:final hidden head");
}

TEST(Transformer, NormalizesQueriesAndKeysBeforeTheyTurn) {
  TinyModel model;
  model.traits.qk_norm = true;
  EXPECT_TRUE(model.by_steps().starts_with(
      "embed norm:in qkv norm:q_norm norm:k_norm rotate rotate*1 write_kv attention"));
  EXPECT_TRUE(model.fused().starts_with("embed norm:in qkv finish_qkv+norms attention"));
  model.traits.qk_norm_whole = true;
  EXPECT_TRUE(model.fused().starts_with("embed norm:in qkv norm:q_norm norm:k_norm finish_qkv attention"));
  model.traits.layers.front().rotate = false;
  EXPECT_TRUE(model.by_steps().starts_with("embed norm:in qkv norm:q_norm norm:k_norm write_kv attention"));
}

TEST(Transformer, ClipsQueriesKeysAndValuesAtOnceAfterTheirNorms) {
  TinyModel model;
  model.traits.qk_norm_whole = true;
  model.traits.qkv_clip = 1.f;
  EXPECT_TRUE(
      model.fused().starts_with("embed norm:in qkv norm:q_norm norm:k_norm clip*32 finish_qkv attention"));
}

TEST(Transformer, BranchesThatAreNormalizedOrScaledDoNotGoStraightIntoTheStream) {
  TinyModel model;
  model.traits.post_norm = true;
  EXPECT_EQ(model.by_steps(),
      "embed norm:in qkv rotate rotate*1 write_kv attention o norm:out add norm:mlp_in gate_up gate down "
      "norm:mlp_out add norm:final hidden head");
  EXPECT_EQ(model.fused(),
      "embed norm:in qkv finish_qkv attention o add+out+mlp_in gate_up+gate down add+mlp_out+final hidden head");
  model.traits.pre_norm = false;
  EXPECT_EQ(model.fused(),
      "embed qkv finish_qkv attention o add+out gate_up+gate down add+mlp_out+final hidden head");
  model.traits.pre_norm = true, model.traits.post_norm = false, model.traits.residual_scale = 0.5f;
  EXPECT_EQ(model.fused(),
      "embed norm:in qkv finish_qkv attention o add+mlp_in gate_up+gate down add+final hidden head");
}

TEST(Transformer, ParallelBlocksBothReadTheLayersInput) {
  TinyModel model;
  model.traits.parallel_blocks = true;
  EXPECT_EQ(model.fused(),
      "embed norm:in qkv finish_qkv attention norm:mlp_in o+add gate_up+gate down+add norm:final hidden head");
  model.traits.shared_norm = true;
  EXPECT_EQ(model.fused(),
      "embed norm:in qkv finish_qkv attention o+add gate_up+gate down+add norm:final hidden head");
  EXPECT_EQ(model.by_steps(),
      "embed norm:in qkv rotate rotate*1 write_kv attention o add gate_up gate down add norm:final hidden head");
  EXPECT_EQ(model.fused({.wanted = 1, .logit_rows = 1}),
      "embed norm:in qkv finish_qkv attention pick pick norm:in*1 o+add*1 gate_up+gate*1 down+add*1 "
      "norm:final*1 hidden head*1");
}

TEST(Transformer, GoesOnWithTheWantedRowsAfterTheLastAttention) {
  const TinyModel model;
  EXPECT_EQ(model.fused({.wanted = 1, .logit_rows = 1}),
      "embed norm:in qkv finish_qkv attention pick pick o+add*1 norm:mlp_in*1 gate_up+gate*1 down+add*1 "
      "norm:final*1 hidden head*1");
  EXPECT_EQ(model.fused({.wanted = 3, .logit_rows = 0}),
      "embed norm:in qkv finish_qkv attention pick pick o+add*3 norm:mlp_in*3 gate_up+gate*3 down+add*3 "
      "norm:final*3 hidden");
  EXPECT_EQ(model.fused({.wanted = 0, .logit_rows = 0}), "embed norm:in qkv finish_qkv attention pick pick");
}

TEST(Transformer, OrdersExpertsAndWhatAllRowsShare) {
  TinyModel model;
  model.traits.layers.front().moe = true;
  MoeTraits& moe = model.traits.moe;
  moe.experts = 4, moe.top_k = 2, moe.expert_hidden = 6, moe.shared_hidden = 12;
  MoeWeights& w = model.layer().moe;
  w.router.w = model.matrix("router", 4, 8);
  w.shared = model.mlp("shared_", true);
  EXPECT_EQ(model.by_steps(),
      "embed norm:in qkv rotate rotate*1 write_kv attention o add norm:mlp_in router+exact route gather*4 experts:gate "
      "experts:up gate experts:down shared_gate_up gate shared_down combine add norm:final hidden head");
  w.gate_up.resize(4);
  EXPECT_EQ(model.fused(),
      "embed norm:in qkv finish_qkv attention o+add norm:mlp_in router+exact route gather*4 experts:gate_up+gate "
      "experts:down shared_gate_up+gate shared_down+add combine norm:final hidden head");
  moe.shared_hidden = 0, moe.clamped_swiglu = true;
  EXPECT_EQ(model.fused(),
      "embed norm:in qkv finish_qkv attention o+add norm:mlp_in router+exact route gather*4 experts:gate_up clamped "
      "experts:down combine norm:final hidden head");
  EXPECT_TRUE(model.by_steps().ends_with("experts:down zero combine add norm:final hidden head"));
}

TEST(Transformer, OrdersLatentAttention) {
  TinyModel model;
  model.traits.has_mla = true;
  model.traits.mla = {.q_rank = 0, .kv_rank = 6, .nope_dim = 4, .rope_dim = 2, .value_dim = 4};
  model.attention().q.w = model.matrix("q", 12, 8);
  model.attention().kv_a.w = model.matrix("kv_a", 8, 8);
  model.attention().kv_a_norm.weight = model.mark("kv_a_norm");
  const std::string rest =
      "rotate k_up copy kv_a norm:kv_a_norm rotate*1 write_kv attention v_up o+add norm:mlp_in gate_up+gate "
      "down+add norm:final hidden head";
  EXPECT_EQ(model.fused(), "embed norm:in q " + rest);
  model.traits.mla.q_rank = 5;
  model.attention().q_a.w = model.matrix("q_a", 5, 8);
  model.attention().q_a_norm.weight = model.mark("q_a_norm");
  EXPECT_EQ(model.fused(), "embed norm:in q_a norm:q_a_norm q " + rest);
}

TEST(Transformer, OrdersBothEndsOfAStep) {
  TinyModel model;
  model.traits.learned_positions = true, model.traits.logit_soft_cap = 30.f;
  model.traits.norm = NormKind::kLayer, model.traits.layers.front().rotate = false;
  model.layer().mlp = model.mlp("", false);
  EXPECT_EQ(model.by_steps(),
      "embed embed_positions add layer_norm:in qkv write_kv attention o add layer_norm:mlp_in up activate down "
      "add layer_norm:final hidden head finish_logits");
}

}  // namespace
}  // namespace cheetah
