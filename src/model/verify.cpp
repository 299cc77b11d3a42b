// SPDX-License-Identifier: MIT
#include "model/verify.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "base/error.h"
#include "base/format.h"
#include "base/mapped_file.h"
#include "kernels/sample/sample.h"
#include "model/rope_scaling.h"
#include "model/template/chat_template.h"
#include "model/tokenizer/tokenizer.h"
#include "model/weights.h"

namespace cheetah {
namespace {

constexpr int64_t kMaxCaseTokens = 1 << 20;

// One sequence with a cache of its own.
class GoldenSequence {
 public:
  GoldenSequence(const Model& model, Runner& runner, int64_t capacity)
      : traits_(model.traits()),
        runner_(runner),
        pool_(runner.make_kv_pool({.dtype = DType::kF32, .num_pages = (capacity + 15) / 16})) {
    pages_.resize(static_cast<size_t>(pool_.num_pages()));
    std::iota(pages_.begin(), pages_.end(), 0);
  }

  // Logits of all the new tokens, or of the last one only. The span is good until the next call.
  std::span<const float> append(std::span<const int32_t> tokens, bool all_logits) {
    const auto before = static_cast<int64_t>(tokens_.size());
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    const auto total = static_cast<int64_t>(tokens_.size());
    const int64_t first = rope_changes(traits_, before, total) ? 0 : before;
    return run(first, all_logits ? total - before : 1);
  }

  std::span<const float> logits_of(std::span<const int32_t> tokens) {
    tokens_.clear();
    return append(tokens, true);
  }

 private:
  std::span<const float> run(int64_t first, int64_t wanted) {
    const auto total = static_cast<int64_t>(tokens_.size()), count = total - first;
    rows_.resize(static_cast<size_t>(wanted));
    std::iota(rows_.begin(), rows_.end(), count - wanted);
    logits_.resize(static_cast<size_t>(wanted * traits_.vocab));
    const AttentionSequence sequence{
        .pages = std::span(pages_).first(static_cast<size_t>(pool_.pages_for(total))),
        .context_tokens = total,
        .query_begin = 0,
        .query_count = count};
    runner_.forward({.tokens = std::span(tokens_).subspan(static_cast<size_t>(first)),
                        .sequences = {&sequence, 1},
                        .logit_rows = rows_},
        pool_, logits_);
    return logits_;
  }

