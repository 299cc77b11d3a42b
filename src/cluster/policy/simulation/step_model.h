// SPDX-License-Identifier: MIT
#pragma once
// How long a step takes, as a formula with numbers from a measured engine.
#include <cstdint>

namespace cheetah::cluster::throughput {

struct StepModel {
  double weights_ms = 0;        // of any step: the weights are read once
  double sequence_ms = 0;       // of each sequence in it
  double context_token_ms = 0;  // of each token whose keys and values are read
  double prefill_token_ms = 0;  // of each prompt token
  double kv_bytes_per_token = 0;
  double transfer_bytes_per_s = 0;  // between two workers: assumed, not measured

  double decode_ms(int64_t sequences, int64_t context_tokens) const {
    return weights_ms + sequence_ms * static_cast<double>(sequences) +
           context_token_ms * static_cast<double>(context_tokens);
  }
};

// random:llama-8b, BF16, one H200: results/h200/engine.json (a test compares them). Keys and values of
// 131,072 bytes per token are read at 3.4 TB/s, 0.75 of what the card reads at best; the transfer is that of a
// 200 Gb/s network.
constexpr StepModel h200_llama_8b() {
  return {.weights_ms = 4.22,
      .sequence_ms = 0.0093,
      .context_token_ms = 131'072 / 3.4e12 * 1e3,
      .prefill_token_ms = 0.0229,
      .kv_bytes_per_token = 131'072,
      .transfer_bytes_per_s = 25e9};
}

}  // namespace cheetah::cluster::throughput
