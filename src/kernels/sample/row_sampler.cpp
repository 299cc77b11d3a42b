// SPDX-License-Identifier: MIT
#include "kernels/sample/row_sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/sample/mirostat.h"
#include "kernels/sample/scan.h"

namespace cheetah {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// False where a logit is NaN or +infinity, or, unless that is known to be the request's doing, none is finite.
bool can_choose(std::span<const float> logits, bool forbids_all) {
  constexpr uint32_t kSign = 0x80000000u, kInfinity = 0x7F800000u;
  uint32_t wild = 0, finite = 0;  // without branches, so that the loop runs on vectors
  for (const float logit : logits) {
    const auto bits = std::bit_cast<uint32_t>(logit);
    const bool extreme = (bits & kInfinity) == kInfinity;
    wild |= extreme & (bits != (kSign | kInfinity));
    finite |= !extreme;
  }
  return wild == 0 && (finite != 0 || forbids_all);
}

bool in_vocab(int32_t id, size_t vocab) { return id >= 0 && static_cast<size_t>(id) < vocab; }

}  // namespace

void fill_logprobs(std::span<const float> logits, int32_t id, int top, GeneratedToken& token) {
  const double total = log_sum_exp(logits);
  token.id = id;
  token.logprob = static_cast<float>(static_cast<double>(logits[static_cast<size_t>(id)]) - total);
  token.top.clear();
  if (top <= 0) return;
  std::vector<Candidate> best;
  collect_best(logits, std::min(static_cast<size_t>(top), logits.size()), best);
  std::ranges::sort(best, [](const Candidate& a, const Candidate& b) {
    return a.first > b.first || (a.first == b.first && a.second < b.second);
  });
  for (const auto& [logit, other] : best)
    token.top.push_back({.id = other, .logprob = static_cast<float>(static_cast<double>(logit) - total)});
}

void RowSampler::run(const SampleBatch& batch, ThreadPool& threads) {
  if (batch.rows.empty()) return;
  const size_t vocab = batch.logits.size() / batch.last_tokens.size();
  threads.parallel_for(std::ssize(batch.rows), 1, [&](int64_t begin, int64_t end, int worker) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const auto from = static_cast<size_t>(batch.rows[i].logits);
      sample_one({.row = batch.rows[i],
                     .logits = batch.logits.subspan(from * vocab, vocab),
                     .last_token = batch.last_tokens[from],
                     .sampled = batch.sampled[i]},
          scratch_[static_cast<size_t>(worker)]);
    }
  });
}

// On a worker, where nothing may be thrown.
void RowSampler::sample_one(const Job& job, Scratch& scratch) {
  job.sampled.impossible = job.sampled.failed = job.sampled.not_finite = false;
  job.sampled.token.logprob = 0.f;
  job.sampled.token.top.clear();
  try {
    choose(job, scratch);
  } catch (const std::bad_alloc&) {
    job.sampled.failed = true;
  }
}

void RowSampler::choose(const Job& job, Scratch& scratch) {
  const SampleRow& row = job.row;
  std::span<const float> logits = job.logits;
  if (row.changes_logits()) {
    scratch.logits.assign(logits.begin(), logits.end());
    if (row.penalizes()) penalize(job, scratch);
    if (row.sampling.dry.is_on()) break_repetition(job, scratch);
    forbid(row, scratch.logits);
    if (row.sampling.cuts_sigma()) keep_within_sigma(row.sampling.top_n_sigma, scratch.logits);
    if (row.keeps_typical()) keep_typical(row.sampling.temperature, row.typical_p, scratch);
    logits = scratch.logits;
    job.sampled.impossible = logits[static_cast<size_t>(argmax(logits))] == kNever;
  }
  job.sampled.not_finite = !can_choose(logits, job.sampled.impossible);
  draw(job, logits, scratch);
  GeneratedToken& token = job.sampled.token;
  if (row.top_logprobs) fill_logprobs(job.logits, token.id, *row.top_logprobs, token);
}

void RowSampler::draw(const Job& job, std::span<const float> logits, Scratch& scratch) {
  const SampleRow& row = job.row;
  SampledToken& sampled = job.sampled;
  sampled.mirostat_mu = row.mirostat_mu;
  if (!row.sampling.uses_mirostat() || sampled.impossible || sampled.not_finite) {
    sampled.token.id =
        sample(logits, row.sampling, {.draw = row.uniform, .xtc = row.xtc_uniform}, scratch.sample);
    return;
  }
  collect_sorted(logits, scratch.order);
  const MirostatDraw drawn = draw_mirostat(scratch.order, row.sampling, row.mirostat_mu, row.uniform);
  sampled.token.id = drawn.id;
  sampled.mirostat_mu = drawn.mu;
}

