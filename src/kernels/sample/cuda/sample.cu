// SPDX-License-Identifier: MIT
// Rows in pieces, a block each: the largest logit and the sum of the weights of every piece. The block of a
// row that arrives last joins them and takes the best token, or draws from the whole row: it finds the piece
// where the running sum passes the number, then the token in it.
// bytes  logits once (the drawn piece twice)    bound  latency: 0.5 MB at a vocabulary of 128k
// why    one launch: a second costs more than all of the reading
#include <climits>

#include "base/error.h"
#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "kernels/sample/cuda/pick.cuh"

namespace cheetah::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kEach = static_cast<int>(kSamplePiece) / kThreads;  // logits a thread
constexpr int kMostPieces = 1024;

struct PieceScratch {
  uint64_t picks[kThreads / kWarpSize];
  double sums[kThreads / kWarpSize];
  double left;
  int piece;
  int chosen;
  int last_possible;
  bool is_last_block;
};

__device__ SamplePart scan_piece(
    const float* row, int vocab, int begin, float factor, PieceScratch& scratch) {
  float logits[kEach];
  uint64_t best = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int id = begin + i * kThreads + static_cast<int>(threadIdx.x);
    logits[i] = id < vocab ? row[id] : __uint_as_float(0x7FC00000u);
    best = larger(best, pick_of(logits[i], id));
  }
  SamplePart part;
  part.best = block_best<kThreads>(best, scratch.picks);
  if (factor == 0.f) return part;
  double sum = 0;
  const float peak = logit_in(part.best);
#pragma unroll
  for (int i = 0; i < kEach; ++i) sum += static_cast<double>(weight_of(logits[i], peak, factor));
  part.sum = block_total<kThreads>(sum, scratch.sums);
  return part;
}

__device__ bool arrives_last(const SampleArgs& args, int row, PieceScratch& scratch) {
  if (threadIdx.x == 0) {
    __threadfence();
    const unsigned last = gridDim.x - 1;  // where the count wraps to zero, for the next call
    scratch.is_last_block = atomicInc(args.arrivals + row, last) == last;
    __threadfence();
  }
  __syncthreads();
  return scratch.is_last_block;
}

// Past the first-level cache, which does not see what other blocks wrote.
__device__ SamplePart load_part(const SamplePart* part) {
  return {
      .best = __ldcg(reinterpret_cast<const unsigned long long*>(&part->best)), .sum = __ldcg(&part->sum)};
}

// A piece's weights about the row's peak.
__device__ double sum_in_row(const SamplePart& part, float peak, float factor) {
  return part.sum * static_cast<double>(weight_of(logit_in(part.best), peak, factor));
}

__device__ SampleTotal join_parts(const SamplePart* parts, int count, float factor, PieceScratch& scratch) {
  uint64_t best = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads)
    best = larger(best, load_part(parts + i).best);
  best = block_best<kThreads>(best, scratch.picks);
  SampleTotal total{.peak = logit_in(best), .best = id_in(best)};
  if (factor == 0.f || !isfinite(total.peak)) return total;
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads)
    sum += sum_in_row(load_part(parts + i), total.peak, factor);
  total.sum = block_total<kThreads>(sum, scratch.sums);
  return total;
}

// The piece in which the running sum passes `left`, and what is left of it there.
__device__ void find_piece(const SamplePart* parts, int count, const SampleTotal& total,
    const SampleEntry& entry, PieceScratch& scratch) {
  if (threadIdx.x == 0) {
    double left = entry.uniform * total.sum;
    int piece = 0;
    for (; piece + 1 < count; ++piece) {
      const double sum = sum_in_row(load_part(parts + piece), total.peak, entry.inverse_temperature);
      if (left < sum) break;
      left -= sum;
    }
    scratch.left = left;
    scratch.piece = piece;
    scratch.chosen = INT_MAX;
    scratch.last_possible = -1;
  }
  __syncthreads();
}

__device__ int draw_in_piece(
    const float* row, int vocab, const SampleTotal& total, float factor, PieceScratch& scratch) {
  const int begin = scratch.piece * static_cast<int>(kSamplePiece) + static_cast<int>(threadIdx.x) * kEach;
  double own = 0;
  int last = -1;
  float weights[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    weights[i] = begin + i < vocab ? weight_of(row[begin + i], total.peak, factor) : 0.f;
    own += static_cast<double>(weights[i]);
    if (weights[i] > 0.f) last = begin + i;
  }
  double left = scratch.left - block_sum_before<kThreads>(own, scratch.sums);
  if (last >= 0) atomicMax(&scratch.last_possible, last);
  if (left >= 0 && left < own)
    for (int i = 0; i < kEach; ++i) {
      left -= static_cast<double>(weights[i]);
      if (left < 0) {
        atomicMin(&scratch.chosen, begin + i);
        break;
      }
    }
  __syncthreads();
  if (scratch.chosen != INT_MAX) return scratch.chosen;
  return scratch.last_possible >= 0 ? scratch.last_possible : total.best;  // rounding left a rest
}

