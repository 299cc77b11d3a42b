#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "kernels/sample/scan.h"

namespace cheetah {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

bool penalizes(const SamplingParams& params) {
  return params.repetition_penalty != 1.f || params.frequency_penalty != 0.f ||
         params.presence_penalty != 0.f;
}

bool changes_logits(const SampleJob& job) {
  const GenerationRequest& request = *job.request;
  return penalizes(request.sampling) || !request.logit_bias.empty() || !request.allowed_ids.empty() ||
         !job.mask.empty() || job.num_generated < request.min_tokens ||
         (request.typical_p < 1.f && request.sampling.temperature > 0.f);
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

void Sampler::run(std::span<SampleJob> jobs, ThreadPool& threads) {
  threads.parallel_for(std::ssize(jobs), 1, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t i = begin; i < end; ++i)
      sample_one(jobs[static_cast<size_t>(i)], scratch_[static_cast<size_t>(worker)]);
  });
}

// On a worker, where nothing may be thrown.
void Sampler::sample_one(SampleJob& job, Scratch& scratch) {
  try {
    choose(job, scratch);
  } catch (const std::bad_alloc&) {
    job.failed = true;
  }
}

void Sampler::choose(SampleJob& job, Scratch& scratch) {
  const GenerationRequest& request = *job.request;
  std::span<const float> logits = job.logits;
  job.impossible = false;
  if (changes_logits(job)) {
    scratch.logits.assign(logits.begin(), logits.end());
    if (penalizes(request.sampling)) penalize(job, scratch);
    forbid(job, scratch.logits);
    if (request.typical_p < 1.f && request.sampling.temperature > 0.f)
      keep_typical(request.sampling.temperature, request.typical_p, scratch);
    logits = scratch.logits;
    job.impossible = logits[static_cast<size_t>(argmax(logits))] == kNever;
  }
  SamplingParams params = request.sampling;
  params.repetition_penalty = 1.f;  // applied above, with what each of them counts
  params.frequency_penalty = params.presence_penalty = 0.f;
  // A token takes two numbers of the stream, so the place in it is a function of the token's index.
  Philox random(request.seed, static_cast<uint64_t>(job.choice),
                2 * static_cast<uint64_t>(job.num_generated));
  const int32_t id = sample(logits, {}, params, random.next_uniform(), scratch.sample);
  job.token.id = id;
  if (request.top_logprobs >= 0)
    fill_logprobs(job.logits, id, request.top_logprobs, job.token);
  else if (request.best_of > request.n)  // the choices are compared by it
    fill_logprobs(job.logits, id, 0, job.token);
}

// Repetition counts prompt and output, frequency and presence the output alone, as OpenAI defines them.
void Sampler::penalize(const SampleJob& job, Scratch& scratch) {
  const SamplingParams& params = job.request->sampling;
  std::vector<float>& logits = scratch.logits;
  scratch.counts.resize(std::max(scratch.counts.size(), logits.size()), 0);
  const auto each_once = [&](std::span<const int32_t> ids, const auto& apply) {
    for (const int32_t id : ids)
      if (in_vocab(id, logits.size())) ++scratch.counts[static_cast<size_t>(id)];
    for (const int32_t id : ids) {
      if (!in_vocab(id, logits.size())) continue;
      const int32_t count = std::exchange(scratch.counts[static_cast<size_t>(id)], 0);
      if (count > 0) apply(logits[static_cast<size_t>(id)], static_cast<float>(count));
    }
  };
  if (params.repetition_penalty != 1.f)
    each_once(job.history, [&](float& logit, float) {
      logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    });
  if (params.frequency_penalty != 0.f || params.presence_penalty != 0.f)
    each_once(job.history.last(static_cast<size_t>(job.num_generated)), [&](float& logit, float count) {
      logit -= params.frequency_penalty * count + params.presence_penalty;
    });
}

void Sampler::forbid(const SampleJob& job, std::vector<float>& logits) {
  const GenerationRequest& request = *job.request;
  for (const auto& [id, bias] : request.logit_bias)
    if (in_vocab(id, logits.size())) logits[static_cast<size_t>(id)] += bias;
  if (!request.allowed_ids.empty()) {
    std::vector<std::pair<int32_t, float>> kept;
    for (const int32_t id : request.allowed_ids)
      if (in_vocab(id, logits.size())) kept.emplace_back(id, logits[static_cast<size_t>(id)]);
    std::ranges::fill(logits, kNever);
    for (const auto& [id, logit] : kept) logits[static_cast<size_t>(id)] = logit;
  }
  if (!job.mask.empty()) {
    for (size_t word = 0; word * 64 < logits.size(); ++word) {
      const uint64_t allowed = word < job.mask.size() ? job.mask[word] : 0;
      if (allowed == ~uint64_t{0}) continue;
      const size_t end = std::min(logits.size(), (word + 1) * 64);
      for (size_t id = word * 64; id < end; ++id)
        if (!(allowed >> (id % 64) & 1)) logits[id] = kNever;
    }
  }
  if (job.num_generated >= request.min_tokens) return;
  for (const int32_t id : job.end_ids)
    if (in_vocab(id, logits.size())) logits[static_cast<size_t>(id)] = kNever;
}

// Locally typical sampling: the tokens whose surprise is nearest to the expected one, until they have `mass`.
void Sampler::keep_typical(float temperature, float mass, Scratch& scratch) {
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
      scratch.order.emplace_back(static_cast<float>(std::abs(-std::log(p) - entropy)),
                                 static_cast<int32_t>(id));
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