// Repetition counts prompt and output, frequency and presence the output alone, as OpenAI defines them.
void RowSampler::penalize(const Job& job, Scratch& scratch) {
  const SampleRow& row = job.row;
  const SamplingParams& params = row.sampling;
  std::vector<float>& logits = scratch.logits;
  scratch.counts.resize(std::max(scratch.counts.size(), logits.size()), 0);
  const auto each_once = [&](std::span<const int32_t> ids, bool with_last, const auto& apply) {
    const auto each = [&](const auto& visit) {
      for (const int32_t id : ids)
        if (in_vocab(id, logits.size())) visit(static_cast<size_t>(id));
      if (with_last && in_vocab(job.last_token, logits.size())) visit(static_cast<size_t>(job.last_token));
    };
    each([&](size_t id) { ++scratch.counts[id]; });
    each([&](size_t id) {
      const int32_t count = std::exchange(scratch.counts[id], 0);
      if (count > 0) apply(logits[id], static_cast<float>(count));
    });
  };
  if (params.repetition_penalty != 1.f)
    each_once(row.history, true, [&](float& logit, float) {
      logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    });
  if (params.frequency_penalty == 0.f && params.presence_penalty == 0.f) return;
  const bool last_counts = row.num_generated > 0;
  each_once(row.history.last(static_cast<size_t>(row.num_generated - last_counts)), last_counts,
      [&](float& logit, float count) {
        logit -= params.frequency_penalty * count + params.presence_penalty;
      });
}

void RowSampler::break_repetition(const Job& job, Scratch& scratch) {
  const SampleRow& row = job.row;
  scratch.tokens.assign(row.history.begin(), row.history.end());
  scratch.tokens.push_back(job.last_token);
  penalize_repetition(scratch.tokens, row.sampling.dry, row.dry_breakers, scratch.logits, scratch.dry);
}

void RowSampler::forbid(const SampleRow& row, std::vector<float>& logits) {
  for (const auto& [id, bias] : row.logit_bias)
    if (in_vocab(id, logits.size())) logits[static_cast<size_t>(id)] += bias;
  if (!row.allowed_ids.empty()) {
    std::vector<std::pair<int32_t, float>> kept;
    for (const int32_t id : row.allowed_ids)
      if (in_vocab(id, logits.size())) kept.emplace_back(id, logits[static_cast<size_t>(id)]);
    std::ranges::fill(logits, kNever);
    for (const auto& [id, logit] : kept) logits[static_cast<size_t>(id)] = logit;
  }
  if (!row.mask.empty()) {
    for (size_t word = 0; word * 64 < logits.size(); ++word) {
      const uint64_t allowed = word < row.mask.size() ? row.mask[word] : 0;
      if (allowed == ~uint64_t{0}) continue;
      const size_t end = std::min(logits.size(), (word + 1) * 64);
      for (size_t id = word * 64; id < end; ++id)
        if (!(allowed >> (id % 64) & 1)) logits[id] = kNever;
    }
  }
  for (const int32_t id : row.forbidden_ids)
    if (in_vocab(id, logits.size())) logits[static_cast<size_t>(id)] = kNever;
}

// The deviation is that of the tokens that may come.
void RowSampler::keep_within_sigma(float deviations, std::vector<float>& logits) {
  double sum = 0, squares = 0, count = 0;
  for (const float logit : logits)
    if (std::isfinite(logit)) sum += logit, count += 1;
  if (count == 0) return;
  const double mean = sum / count;
  for (const float logit : logits)
    if (std::isfinite(logit)) squares += (logit - mean) * (logit - mean);
  const double peak = logits[static_cast<size_t>(argmax(logits))];
  const double least = peak - static_cast<double>(deviations) * std::sqrt(squares / count);
  for (float& logit : logits)
    if (logit < least) logit = kNever;
}

// Locally typical sampling: the tokens whose surprise is nearest to the expected one, until they have `mass`.
void RowSampler::keep_typical(float temperature, float mass, Scratch& scratch) {
  std::vector<float>& logits = scratch.logits;
  const float peak = logits[static_cast<size_t>(argmax(logits))];
  if (!std::isfinite(peak)) return;
  const auto weight = [&](float logit) {
    return std::exp((static_cast<double>(logit) - peak) / temperature);
  };
  double total = 0, entropy = 0;
  for (const float logit : logits) total += std::isfinite(logit) ? weight(logit) : 0;
  for (const float logit : logits) {
    const double p = std::isfinite(logit) ? weight(logit) / total : 0;
    if (p > 0) entropy -= p * std::log(p);
  }
  scratch.order.clear();
  for (size_t id = 0; id < logits.size(); ++id) {
    const double p = std::isfinite(logits[id]) ? weight(logits[id]) / total : 0;
    if (p > 0)
      scratch.order.emplace_back(
          static_cast<float>(std::abs(-std::log(p) - entropy)), static_cast<int32_t>(id));
  }
  std::ranges::sort(scratch.order);
  double kept = 0;
  size_t count = 0;
  while (count < scratch.order.size() && (count == 0 || kept < mass))
    kept += weight(logits[static_cast<size_t>(scratch.order[count++].second)]) / total;
  for (size_t i = count; i < scratch.order.size(); ++i)
    logits[static_cast<size_t>(scratch.order[i].second)] = kNever;
}

}  // namespace cheetah
