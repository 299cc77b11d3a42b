// SPDX-License-Identifier: MIT
#include "quantize/evaluation.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/format.h"

namespace cheetah {
namespace {

Estimate over(const std::vector<WindowScore>& windows, const std::function<double(const WindowScore&)>& sum) {
  std::vector<Cluster> clusters;
  for (const WindowScore& window : windows)
    clusters.push_back({.sum = sum(window), .count = static_cast<double>(window.tokens)});
  return cluster_mean(clusters);
}

Estimate share_of(const std::vector<QuestionScore>& questions, bool QuestionScore::*field) {
  return share(std::ranges::count(questions, true, field), std::ssize(questions));
}

Estimate exponential(Estimate estimate) {
  estimate.mean = std::exp(estimate.mean);
  if (estimate.interval)
    estimate.interval = Interval{std::exp(estimate.interval->low), std::exp(estimate.interval->high)};
  return estimate;
}

Json json_of(const Estimate& estimate) {
  Json json = {{"mean", estimate.mean}};
  if (estimate.interval) json["low"] = estimate.interval->low, json["high"] = estimate.interval->high;
  return json;
}

std::string line(const char* name, const Estimate& estimate, double unit = 1, const char* after = "") {
  std::string text = format("{:<22}{:.5g}{}", name, estimate.mean * unit, after);
  if (estimate.interval)
    text += format(
        "   95 % within {:.5g} .. {:.5g}", estimate.interval->low * unit, estimate.interval->high * unit);
  return text + "\n";
}

}  // namespace

Evaluation summarize(const EvaluationScores& scores, bool has_reference) {
  Evaluation result{.has_reference = has_reference};
  result.windows = std::ssize(scores.windows);
  for (const WindowScore& window : scores.windows) {
    result.tokens += window.tokens;
    result.max_kl = std::max(result.max_kl, window.max_kl);
  }
  result.nll = over(scores.windows, [](const WindowScore& w) { return w.nll; });
  result.right = over(scores.windows, [](const WindowScore& w) { return static_cast<double>(w.right); });
  result.reference_nll = over(scores.windows, [](const WindowScore& w) { return w.reference_nll; });
  result.nll_change = over(scores.windows, [](const WindowScore& w) { return w.nll - w.reference_nll; });
  result.kl = over(scores.windows, [](const WindowScore& w) { return w.kl; });
  result.agree = over(scores.windows, [](const WindowScore& w) { return static_cast<double>(w.agree); });
  result.questions = std::ssize(scores.questions);
  result.accuracy = share_of(scores.questions, &QuestionScore::right);
  result.reference_accuracy = share_of(scores.questions, &QuestionScore::reference_right);
  result.answers_agree = share_of(scores.questions, &QuestionScore::agree);
  return result;
}

Json json_of(const Evaluation& evaluation) {
  Json json = Json::object();
  if (evaluation.windows > 0) {
    json["windows"] = evaluation.windows;
    json["tokens"] = evaluation.tokens;
    json["nll"] = json_of(evaluation.nll);
    json["perplexity"] = json_of(exponential(evaluation.nll));
    json["top1_accuracy"] = json_of(evaluation.right);
  }
  if (evaluation.windows > 0 && evaluation.has_reference) {
    json["reference_nll"] = json_of(evaluation.reference_nll);
    json["reference_perplexity"] = json_of(exponential(evaluation.reference_nll));
    json["nll_change"] = json_of(evaluation.nll_change);
    json["kl"] = json_of(evaluation.kl);
    json["max_kl"] = evaluation.max_kl;
    json["top1_agreement"] = json_of(evaluation.agree);
  }
  if (evaluation.questions == 0) return json;
  json["questions"] = evaluation.questions;
  json["accuracy"] = json_of(evaluation.accuracy);
  if (!evaluation.has_reference) return json;
  json["reference_accuracy"] = json_of(evaluation.reference_accuracy);
  json["answers_agree"] = json_of(evaluation.answers_agree);
  return json;
}

std::string text_of(const Evaluation& evaluation) {
  std::string text;
  if (evaluation.windows > 0) {
    text += format("{:<22}{} in {} windows\n", "predicted tokens", evaluation.tokens, evaluation.windows);
    text += line("perplexity", exponential(evaluation.nll));
    text += line("loss, nats per token", evaluation.nll);
    text += line("top-1 accuracy", evaluation.right, 100, " %");
  }
  if (evaluation.windows > 0 && evaluation.has_reference) {
    text += line("reference perplexity", exponential(evaluation.reference_nll));
    text += line("loss above reference", evaluation.nll_change);
    text += line("KL divergence, nats", evaluation.kl);
    text += format("{:<22}{:.5g}\n", "largest KL of a token", evaluation.max_kl);
    text += line("top-1 agreement", evaluation.agree, 100, " %");
  }
  if (evaluation.questions == 0) return text;
  text += format("{:<22}{}\n", "questions", evaluation.questions);
  text += line("accuracy", evaluation.accuracy, 100, " %");
  if (!evaluation.has_reference) return text;
  text += line("reference accuracy", evaluation.reference_accuracy, 100, " %");
  return text + line("same answers", evaluation.answers_agree, 100, " %");
}

}  // namespace cheetah
