// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace cheetah {

enum class Presence { kNo, kYes, kIfStored };

// What a checkpoint calls each weight; the defaults are llama's in a Hugging Face directory. Matrices and
// norms are written without ".weight" and ".bias". Layer names are below `layer`, whose {} is the layer's
// index. An empty name: not in this family.
struct WeightNames {
  std::vector<std::string> roots = {"model.", ""};  // the first one under which the embedding is stored
  std::string embedding = "embed_tokens";
  std::string positions;
  std::string final_norm = "norm";
  std::vector<std::string> heads = {"lm_head"};  // not below a root
  std::string layer = "layers.{}.";

  std::string attention_in = "input_layernorm";
  std::string attention_out;
  std::string mlp_in = "post_attention_layernorm";
  std::string mlp_out;

  std::string qkv;           // one matrix with the rows of q, k and v; then q, k and v are not looked for
  bool qkv_by_head = false;  // qkv holds one head's q, k and v rows after another's; needs as many kv heads
  std::string q = "self_attn.q_proj";
  std::string k = "self_attn.k_proj";
  std::string v = "self_attn.v_proj";
  std::string o = "self_attn.o_proj";
  std::string q_norm = "self_attn.q_norm";
  std::string k_norm = "self_attn.k_norm";
  std::string sinks = "self_attn.sinks";  // the whole name
  Presence qkv_bias = Presence::kNo;
  Presence o_bias = Presence::kNo;

  std::string q_a = "self_attn.q_a_proj";
  std::string q_a_norm = "self_attn.q_a_layernorm";
  std::string q_b = "self_attn.q_b_proj";
  std::string kv_a = "self_attn.kv_a_proj_with_mqa";
  std::string kv_a_norm = "self_attn.kv_a_layernorm";
  std::string kv_b = "self_attn.kv_b_proj";
  std::string k_b;  // [heads, kv_rank, nope_dim], used where kv_b is not stored
  std::string v_b;  // [heads, value_dim, kv_rank]

  std::string gate_up;  // one matrix with the rows of gate and up
  std::string gate = "mlp.gate_proj";
  std::string up = "mlp.up_proj";
  std::string down = "mlp.down_proj";
  Presence mlp_bias = Presence::kNo;

  std::vector<std::string> moe_roots = {"mlp."};  // the first one under which the router is stored
  std::string router = "gate";
  Presence router_bias = Presence::kNo;
  std::string selection_bias;                            // the whole name
  std::string experts_gate_up = "experts.gate_up_proj";  // all experts in one tensor; the whole name
  std::string experts_gate;                              // … gate and up apart
  std::string experts_up;
  std::string experts_down = "experts.down_proj";
  std::string expert = "experts.{}.";  // before each of the three below; {} is the expert's index
  std::string expert_gate = "gate_proj";
  std::string expert_up = "up_proj";
  std::string expert_down = "down_proj";
  bool gpt_oss_experts = false;  // [experts, in, out], gate and up rows taking turns, biases, MXFP4 blocks
  Presence experts_bias = Presence::kNo;  // "NAME.bias" of experts_gate, experts_up, experts_down
  std::string shared_gate = "shared_experts.gate_proj";
  std::string shared_up = "shared_experts.up_proj";
  std::string shared_down = "shared_experts.down_proj";

  bool transposed = false;           // matrices stored [in, out] (GPT-2's Conv1D)
  std::vector<std::string> ignored;  // parts of names that hold no weight of the language model
};

}  // namespace cheetah
