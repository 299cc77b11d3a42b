// SPDX-License-Identifier: MIT
#include "engine/prompt_outputs.h"

#include <cmath>

#include "kernels/sample/row_sampler.h"

namespace cheetah {

// Row i of the chunk says how likely prompt token i + 1 was; the first has nothing before it.
void collect_prompt_logprobs(const StepWork& work, std::span<const float> logits, int64_t vocab) {
  RequestState& request = *work.sequence->request;
  if (!request.request.prompt_logprobs || !request.needs_all_rows()) return;
  const std::vector<int32_t>& prompt = request.request.prompt;
  std::vector<GeneratedToken>& out = request.prompt_logprobs;
  if (out.empty()) out.push_back({.id = prompt.front(), .logprob = 0.f, .top = {}});
  const auto row = static_cast<size_t>(vocab);
  for (int64_t i = 0; i < work.prompt_count && std::ssize(out) < request.num_prompt(); ++i) {
    GeneratedToken token;
    fill_logprobs(logits.subspan(static_cast<size_t>(work.prompt_begin + i) * row, row), prompt[out.size()],
        request.request.top_prompt_logprobs.value_or(request.request.top_logprobs.value_or(0)), token);
    out.push_back(std::move(token));
  }
}

void collect_hidden(const StepWork& work, std::span<const float> hidden, int64_t width) {
  RequestState& request = *work.sequence->request;
  if (!request.embeds()) return;
  const auto size = static_cast<size_t>(width);
  request.pooled.resize(size);
  for (int64_t i = 0; i < work.hidden_count; ++i) {
    const float* row = hidden.data() + static_cast<size_t>(work.hidden_begin + i) * size;
    for (size_t j = 0; j < size; ++j) request.pooled[j] += static_cast<double>(row[j]);
  }
  if (!work.completes) return;
  const double rows =
      request.request.pooling == Pooling::kMean ? static_cast<double>(request.num_prompt()) : 1;
  double divisor = rows;
  if (request.request.normalize) {
    double squares = 0;
    for (const double sum : request.pooled) squares += sum * sum;
    divisor = squares > 0 ? std::sqrt(squares) : 1;
  }
  request.embedding.clear();
  for (const double sum : request.pooled) request.embedding.push_back(static_cast<float>(sum / divisor));
}

}  // namespace cheetah
