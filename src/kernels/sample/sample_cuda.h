// SPDX-License-Identifier: MIT
#pragma once
// Choosing tokens on a CUDA device, by the rules of row_sampler.h: the same filters, ties to the lower id,
// and the same place of the uniform number in the same order of tokens. Weights are F32 where the CPU has
// double, so a number within about 1e-6 of the border between two tokens may fall to the other one. Rows
// that need the host (SampleRow::needs_host) are not for here.
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/stream.h"
#include "kernels/sample/sample_row.h"

namespace cheetah::gpu {

// A SampleRow as the device reads it. Places count in the lists of SampleArgs.
struct SampleEntry {
  int32_t logits = 0;               // row
  float inverse_temperature = 0.f;  // 0: the best token
  int32_t top_k = 0;                // 0: all
  float top_p = 1.f;
  float min_p = 0.f;
  float repetition = 1.f, frequency = 0.f, presence = 0.f;
  double uniform = 0;
  int32_t last_generated = 0;  // 1: the last token counts for frequency and presence
  int32_t seen_begin = 0, seen_count = 0;
  int32_t bias_begin = 0, bias_count = 0;
  int32_t forbidden_begin = 0, forbidden_count = 0;
  int32_t mask_begin = -1;    // -1: none
  int32_t changed_row = -1;   // of the scratch where its logits are changed; -1: they are not
  int32_t top_logprobs = -1;  // -1: no logprobs
};
struct SeenToken {  // in the history, each id once
  int32_t id = 0;
  int32_t generated = 0;  // times
};
struct BiasedToken {  // equal ids are neighbours
  int32_t id = 0;
  float bias = 0.f;
};

// The rows of a step as plain lists, ready to be copied to the device. Storage is reused.
class SamplePlan {
 public:
  static constexpr int kMostTop = 20;
  // At most kMostTop logprobs a row are kept.
  void assign(std::span<const SampleRow> rows, int64_t vocab);

  std::span<const SampleEntry> entries() const { return entries_; }
  std::span<const SeenToken> seen() const { return seen_; }
  std::span<const BiasedToken> biased() const { return biased_; }
  std::span<const int32_t> forbidden() const { return forbidden_; }
  std::span<const uint32_t> masks() const { return masks_; }  // bit id, whole words per row
  int64_t num_changed() const { return num_changed_; }        // rows of scratch
  bool filters() const { return filters_; }                   // some row does
  bool has_logprobs() const { return has_logprobs_; }

 private:
  void add(const SampleRow& row, int64_t vocab);
  void add_history(const SampleRow& row, int64_t vocab, SampleEntry& entry);
  void add_mask(const SampleRow& row, int64_t vocab, SampleEntry& entry);
  std::vector<SampleEntry> entries_;
  std::vector<SeenToken> seen_;
  std::vector<BiasedToken> biased_;
  std::vector<int32_t> forbidden_;
  std::vector<uint32_t> masks_;
  std::vector<int32_t> place_of_;  // of an id in seen_; -1 between calls
  int64_t num_changed_ = 0;
  bool filters_ = false, has_logprobs_ = false;
};

struct SampleOutcome {
  int32_t id = 0;
  int32_t impossible = 0;
  float logprob = 0.f;
  int32_t num_top = 0;
  TokenLogprob top[SamplePlan::kMostTop];
};

// What kernels of one call tell each other.
struct SamplePart {   // of a piece of a row
  uint64_t best = 0;  // its logit and id, see cuda/pick.cuh
  double sum = 0;     // of the weights, about the piece's largest logit
};
inline constexpr int64_t kSamplePiece = 4096;
inline int64_t sample_pieces(int64_t vocab) { return (vocab + kSamplePiece - 1) / kSamplePiece; }
struct SampleTotal {  // of a row
  float peak = 0.f;
  int32_t best = 0;
  double sum = 0;
};

// All pointers are on the device.
struct SampleArgs {
  const float* logits = nullptr;             // [count, vocab] f32
  const int32_t* last_tokens = nullptr;      // of the batch …
  const int32_t* last_token_rows = nullptr;  // [count] … the row of each row of logits
  int64_t vocab = 0;
  int64_t num_rows = 0;                  // to choose
  const SampleEntry* entries = nullptr;  // [num_rows]
  const SeenToken* seen = nullptr;
  const BiasedToken* biased = nullptr;
  const int32_t* forbidden = nullptr;
  const uint32_t* masks = nullptr;
  int64_t num_changed = 0;
  float* changed = nullptr;       // [num_changed, vocab] scratch
  SamplePart* parts = nullptr;    // [num_rows, sample_pieces(vocab)] scratch
  SampleTotal* totals = nullptr;  // [num_rows] scratch
  uint32_t* arrivals = nullptr;   // [num_rows] zero before the first call, and after each again
  bool filters = false;           // as the plan says
  bool has_logprobs = false;
  SampleOutcome* outcomes = nullptr;  // [num_rows]
  int32_t* ids = nullptr;             // [num_rows] the chosen ones, for the next step
};
// One launch where every row takes the best token or draws from all; up to three more where rows are changed,
// filter or want logprobs. Waits and allocates nothing: it can be recorded into a graph.
void sample_rows(const SampleArgs& args, Stream& stream);

}  // namespace cheetah::gpu
