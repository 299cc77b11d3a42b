// SPDX-License-Identifier: MIT
#include "quantize/choices.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/format.h"
#include "kernels/sample/sample.h"
#include "model/tokenizer/tokenizer.h"
#include "quantize/sequence_scorer.h"

namespace cheetah {
namespace {

struct EncodedChoice {
  std::vector<int32_t> ids;
  size_t prompt = 0;  // leading tokens that are the prompt's
  size_t bytes = 0;   // of the choice
};

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t'; }

EncodedChoice encode(const Tokenizer& tokenizer, const std::string& prompt, const std::string& choice) {
  const bool apart = is_space(prompt.back()) || is_space(choice.front());
  const EncodeOptions options{.add_special = true, .parse_special = false};
  const std::vector<int32_t> head = tokenizer.encode(prompt, options);
  EncodedChoice encoded{.ids = tokenizer.encode(prompt + (apart ? "" : " ") + choice, options),
      .prompt = 0,
      .bytes = choice.size()};
  const auto same = std::ranges::mismatch(head, encoded.ids);
  encoded.prompt = static_cast<size_t>(same.in1 - head.begin());
  // A prompt's last token may grow into the choice; at least one token must come before the first counted.
  encoded.prompt = std::clamp<size_t>(encoded.prompt, 1, std::max<size_t>(1, encoded.ids.size() - 1));
  return encoded;
}

using EncodedQuestion = std::vector<EncodedChoice>;

double log_likelihood(SequenceScorer& scorer, const EncodedChoice& choice, size_t vocab) {
  double total = 0;
  scorer.start(choice.ids);
  for (size_t first = 0; first + 1 < choice.ids.size();) {
    const std::span<const float> logits = scorer.next();
    const size_t rows = logits.size() / vocab;
    for (size_t i = 0; i < rows && first + i + 1 < choice.ids.size(); ++i) {
      if (first + i + 1 < choice.prompt) continue;
      const auto row = logits.subspan(i * vocab, vocab);
      total += static_cast<double>(row[static_cast<size_t>(choice.ids[first + i + 1])]) - log_sum_exp(row);
    }
    first += rows;
  }
  return total;
}

int64_t answer(SequenceScorer& scorer, const EncodedQuestion& question, size_t vocab) {
  int64_t best = 0;
  double best_score = -std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < question.size(); ++i) {
    const double score = log_likelihood(scorer, question[i], vocab) / static_cast<double>(question[i].bytes);
    if (score <= best_score) continue;
    best_score = score;
    best = static_cast<int64_t>(i);
  }
  return best;
}

}  // namespace

void answer_questions(const EvalData& data, int64_t first, const RunningModel& model,
    const std::optional<RunningModel>& reference, const EvalHooks& hooks) {
  CHEETAH_ASSERT(model.model.tokenizer(), "questions are read with a tokenizer");
  std::vector<EncodedQuestion> questions;
  size_t longest = 2;
  for (const ChoiceQuestion& question : data.questions) {
    EncodedQuestion encoded;
    for (const std::string& choice : question.choices) {
      encoded.push_back(encode(*model.model.tokenizer(), question.prompt, choice));
      longest = std::max(longest, encoded.back().ids.size());
    }
    questions.push_back(std::move(encoded));
  }
  if (static_cast<int64_t>(longest) > model.model.traits().max_positions)
    throw Error(format("{}: a question with its choice has {} tokens, more than the model's {} positions",
        data.source, longest, model.model.traits().max_positions));
  const auto vocab = static_cast<size_t>(model.model.traits().vocab);
  SequenceScorer scorer(model.model, model.runner, static_cast<int64_t>(longest));
  std::optional<SequenceScorer> other;
  if (reference) other.emplace(reference->model, reference->runner, static_cast<int64_t>(longest));
  for (auto i = static_cast<size_t>(first); i < questions.size(); ++i) {
    const int64_t chosen = answer(scorer, questions[i], vocab);
    QuestionScore score{.right = chosen == data.questions[i].answer};
    if (other) {
      const int64_t expected = answer(*other, questions[i], vocab);
      score.reference_right = expected == data.questions[i].answer;
      score.agree = expected == chosen;
    }
    hooks.question(static_cast<int64_t>(i), score);
  }
}

}  // namespace cheetah