  const ModelTraits& traits_;
  Runner& runner_;
  KvPool pool_;
  std::vector<int32_t> pages_;
  std::vector<int32_t> tokens_;
  std::vector<int64_t> rows_;
  std::vector<float> logits_;
};

std::vector<int32_t> read_ids(
    const Json& object, std::string_view name, const std::string& what, int64_t vocab) {
  const auto at = object.find(name);
  const std::string rule = format("{}: field \"{}\" must be a list of token ids below {}", what, name, vocab);
  if (at == object.end() || !at->is_array() || static_cast<int64_t>(at->size()) > kMaxCaseTokens)
    throw Error(rule);
  std::vector<int32_t> ids;
  for (const Json& id : *at) {
    if (!id.is_number_integer() || id < 0 || id >= vocab) throw Error(rule);
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

double mean_nll(std::span<const float> logits, std::span<const int32_t> ids, int64_t vocab) {
  if (ids.size() < 2) return 0.0;
  double total = 0;
  for (size_t i = 0; i + 1 < ids.size(); ++i) {
    const auto row = logits.subspan(i * static_cast<size_t>(vocab), static_cast<size_t>(vocab));
    total += log_sum_exp(row) - static_cast<double>(row[static_cast<size_t>(ids[i + 1])]);
  }
  return total / static_cast<double>(ids.size() - 1);
}

double largest_difference(std::span<const float> row, const Json& expected, const std::string& what) {
  if (!expected.is_array() || expected.size() != row.size())
    throw Error(format("{}: field \"last_logits\" must be a list of {} numbers", what, row.size()));
  double largest = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    if (!expected[i].is_number()) throw Error(format("{}: field \"last_logits\" must hold numbers", what));
    const double difference = std::abs(static_cast<double>(row[i]) - expected[i].get<double>());
    if (!(difference <= largest)) largest = difference;  // a NaN stays
  }
  return largest;
}

// Feeds the expected tokens and asks at each step whether they would have been chosen.
void check_greedy(GoldenSequence& sequence, std::span<const float> last, std::span<const int32_t> expected,
    double gap, VerifyCase& result) {
  result.greedy_total = static_cast<int64_t>(expected.size());
  bool agreed = true;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto token = static_cast<size_t>(expected[i]);
    const auto best = static_cast<size_t>(argmax(last));
    agreed = agreed && best == token;
    if (agreed) ++result.greedy_matched;
    result.greedy_gap = std::max(result.greedy_gap, static_cast<double>(last[best] - last[token]));
    if (best != token && !(static_cast<double>(last[best] - last[token]) < gap)) result.greedy_ok = false;
    if (i + 1 < expected.size()) last = sequence.append(expected.subspan(i, 1), false);
  }
}

VerifyCase verify_case(const Model& model, Runner& runner, const Json& item, const std::string& what,
    const VerifyBounds& bounds) {
  const int64_t vocab = model.traits().vocab;
  VerifyCase result;
  const std::vector<int32_t> ids = read_ids(item, "ids", what, vocab);
  const std::vector<int32_t> greedy = read_ids(item, "greedy", what, vocab);
  if (ids.empty()) throw Error(format("{}: field \"ids\" is empty", what));
  result.text = item.value("text", "");
  result.num_tokens = static_cast<int64_t>(ids.size());
  if (model.tokenizer()) {
    std::vector<int32_t> encoded = model.tokenizer()->encode(result.text, {.add_special = true});
    encoded.resize(std::min(encoded.size(), ids.size()));  // the reference cuts long texts
    result.ids_match = encoded == ids;
  }
  GoldenSequence sequence(model, runner, static_cast<int64_t>(ids.size() + greedy.size()));
  const std::span<const float> logits = sequence.append(ids, true);
  const auto last = logits.last(static_cast<size_t>(vocab));
  const JsonFields fields(item, what);
  result.logit_error = largest_difference(last, item.value("last_logits", Json()), what);
  result.nll_error = std::abs(mean_nll(logits, ids, vocab) - fields.number("nll"));
  check_greedy(sequence, last, greedy, bounds.greedy_gap, result);
  result.passed = result.ids_match && result.logit_error <= bounds.logit && result.nll_error <= bounds.nll &&
                  result.greedy_ok;
  return result;
}

VerifyHeldout verify_heldout(
    const Model& model, Runner& runner, const VerifyInputs& inputs, const VerifyBounds& bounds) {
  const JsonFields fields(inputs.golden.at("heldout"), inputs.what + ": heldout");
  const int64_t window = fields.integer("window", 2, kMaxCaseTokens);
  const int64_t tokens = fields.integer("tokens", window, static_cast<int64_t>(inputs.heldout.size()));
  const int64_t vocab = model.traits().vocab;
  VerifyHeldout result{.num_tokens = tokens, .expected = fields.number("nll")};
  GoldenSequence sequence(model, runner, window);
  std::vector<int32_t> ids(static_cast<size_t>(window));
  for (int64_t first = 0; first + window <= tokens; first += window) {
    for (int64_t i = 0; i < window; ++i) {
      ids[static_cast<size_t>(i)] = inputs.heldout[static_cast<size_t>(first + i)];
      if (ids[static_cast<size_t>(i)] >= vocab)
        throw Error(format("{}: heldout.u16 holds a token id outside the vocabulary", inputs.what));
    }
    result.nll += mean_nll(sequence.logits_of(ids), ids, vocab);
  }
  result.nll /= static_cast<double>(tokens / window);
  result.passed = std::abs(result.nll - result.expected) <= bounds.heldout;
  return result;
}

// The conversation of tests/models/README.md.
bool chat_matches(const Model& model, const std::string& expected) {
  const Json variables = {{"messages", {{{"role", "system"}, {"content", "Be brief."}},
                                           {{"role", "user"}, {"content", "Hi there"}}}},
      {"add_generation_prompt", true}, {"bos_token", model.bos_token()}, {"eos_token", model.eos_token()}};
  try {
    return model.chat_template()->render(dump_json(variables), 0) == expected;
  } catch (const Error&) {  // a template that refuses the conversation does not match
    return false;
  }
}

std::vector<uint16_t> read_u16_file(const std::string& path) {
  const MappedFile file = MappedFile::open(path);
  std::vector<uint16_t> values(static_cast<size_t>(file.size() / 2));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<uint16_t>(std::to_integer<unsigned>(file.bytes()[2 * i]) |
                                      std::to_integer<unsigned>(file.bytes()[2 * i + 1]) << 8);
  return values;
}

constexpr int64_t kNumbers = 256;  // a whole number of every type's blocks

void widen(VerifyBounds& bounds, const VerifyBounds& other) {
  bounds.logit = std::max(bounds.logit, other.logit);
  bounds.nll = std::max(bounds.nll, other.nll);
  bounds.greedy_gap = std::max(bounds.greedy_gap, other.greedy_gap);
}

// What kNative may add on stored weights: nothing where it computes in F32.
VerifyBounds native_arithmetic_of(DType weights) {
  switch (weights) {
    case DType::kF32:
    case DType::kF16:
      return {};
    case DType::kBF16:
    case DType::kF8E4M3:
      return {.logit = 0.25, .nll = 0.04, .greedy_gap = 0.2};
    default:
      return {.logit = 0.3, .nll = 0.05, .greedy_gap = 0.6};
  }
}

// What weights rounded on the way in may add: they are not the reference's any more.
VerifyBounds converted_to(DType weights) {
  switch (weights) {
    case DType::kF32:
      return {};
    case DType::kF16:
      return {.logit = 0.05, .nll = 5e-3, .greedy_gap = 0.1};
    case DType::kBF16:
      return {.logit = 0.3, .nll = 0.04, .greedy_gap = 0.6};
    case DType::kQ8_0:
      return {.logit = 0.5, .nll = 0.05, .greedy_gap = 0.6};
    default:
      return {.logit = 4, .nll = 0.3, .greedy_gap = 8};
  }
}

}  // namespace

DType coarsest_type(const ModelWeights& weights) {
  DType coarsest = DType::kF32;
  const auto look = [&](const WeightMatrix& w) {
    if (w.data && row_bytes(w.dtype, kNumbers) < row_bytes(coarsest, kNumbers)) coarsest = w.dtype;
  };
  look(weights.embedding);
  look(weights.head.w);
  for (const LayerWeights& layer : weights.layers) {
    for (const Linear* linear :
        {&layer.attention.q, &layer.attention.k, &layer.attention.v, &layer.attention.o, &layer.attention.q_a,
            &layer.attention.kv_a, &layer.mlp.gate, &layer.mlp.up, &layer.mlp.down})
      look(linear->w);
    for (const auto* experts : {&layer.moe.gate, &layer.moe.up, &layer.moe.down})
      if (!experts->empty()) look(experts->front());
  }
  return coarsest;
}

VerifyBounds verify_bounds(const VerifySetting& setting, const VerifyInputs& inputs) {
  VerifyBounds bounds;
  const Json compute = inputs.golden.is_object() ? inputs.golden.value("compute", Json()) : Json();
  if (compute.is_string() && compute.get<std::string>().find("bfloat16") != std::string::npos)
    bounds = {.logit = 2e-2, .nll = 5e-4};
  if (setting.converted)
    widen(bounds, converted_to(setting.weights));
  else if (setting.precision == Precision::kNative)
    widen(bounds, native_arithmetic_of(setting.weights));
  const bool native = setting.precision == Precision::kNative;
  const bool rounds = setting.converted || (native && is_quantized(setting.weights));
  if (setting.routed && rounds && setting.weights != DType::kF32)
    widen(bounds, {.logit = 1.2, .nll = 0.2, .greedy_gap = 6});
  if (setting.activations == DType::kBF16)
    bounds = {.logit = setting.routed ? 1.2 : 0.5, .nll = 0.05, .greedy_gap = setting.routed ? 6.0 : 0.6};
  bounds.heldout = is_quantized(setting.weights) ? 0.02 : 1e-3;
  return bounds;
}

VerifyInputs read_golden(const std::string& model_path) {
  namespace fs = std::filesystem;
  const fs::path path(model_path);
  const bool is_directory = fs::is_directory(path);
  const fs::path folder = is_directory ? path : path.parent_path();
  const fs::path golden =
      is_directory ? path / "golden.json" : fs::path(path).replace_extension(".golden.json");
  if (model_path.starts_with("random:"))
    throw Error(format("{}: random weights have no reference to be held to", model_path));
  if (!is_directory && path.extension() != ".gguf")
    throw Error(format("{}: not a model: expected a model folder or a .gguf file", model_path));
  if (!fs::exists(golden))
    throw Error(format("{}: the model has no reference outputs: expected {}", model_path, golden.string()));
  VerifyInputs inputs{.golden = read_json_file(golden.string()), .what = golden.string(), .heldout = {}};
  const fs::path heldout = folder / "heldout.u16";
  if (is_directory && fs::exists(heldout)) inputs.heldout = read_u16_file(heldout.string());
  return inputs;
}

VerifyResult verify(
    const Model& model, Runner& runner, const VerifyInputs& inputs, const VerifyBounds& bounds) {
  VerifyResult result;
  const auto cases = inputs.golden.find("cases");
  if (cases == inputs.golden.end() || !cases->is_array() || cases->empty())
    throw Error(format("{}: field \"cases\" must be a list of cases", inputs.what));
  result.tokenizer_checked = model.tokenizer() != nullptr;
  for (size_t i = 0; i < cases->size(); ++i) {
    const std::string what = format("{}: case {}", inputs.what, i);
    result.cases.push_back(verify_case(model, runner, (*cases)[i], what, bounds));
    result.passed = result.passed && result.cases.back().passed;
  }
  const auto chat = inputs.golden.find("chat");
  if (chat != inputs.golden.end() && chat->is_string() && model.chat_template()) {
    result.chat_matches = chat_matches(model, chat->get<std::string>());
    result.passed = result.passed && *result.chat_matches;
  }
  if (!inputs.heldout.empty() && inputs.golden.contains("heldout")) {
    result.heldout = verify_heldout(model, runner, inputs, bounds);
    result.passed = result.passed && result.heldout->passed;
  }
  return result;
}

}  // namespace cheetah
