// SPDX-License-Identifier: MIT
#pragma once
// A step that is submitted without waiting for it: where its tokens come from and what is sampled from it.
#include <cstdint>
#include <span>

#include "kernels/sample/sample_row.h"

namespace cheetah {

// The token of a batch row that the step submitted just before this one chooses: it need not have reached the
// host, and never has to travel there and back.
struct FedToken {
  int64_t row = 0;     // of the batch's tokens; its content is ignored
  int64_t sample = 0;  // of the previous step's samples
};

// Beside the batch itself. Everything is copied before submit() returns.
struct StepExtras {
  std::span<const FedToken> fed = {};         // rows ascending
  std::span<const SampleRow> samples = {};    // SampleRow::logits counts within logit_rows
  std::span<const int64_t> host_logits = {};  // of logit_rows: whose logits the host wants, ascending
};

enum class StepTicket : uint64_t {};

// Lives until the next submit() or wait().
struct StepResult {
  std::span<SampledToken> sampled;  // as samples; the caller may move from them
  std::span<const float> logits;    // [host_logits, vocab] f32
  std::span<const float> hidden;    // [hidden_rows, hidden] f32, after the final norm
};

// What a runner's recorded steps did so far.
struct GraphUse {
  int64_t recorded = 0;
  int64_t launched = 0;     // steps that ran as one, the recorded among them
  int64_t rows = 0;         // asked for by steps that had a shape
  int64_t padded_rows = 0;  // that filled those steps up
};

}  // namespace cheetah
