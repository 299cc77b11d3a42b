// SPDX-License-Identifier: MIT
#include "quantize/calibration_text.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "kernels/sample/sample.h"
#include "quantize/eval_data.h"
#include "quantize/sha256.h"

namespace cheetah {
namespace {

constexpr int64_t kPageTokens = 16;
constexpr uint64_t kSeed = 1234567;

using Windows = std::vector<std::vector<int32_t>>;

// Sequences that grow by a token a step, all at once.
class Samples {
 public:
  Samples(const Model& model, Runner& runner, int64_t sequences, int64_t tokens)
      : traits_(model.traits()),
        runner_(runner),
        pages_each_((tokens + kPageTokens - 1) / kPageTokens),
        pool_(runner.make_kv_pool({.dtype = DType::kF32, .num_pages = sequences * pages_each_})) {
    pages_.resize(static_cast<size_t>(sequences * pages_each_));
    std::iota(pages_.begin(), pages_.end(), 0);
    const int32_t first = traits_.bos_id >= 0       ? traits_.bos_id
                          : traits_.eos_ids.empty() ? 0
                                                    : traits_.eos_ids.front();
    windows_.assign(static_cast<size_t>(sequences), {first});
    rows_.resize(windows_.size());
    std::iota(rows_.begin(), rows_.end(), 0);
    logits_.resize(windows_.size() * static_cast<size_t>(traits_.vocab));
  }

  Windows run(int64_t tokens) {
    while (std::ssize(windows_.front()) < tokens) step();
    return std::move(windows_);
  }

 private:
  void step() {
    const auto total = std::ssize(windows_.front());
    std::vector<int32_t> last;
    std::vector<AttentionSequence> sequences;
    for (size_t i = 0; i < windows_.size(); ++i) {
      last.push_back(windows_[i].back());
      const auto first = i * static_cast<size_t>(pages_each_);
      sequences.push_back(
          {.pages = std::span(pages_).subspan(first, static_cast<size_t>(pool_.pages_for(total))),
              .context_tokens = total,
              .query_begin = static_cast<int64_t>(i),
              .query_count = 1});
    }
    runner_.forward({.tokens = last, .sequences = sequences, .logit_rows = rows_}, pool_, logits_);
    const auto vocab = static_cast<size_t>(traits_.vocab);
    for (size_t i = 0; i < windows_.size(); ++i)
      windows_[i].push_back(sample(std::span<const float>(logits_).subspan(i * vocab, vocab),
          SamplingParams{.temperature = 1.f}, SampleNumbers{.draw = random_.next_uniform()}, scratch_));
  }

  const ModelTraits& traits_;
  Runner& runner_;
  int64_t pages_each_;
  KvPool pool_;
  std::vector<int32_t> pages_;
  Windows windows_;
  std::vector<int64_t> rows_;
  std::vector<float> logits_;
  SplitMix64 random_{kSeed};
  SampleScratch scratch_;
};

Windows own_samples(const Model& model, Runner& runner, int64_t tokens, int64_t window) {
  constexpr int64_t kAtOnce = 32;
  const int64_t sequences = std::max<int64_t>(1, std::min(kAtOnce, tokens / window));
  return Samples(model, runner, sequences, window).run(window);
}

}  // namespace

CalibrationText calibration_text(const Model& model, Runner& runner, const CalibrationOptions& options) {
  const int64_t window = std::min(options.window, model.traits().max_positions);
  CalibrationText text;
  if (options.file.empty()) {
    text.source = "samples of the model's own";
    text.windows = own_samples(model, runner, options.tokens, window);
    Sha256 hash;
    for (const auto& ids : text.windows) hash.add(std::as_bytes(std::span(ids)));
    text.sha256 = hash.hex();
    return text;
  }
  EvalData data = read_eval_data(
      options.file, model, {.window = window, .max_windows = std::max<int64_t>(1, options.tokens / window)});
  if (data.windows.empty()) throw Error(format("{}: calibration needs text, not questions", options.file));
  text.source = data.source;
  text.sha256 = data.sha256;
  text.windows = std::move(data.windows);
  return text;
}

}  // namespace cheetah
