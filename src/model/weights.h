// SPDX-License-Identifier: MIT
#pragma once
// A model's weights by role. Matrices are views into the mapped files where the stored type can be used as it
// is; what had to be transposed, widened or converted lies in `owned`.
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "model/traits.h"
#include "tensor/arena.h"

namespace cheetah {

struct Linear {
  WeightMatrix w;  // no data: this model has no such layer
  const float* bias = nullptr;
  bool present() const { return w.data != nullptr; }
};

struct Norm {
  const float* weight = nullptr;  // none: this model has no such norm
  const float* bias = nullptr;
  bool present() const { return weight != nullptr; }
};

struct AttentionWeights {
  Linear qkv;  // q, k and v as one matrix, where they lie side by side
  Linear q;    // MLA: from the low-rank queries, or from the hidden state
  Linear k;
  Linear v;
  Linear o;
  Norm q_norm;
  Norm k_norm;
  const float* sinks = nullptr;  // [heads] f32

  Linear q_a;  // MLA with low-rank queries
  Norm q_a_norm;
  Linear kv_a;  // MLA: [kv_rank + rope_dim, hidden]
  Norm kv_a_norm;
  std::vector<WeightMatrix> k_up;  // MLA, per head: [kv_rank, nope_dim], a query's way into the latent space
  std::vector<WeightMatrix> v_up;  // MLA, per head: [value_dim, kv_rank], a value's way out of it
};

struct MlpWeights {
  Linear gate_up;  // gate and up as one matrix, where they lie side by side
  Linear gate;
  Linear up;
  Linear down;
};

struct MoeWeights {
  Linear router;
  const float* selection_bias = nullptr;  // [experts] f32
  std::vector<WeightMatrix> gate_up;      // per expert, where gate and up lie side by side
  std::vector<WeightMatrix> gate;
  std::vector<WeightMatrix> up;
  std::vector<WeightMatrix> down;
  std::vector<const float*> gate_bias;  // empty: none
  std::vector<const float*> up_bias;
  std::vector<const float*> down_bias;
  MlpWeights shared;
};

struct LayerWeights {
  Norm attention_in;
  Norm attention_out;
  Norm mlp_in;
  Norm mlp_out;
  AttentionWeights attention;
  MlpWeights mlp;
  MoeWeights moe;
};

struct ModelWeights {
  WeightMatrix embedding;
  WeightMatrix positions;
  std::vector<LayerWeights> layers;
  Norm final_norm;
  Linear head;
  Arena owned;
  std::vector<std::string> notes;  // what the person should know about how the weights are stored
};

// Counted once each: a tied head is not counted twice.
int64_t count_parameters(const ModelWeights& weights, const ModelTraits& traits);
int64_t count_weight_bytes(const ModelWeights& weights, const ModelTraits& traits);
// Bytes one token's step reads: one embedding row, and of the experts only those it is sent to.
int64_t count_decode_bytes(const ModelWeights& weights, const ModelTraits& traits);

// Fills the fused views (qkv, gate_up) of layers whose parts lie side by side.
void join_neighbours(ModelWeights& weights);

}  // namespace cheetah