__global__ __launch_bounds__(kThreads) void choose_rows(const SampleArgs args) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  __shared__ PieceScratch scratch;
  const int index = static_cast<int>(blockIdx.y), vocab = static_cast<int>(args.vocab);
  const SampleEntry entry = args.entries[index];
  const float* row = row_of(args, entry);
  const int pieces = static_cast<int>(gridDim.x);
  SamplePart* parts = args.parts + static_cast<int64_t>(index) * pieces;
  const SamplePart part =
      scan_piece(row, vocab, static_cast<int>(blockIdx.x * kSamplePiece), entry.inverse_temperature, scratch);
  if (threadIdx.x == 0) parts[blockIdx.x] = part;
  if (!arrives_last(args, index, scratch)) return;
  const SampleTotal total = join_parts(parts, pieces, entry.inverse_temperature, scratch);
  int chosen = total.best;
  if (entry.inverse_temperature > 0.f && isfinite(total.peak) && !filters(entry)) {
    find_piece(parts, pieces, total, entry, scratch);
    chosen = draw_in_piece(row, vocab, total, entry.inverse_temperature, scratch);
  }
  if (threadIdx.x > 0) return;
  args.totals[index] = total;
  args.ids[index] = chosen;
  SampleOutcome& outcome = args.outcomes[index];
  outcome.id = chosen;
  outcome.impossible = entry.changed_row >= 0 && total.peak == logit_of(kNeverKey);
  outcome.logprob = 0.f;
  outcome.num_top = 0;
}

// A copy of the row with what the mask forbids at minus infinity.
__global__ __launch_bounds__(kThreads) void copy_allowed(const SampleArgs args) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const SampleEntry entry = args.entries[blockIdx.y];
  if (entry.changed_row < 0) return;
  const float* from = args.logits + entry.logits * args.vocab;
  float* to = args.changed + entry.changed_row * args.vocab;
  const int64_t begin = blockIdx.x * kSamplePiece;
  for (int64_t id = begin + threadIdx.x; id < min(begin + kSamplePiece, args.vocab); id += kThreads) {
    const bool allowed = entry.mask_begin < 0 || args.masks[entry.mask_begin + id / 32] >> (id % 32) & 1;
    to[id] = allowed ? from[id] : logit_of(kNeverKey);
  }
}

__device__ float penalized(float logit, const SampleEntry& entry, int generated) {
  if (entry.repetition != 1.f) logit = logit > 0.f ? logit / entry.repetition : logit * entry.repetition;
  // Rounded as the CPU rounds: no fused multiply-add.
  if (generated > 0)
    logit = logit - __fadd_rn(__fmul_rn(entry.frequency, static_cast<float>(generated)), entry.presence);
  return logit;
}

__device__ void penalize(const SampleArgs& args, const SampleEntry& entry, float* row) {
  if (entry.repetition == 1.f && entry.frequency == 0.f && entry.presence == 0.f) return;
  const int last = args.last_tokens[args.last_token_rows[entry.logits]];
  __shared__ bool knows_last;
  if (threadIdx.x == 0) knows_last = false;
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < entry.seen_count; i += kThreads) {
    const SeenToken seen = args.seen[entry.seen_begin + i];
    const bool is_last = seen.id == last;
    if (is_last) knows_last = true;
    row[seen.id] = penalized(row[seen.id], entry, seen.generated + (is_last ? entry.last_generated : 0));
  }
  __syncthreads();
  if (threadIdx.x == 0 && !knows_last) row[last] = penalized(row[last], entry, entry.last_generated);
  __syncthreads();
}

// Penalties, then biases, then what is forbidden. A block per row.
__global__ __launch_bounds__(kThreads) void change_rows(const SampleArgs args) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const SampleEntry entry = args.entries[blockIdx.x];
  if (entry.changed_row < 0) return;
  float* row = args.changed + entry.changed_row * args.vocab;
  penalize(args, entry, row);
  const BiasedToken* biased = args.biased + entry.bias_begin;
  for (int i = static_cast<int>(threadIdx.x); i < entry.bias_count; i += kThreads) {
    if (i > 0 && biased[i - 1].id == biased[i].id) continue;  // the thread with the first has all
    for (int j = i; j < entry.bias_count && biased[j].id == biased[i].id; ++j)
      row[biased[i].id] += biased[j].bias;
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < entry.forbidden_count; i += kThreads)
    row[args.forbidden[entry.forbidden_begin + i]] = logit_of(kNeverKey);
}

}  // namespace

void sample_rows(const SampleArgs& args, Stream& stream) {
  const int64_t pieces = sample_pieces(args.vocab);
  if (pieces > kMostPieces) throw Error("a vocabulary of more than four million tokens cannot be sampled");
  if (args.num_changed > 0) {
    launch({.kernel = "sample_copy_allowed",
               .grid = {pieces, args.num_rows},
               .block = {kThreads},
               .overlaps_previous = true,
               .numbers = {args.num_rows, args.vocab}},
        stream, copy_allowed, args);
    launch({.kernel = "sample_change_rows",
               .grid = {args.num_rows},
               .block = {kThreads},
               .overlaps_previous = true,
               .numbers = {args.num_rows, args.vocab}},
        stream, change_rows, args);
  }
  launch({.kernel = "sample_choose_rows",
             .grid = {pieces, args.num_rows},
             .block = {kThreads},
             .overlaps_previous = true,
             .numbers = {args.num_rows, args.vocab}},
      stream, choose_rows, args);
  if (args.filters) choose_filtered(args, stream);
  if (args.has_logprobs) fill_logprobs(args, stream);
}

}  // namespace cheetah::gpu
