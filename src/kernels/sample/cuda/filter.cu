// SPDX-License-Identifier: MIT
// Rows that keep only some tokens, and logprobs: a block per row. The tokens near the peak are counted in bins
// of their distance to it; those in the bins that can matter, usually few, are sorted in shared memory. Where
// too many matter (flat rows), the border between tokens is searched instead, a bit of the logit a pass.
// bytes  logits twice, from the caches; flat rows up to a hundred times    bound  latency
#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "kernels/sample/cuda/pick.cuh"

namespace cheetah::gpu {
namespace {

constexpr int kThreads = 1024;
constexpr int kRoom = 2048;  // sorted at most
constexpr int kBins = 1024;
constexpr float kBinsPerUnit = 32.f;  // of the logit: weights within a bin differ by 3 % at temperature 1

struct Scratch {
  uint64_t picks[kRoom];
  double sums[kRoom];  // running, of the weights; while binning, the bins
  double doubles[kThreads / kWarpSize];
  uint64_t best[kThreads / kWarpSize];
  int count;
  int border;
  __device__ int* bins() { return reinterpret_cast<int*>(sums); }
};

struct Row {
  const float* logits;
  int vocab;
  float peak;
  float factor;  // one over the temperature
  __device__ float weight(float logit) const { return weight_of(logit, peak, factor); }
  // kBins: never.
  __device__ int bin(float logit) const {
    if (key_of(logit) <= kNeverKey) return kBins;
    return min(kBins - 1, static_cast<int>(fminf((peak - logit) * kBinsPerUnit, static_cast<float>(kBins))));
  }
};

__device__ int thread() { return static_cast<int>(threadIdx.x); }

__device__ void count_bins(const Row& row, Scratch& scratch) {
  for (int i = thread(); i < kBins; i += kThreads) scratch.bins()[i] = 0;
  __syncthreads();
  for (int id = thread(); id < row.vocab; id += kThreads)
    if (const int bin = row.bin(row.logits[id]); bin < kBins) atomicAdd(scratch.bins() + bin, 1);
  __syncthreads();
}

// The first bin with which `tokens` are there, or surely `mass` is; the last where that never comes true.
__device__ int find_border(const Row& row, double tokens, double mass, Scratch& scratch) {
  static_assert(kBins == kThreads);
  const double count = scratch.bins()[thread()];
  double least =
      count * static_cast<double>(expf(-static_cast<float>(thread() + 1) / kBinsPerUnit * row.factor));
  if (thread() == kBins - 1) least = 0;  // it has no far end
  const double count_before = block_sum_before<kThreads>(count, scratch.doubles);
  const double mass_before = block_sum_before<kThreads>(least, scratch.doubles);
  if (thread() == 0) scratch.border = kBins - 1;
  __syncthreads();
  if (count_before + count >= tokens && mass_before + least >= mass) atomicMin(&scratch.border, thread());
  __syncthreads();
  return scratch.border;
}

__device__ double count_up_to(int border, Scratch& scratch) {
  const double count = thread() <= border ? scratch.bins()[thread()] : 0;
  return block_total<kThreads>(count, scratch.doubles);
}

__device__ void sort_picks(int count, Scratch& scratch) {
  int size = 2;
  while (size < count) size *= 2;
  for (int i = count + thread(); i < size; i += kThreads) scratch.picks[i] = 0;
  __syncthreads();
  for (int run = 2; run <= size; run *= 2)
    for (int step = run / 2; step > 0; step /= 2) {
      for (int i = thread(); i < size; i += kThreads) {
        const int other = i ^ step;
        if (other <= i) continue;
        const uint64_t a = scratch.picks[i], b = scratch.picks[other];
        const bool falls = (i & run) == 0;
        if (falls ? a < b : a > b) {
          scratch.picks[i] = b;
          scratch.picks[other] = a;
        }
      }
      __syncthreads();
    }
}

// Puts the tokens of the bins up to `border` into picks, best first. Returns how many; -1: too many.
__device__ int collect(const Row& row, int border, Scratch& scratch) {
  if (count_up_to(border, scratch) > kRoom) return -1;
  if (thread() == 0) scratch.count = 0;
  __syncthreads();
  for (int id = thread(); id < row.vocab; id += kThreads)
    if (row.bin(row.logits[id]) <= border)
      scratch.picks[atomicAdd(&scratch.count, 1)] = pick_of(row.logits[id], id);
  __syncthreads();
  const int count = scratch.count;
  sort_picks(count, scratch);
  return count;
}

__device__ void sum_up(const Row& row, int count, Scratch& scratch) {
  constexpr int kEach = kRoom / kThreads;
  const int begin = thread() * kEach;
  double own = 0;
  for (int i = begin; i < min(begin + kEach, count); ++i)
    own += static_cast<double>(row.weight(logit_in(scratch.picks[i])));
  double sum = block_sum_before<kThreads>(own, scratch.doubles);
  for (int i = begin; i < min(begin + kEach, count); ++i) {
    sum += static_cast<double>(row.weight(logit_in(scratch.picks[i])));
    scratch.sums[i] = sum;
  }
  __syncthreads();
}

// The first of [0, count) for which `is`; count where there is none.
template <class Is>
__device__ int first_of(int count, Scratch& scratch, const Is& is) {
  if (thread() == 0) scratch.border = count;
  __syncthreads();
  for (int i = thread(); i < count; i += kThreads)
    if (is(i)) atomicMin(&scratch.border, i);
  __syncthreads();
  const int first = scratch.border;
  __syncthreads();
  return first;
}

// From sorted candidates, as sample.cpp does it.
__device__ int choose_sorted(
    const Row& row, const SampleEntry& entry, double total, int count, Scratch& scratch) {
  sum_up(row, count, scratch);
  if (entry.top_k > 0) {
    count = min(count, entry.top_k);
    total = scratch.sums[count - 1];
  }
  int kept = count;
  if (entry.top_p < 1.f) {
    const double wanted = static_cast<double>(entry.top_p) * total;
    kept = min(count, 1 + first_of(count, scratch, [&](int i) { return scratch.sums[i] >= wanted; }));
  }
  const auto is_small = [&](int i) { return row.weight(logit_in(scratch.picks[i])) < entry.min_p; };
  kept = max(1, first_of(kept, scratch, is_small));
  const double left = entry.uniform * scratch.sums[kept - 1];
  const int at = first_of(kept, scratch, [&](int i) { return scratch.sums[i] > left; });
  return id_in(scratch.picks[at == kept ? 0 : at]);
}

// How many tokens and how much weight lie at or above a key.
struct Tally {
  double count = 0;
  double mass = 0;
};
__device__ Tally tally_from(const Row& row, uint32_t key, Scratch& scratch) {
  Tally own;
  for (int id = thread(); id < row.vocab; id += kThreads) {
    const float logit = row.logits[id];
    if (key_of(logit) < key) continue;
    own.count += 1;
    own.mass += static_cast<double>(row.weight(logit));
  }
  return {.count = block_total<kThreads>(own.count, scratch.doubles),
      .mass = block_total<kThreads>(own.mass, scratch.doubles)};
}

// The best tokens of a row: all above `key`, and of those with it the `ties` lowest ids.
struct Head {
  uint32_t key = kNeverKey + 1;
  double ties = 0;
  Tally above;         // without the ties
  float weight = 0.f;  // of each tie
  __device__ double mass() const { return above.mass + ties * static_cast<double>(weight); }
};

__device__ Head head_from(const Row& row, uint32_t key, Scratch& scratch) {
  Head head{
      .key = key, .ties = 0, .above = tally_from(row, key + 1, scratch), .weight = row.weight(logit_of(key))};
  head.ties = tally_from(row, key, scratch).count - head.above.count;
  return head;
}

// From the largest key at which `reached` is true of the tally, found bit by bit from the top.
template <class Reached>
__device__ Head find_head(const Row& row, Scratch& scratch, const Reached& reached) {
  uint32_t key = 0;
  for (int bit = 31; bit >= 0; --bit) {
    const uint32_t next = key | 1u << bit;
    if (next <= kNeverKey || reached(tally_from(row, next, scratch))) key = next;
  }
  return head_from(row, key, scratch);
}

__device__ int tie_number(const Row& row, uint32_t key, double number, Scratch& scratch) {
  // Ids in order: each thread has a run of them.
  const int each = (row.vocab + kThreads - 1) / kThreads, begin = thread() * each;
  const int end = min(begin + each, row.vocab);
  double own = 0;
  for (int id = begin; id < end; ++id) own += key_of(row.logits[id]) == key;
  double before = block_sum_before<kThreads>(own, scratch.doubles);
  if (thread() == 0) scratch.border = 0;
  __syncthreads();
  if (number >= before && number < before + own)
    for (int id = begin; id < end; ++id)
      if (key_of(row.logits[id]) == key && before++ == number) scratch.border = id;
  __syncthreads();
  return scratch.border;
}

// The lowest key whose weight is at least `least`.
__device__ uint32_t lowest_key(const Row& row, float least) {
  uint32_t key = 0;
  for (int bit = 31; bit >= 0; --bit) {
    const uint32_t next = key | 1u << bit;
    if (next - 1 <= kNeverKey || !(row.weight(logit_of(next - 1)) >= least)) key = next;
  }
  return key;
}

__device__ Head find_nucleus(const Row& row, const Head& head, double wanted, Scratch& scratch) {
  const double most = head.above.count + head.ties;
  Head nucleus = find_head(
      row, scratch, [&](const Tally& tally) { return tally.mass >= wanted || tally.count >= most; });
  const double ties = max(1.0, ceil((wanted - nucleus.above.mass) / static_cast<double>(nucleus.weight)));
  nucleus.ties = min(ties, nucleus.key == head.key ? head.ties : nucleus.ties);
  return nucleus;
}

// The same without sorting, however many tokens matter.
__device__ int choose_searching(
    const Row& row, const SampleEntry& entry, const SampleTotal& total, Scratch& scratch) {
  const double all = tally_from(row, kNeverKey + 1, scratch).count;
  const double most = entry.top_k > 0 ? min(all, static_cast<double>(entry.top_k)) : all;
  Head head = find_head(row, scratch, [&](const Tally& tally) { return tally.count >= most; });
  head.ties = most - head.above.count;
  const double wanted = static_cast<double>(entry.top_p) * (entry.top_k > 0 ? head.mass() : total.sum);
  if (entry.top_p < 1.f) head = find_nucleus(row, head, wanted, scratch);
  if (head.weight < entry.min_p) head = head_from(row, lowest_key(row, entry.min_p), scratch);
  const double left = entry.uniform * head.mass();
  const Head drawn = find_head(row, scratch, [&](const Tally& tally) { return tally.mass > left; });
  if (drawn.key <= kNeverKey) return total.best;  // min_p above 1, or rounding left a rest
  const double last = (drawn.key == head.key ? head.ties : drawn.ties) - 1;
  const double number = floor((left - drawn.above.mass) / static_cast<double>(drawn.weight));
  return tie_number(row, drawn.key, max(0.0, min(number, last)), scratch);
}

// Bins that hold every token the filters can leave.
__device__ int filter_border(
    const Row& row, const SampleEntry& entry, const SampleTotal& total, Scratch& scratch) {
  if (entry.top_k > 0) return find_border(row, entry.top_k, 0, scratch);
  int border = kBins - 1;
  if (entry.top_p < 1.f) border = find_border(row, 1, static_cast<double>(entry.top_p) * total.sum, scratch);
  if (entry.min_p > 0.f) {  // a little more than it takes: the exact comparison follows
    const float distance = (1e-3f - logf(entry.min_p)) / row.factor;
    border = min(border, static_cast<int>(fmaxf(0.f, fminf(distance * kBinsPerUnit + 1.f, kBins - 1.f))));
  }
  return border;
}

__global__ __launch_bounds__(kThreads) void choose_among_few(const SampleArgs args) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  __shared__ Scratch scratch;
  const SampleEntry entry = args.entries[blockIdx.x];
  const SampleTotal total = args.totals[blockIdx.x];
  if (!filters(entry) || !isfinite(total.peak)) return;
  const Row row{.logits = row_of(args, entry),
      .vocab = static_cast<int>(args.vocab),
      .peak = total.peak,
      .factor = entry.inverse_temperature};
  count_bins(row, scratch);
  const int count = collect(row, filter_border(row, entry, total, scratch), scratch);
  const int chosen = count >= 0 ? choose_sorted(row, entry, total.sum, count, scratch)
                                : choose_searching(row, entry, total, scratch);
  if (thread() > 0) return;
  args.ids[blockIdx.x] = chosen;
  args.outcomes[blockIdx.x].id = chosen;
}

// The best after `before`.
__device__ uint64_t next_best(const Row& row, uint64_t before, Scratch& scratch) {
  uint64_t best = 0;
  for (int id = thread(); id < row.vocab; id += kThreads)
    if (const uint64_t pick = pick_of(row.logits[id], id); pick < before) best = larger(best, pick);
  return block_best<kThreads>(best, scratch.best);
}

__device__ int find_top(const Row& row, int wanted, Scratch& scratch) {
  count_bins(row, scratch);
  const int count = collect(row, find_border(row, wanted, 0, scratch), scratch);
  if (count >= 0) return min(count, wanted);
  uint64_t pick = ~uint64_t{0};
  int found = 0;
  for (; found < wanted; ++found) {
    pick = next_best(row, pick, scratch);
    if (key_in(pick) <= kNeverKey) break;
    if (thread() == 0) scratch.picks[found] = pick;
  }
  __syncthreads();
  return found;
}

// Of the model's own logits, whatever the row was changed to.
__global__ __launch_bounds__(kThreads) void logprobs(const SampleArgs args) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  __shared__ Scratch scratch;
  const SampleEntry entry = args.entries[blockIdx.x];
  if (entry.top_logprobs < 0) return;
  Row row{.logits = args.logits + entry.logits * args.vocab,
      .vocab = static_cast<int>(args.vocab),
      .peak = 0.f,
      .factor = 1.f};
  row.peak = logit_in(next_best(row, ~uint64_t{0}, scratch));
  double own = 0;
  for (int id = thread(); id < row.vocab; id += kThreads)
    own += static_cast<double>(row.weight(row.logits[id]));
  const double sum = block_total<kThreads>(own, scratch.doubles);
  const double total =
      isfinite(row.peak) ? static_cast<double>(row.peak) + log(sum) : static_cast<double>(row.peak);
  const int count =
      entry.top_logprobs == 0 || !isfinite(row.peak) ? 0 : find_top(row, entry.top_logprobs, scratch);
  SampleOutcome& outcome = args.outcomes[blockIdx.x];
  if (thread() == 0) {
    outcome.logprob = static_cast<float>(static_cast<double>(row.logits[outcome.id]) - total);
    outcome.num_top = count;
  }
  for (int i = thread(); i < count; i += kThreads) {
    const uint64_t pick = scratch.picks[i];
    outcome.top[i] = {
        .id = id_in(pick), .logprob = static_cast<float>(static_cast<double>(logit_in(pick)) - total)};
  }
}

}  // namespace

void choose_filtered(const SampleArgs& args, Stream& stream) {
  launch({.kernel = "sample_choose_among_few",
             .grid = {args.num_rows},
             .block = {kThreads},
             .overlaps_previous = true,
             .numbers = {args.num_rows, args.vocab}},
      stream, choose_among_few, args);
}

void fill_logprobs(const SampleArgs& args, Stream& stream) {
  launch({.kernel = "sample_logprobs",
             .grid = {args.num_rows},
             .block = {kThreads},
             .overlaps_previous = true,
             .numbers = {args.num_rows, args.vocab}},
      stream, logprobs, args);
}

}  // namespace cheetah::gpu
