// SPDX-License-Identifier: MIT
#pragma once
// All layers of a decode step in one kernel. A step of few rows is bound by the bytes of the weights; between
// kernels, and between the products of one layer, the memory would idle. Here one block a multiprocessor
// stays for the whole step: a producer streams the weights of every product, in order, through shared memory
// and never waits for the arithmetic further than its ring is long, so that norms, attention and the blocks'
// agreement on each product happen while the next weights travel.
//
// For dense pre-norm transformers: RMSNorm, rotated halves of whole heads, gated SiLU.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/memory.h"
#include "kernels/attention/attention_cuda.h"
#include "kernels/gemm/gemm.h"

namespace cheetah::gpu {

// A product's weights on the device: BF16, F16, or FP8 with a scale per row.
struct ChainMatrix {
  WeightMatrix w;
  const float* row_scales = nullptr;  // [w.rows] or none
};

struct ChainLayer {
  ChainMatrix qkv, o, gate_up, down;      // gate's rows before up's
  const float* qkv_bias = nullptr;        // [qkv.rows] or none
  const float* attention_norm = nullptr;  // [hidden]: the gains before qkv and before gate_up
  const float* mlp_norm = nullptr;
  const float* q_norm = nullptr;  // [head_dim] or none: gains of each head's own norm
  const float* k_norm = nullptr;
  int64_t window = 0;
};

struct ChainModel {
  int64_t hidden = 0;
  int64_t ffn = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  float norm_eps = 0.f;
  float attention_scale = 1.f;
  const float* inv_freq = nullptr;  // [head_dim / 2] on the device
  float rope_magnitude = 1.f;
  std::vector<ChainLayer> layers = {};
  const float* final_norm = nullptr;  // [hidden]
  ChainMatrix head = {};              // of the layers' type, or none: then x() is where a step ends
};

// Empty, or why this model or device cannot run as a chain.
std::string why_no_chain(const ChainModel& model, const DeviceInfo& device);

inline bool chain_takes_cache(DType cache) { return cache == DType::kBF16 || cache == DType::kF8E4M3; }

// Owns the kernel's buffers and its list of operations. One step at a time, all on one stream.
class DecodeChain {
 public:
  static constexpr int64_t kMaxRows = 8;

  DecodeChain(const ChainModel& model, DeviceMemory& memory, Stream& stream);
  ~DecodeChain();

  // The cache of every layer, of a type the chain takes, on the device. Costs a copy when it is another than
  // last time's.
  void use_cache(std::span<const PagedKv> layers);

  // The residual stream, [kMaxRows, hidden]: before a step the embeddings, after it what the final norm
  // takes.
  Bf16* x() const;

  // One row per sequence, in order; batch.rows of them. Writes their keys and values into the cache and, with a
  // head, logits [batch.rows, vocab].
  void run(const AttentionBatch& batch, int64_t page_tokens, float* logits = nullptr);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// How a product's outputs are cut over the blocks: tiles of W's rows, each read in boxes of `box_rows` rows.
struct ChainTiling {
  int box_rows = 0;         // at most 64
  int boxes_per_tile = 1;   // gated: two of gates and two of what they let through
  int boxes_per_stage = 0;  // one behind the other along the inner dimension
  int k_ways = 1;           // warps that share a row's inner dimension
  int64_t tiles = 0;
};
ChainTiling tile_product(int64_t outputs, bool gated, int num_multiprocessors);

}  // namespace cheetah::gpu
