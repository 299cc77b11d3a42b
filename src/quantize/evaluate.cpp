// SPDX-License-Identifier: MIT
#include "quantize/evaluate.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "kernels/sample/sample.h"
#include "quantize/choices.h"
#include "quantize/sequence_scorer.h"

namespace cheetah {
namespace {

struct TokenScore {
  double nll = 0, reference_nll = 0, kl = 0;
  bool right = false, reference_right = false, agree = false;
};

TokenScore score_token(std::span<const float> row, std::span<const float> reference, int32_t next) {
  TokenScore score;
  const double total = log_sum_exp(row);
  const auto at = static_cast<size_t>(next);
  const int32_t best = argmax(row);
  score.nll = total - static_cast<double>(row[at]);
  score.right = best == next;
  if (reference.empty()) return score;
  const double reference_total = log_sum_exp(reference);
  const int32_t reference_best = argmax(reference);
  score.reference_nll = reference_total - static_cast<double>(reference[at]);
  score.reference_right = reference_best == next;
  score.agree = best == reference_best;
  double kl = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    const double log_p = static_cast<double>(reference[i]) - reference_total;
    kl += std::exp(log_p) * (log_p - (static_cast<double>(row[i]) - total));
  }
  score.kl = std::max(0.0, kl);  // rounding can take it a hair below
  return score;
}

void add(WindowScore& window, const TokenScore& token) {
  ++window.tokens;
  window.nll += token.nll;
  window.right += token.right;
  window.reference_nll += token.reference_nll;
  window.kl += token.kl;
  window.max_kl = std::max(window.max_kl, token.kl);
  window.agree += token.agree;
  window.reference_right += token.reference_right;
}

class WindowScorer {
 public:
  WindowScorer(const EvalData& data, const RunningModel& model, const std::optional<RunningModel>& reference,
      ThreadPool& pool)
      : vocab_(static_cast<size_t>(model.model.traits().vocab)),
        pool_(pool),
        scorer_(model.model, model.runner, longest(data)) {
    if (reference) reference_.emplace(reference->model, reference->runner, longest(data));
  }

  WindowScore score(std::span<const int32_t> ids) {
    WindowScore window;
    scorer_.start(ids);
    if (reference_) reference_->start(ids);
    for (size_t first = 0; first + 1 < ids.size();) {
      const std::span<const float> logits = scorer_.next();
      const std::span<const float> other = reference_ ? reference_->next() : std::span<const float>();
      const size_t rows = logits.size() / vocab_, predicting = std::min(rows, ids.size() - 1 - first);
      tokens_.resize(predicting);
      pool_.parallel_for(static_cast<int64_t>(predicting), 4, [&](int64_t begin, int64_t end, int) {
        for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
          tokens_[i] = score_token(logits.subspan(i * vocab_, vocab_),
              other.empty() ? other : other.subspan(i * vocab_, vocab_), ids[first + i + 1]);
      });
      for (const TokenScore& token : tokens_) add(window, token);
      first += rows;
    }
    return window;
  }

 private:
  static int64_t longest(const EvalData& data) {
    size_t most = 0;
    for (const auto& window : data.windows) most = std::max(most, window.size());
    return static_cast<int64_t>(most);
  }

  size_t vocab_;
  ThreadPool& pool_;
  SequenceScorer scorer_;
  std::optional<SequenceScorer> reference_;
  std::vector<TokenScore> tokens_;
};

}  // namespace

void evaluate(const EvalData& data, int64_t first, const RunningModel& model,
    const std::optional<RunningModel>& reference, ThreadPool& pool, const EvalHooks& hooks) {
  if (reference && reference->model.traits().vocab != model.model.traits().vocab)
    throw Error(
        format("{} has a vocabulary of {} and {} one of {}: they cannot be compared", model.model.name(),
            model.model.traits().vocab, reference->model.name(), reference->model.traits().vocab));
  if (!data.questions.empty()) {
    answer_questions(data, first, model, reference, hooks);
    return;
  }
  WindowScorer scorer(data, model, reference, pool);
  for (int64_t i = first; i < std::ssize(data.windows); ++i) {
    const WindowScore score = scorer.score(data.windows[static_cast<size_t>(i)]);
    if (!std::isfinite(score.nll) || !std::isfinite(score.reference_nll) || !std::isfinite(score.kl))
      throw Error(format("{}: window {} of {} has logits that are no finite numbers: the weights are damaged",
          std::isfinite(score.nll) && reference ? reference->model.name() : model.model.name(), i,
          data.source));
    hooks.window(i, score);
  }
}

}  // namespace cheetah
