// SPDX-License-Identifier: MIT
#include "load/workload.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "base/format.h"
#include "base/random.h"

namespace cheetah {
namespace {

// Short, common words: most tokenizers know each as one token with the space before it.
constexpr std::array<std::string_view, kNumWords> kWords = {"time", "year", "people", "way", "day", "man",
    "thing", "woman", "life", "child", "world", "school", "state", "family", "group", "country", "problem",
    "hand", "part", "place", "case", "week", "company", "system", "program", "question", "work", "number",
    "night", "point", "home", "water", "room", "mother", "area", "money", "story", "fact", "month", "lot",
    "right", "study", "book", "eye", "job", "word", "business", "issue", "side", "kind", "head", "house",
    "service", "friend", "father", "power", "hour", "game", "line", "end", "member", "law", "car", "city",
    "name", "team", "minute", "idea", "kid", "body", "back", "parent", "face", "others", "level", "office",
    "door", "health", "person", "art", "war", "history", "party", "result", "change", "morning", "reason",
    "research", "girl", "guy", "moment", "air", "teacher", "force", "order", "food", "light", "voice", "road",
    "river", "field", "table", "stone", "music", "paper", "plan", "sound", "color", "green", "black", "white",
    "small", "large", "long", "short", "early", "late", "high", "low", "good", "great", "old", "young",
    "first", "last", "next", "open", "free"};

// Streams of random numbers: lengths by request, choices of prefix by request, words by text.
constexpr uint64_t kLengthStream = uint64_t{1} << 60, kPrefixStream = uint64_t{2} << 60,
                   kTextStream = uint64_t{3} << 60;
// Ids of texts: prefixes and the blocks of traces lie apart from the texts of single requests.
constexpr uint64_t kPrefixId = uint64_t{1} << 58, kOwnPrefixId = uint64_t{2} << 58;
constexpr int64_t kLeastTokens = 4;

int64_t even_length(Philox& random, int64_t mean, double spread) {
  const double length = static_cast<double>(mean) * (1 + spread * (2 * random.next_uniform() - 1));
  return std::max<int64_t>(1, std::llround(length));
}

// Conversation lengths look log-normal; `sigma` is the deviation of the logarithm. The tail is cut at twelve
// times the mean, so that one request cannot outgrow a context window.
int64_t conversation_length(Philox& random, int64_t mean, double sigma) {
  const double median = static_cast<double>(mean) / std::exp(sigma * sigma / 2);
  const auto length = std::llround(median * std::exp(sigma * static_cast<double>(random.next_normal())));
  return std::clamp<int64_t>(length, std::min(kLeastTokens, mean), 12 * mean);
}

RequestShape conversation(const WorkloadPlan& plan, uint64_t index) {
  Philox random(plan.seed, kLengthStream + index);
  RequestShape shape;
  shape.pieces = {{index, conversation_length(random, plan.prompt_tokens, 1.0)}};
  shape.output_tokens = conversation_length(random, plan.output_tokens, 0.8);
  return shape;
}

RequestShape even(const WorkloadPlan& plan, uint64_t index) {
  Philox random(plan.seed, kLengthStream + index);
  RequestShape shape;
  shape.pieces = {{index, even_length(random, plan.prompt_tokens, plan.spread)}};
  shape.output_tokens = even_length(random, plan.output_tokens, plan.spread);
  return shape;
}

RequestShape after_prefix(const WorkloadPlan& plan, uint64_t index) {
  RequestShape shape = even(plan, index);
  Philox random(plan.seed, kPrefixStream + index);
  const bool shared = random.next_uniform() < plan.prefix_share;
  const auto which = static_cast<uint64_t>(random.next_uniform() * static_cast<double>(plan.num_prefixes));
  shape.pieces.insert(
      shape.pieces.begin(), {shared ? kPrefixId + which : kOwnPrefixId + index, plan.prefix_tokens});
  return shape;
}

std::string text_of(const RequestShape& shape, uint64_t seed, const TokenScale& scale) {
  if (shape.pieces.empty()) return shape.prompt;
  std::string text;
  for (size_t i = 0; i < shape.pieces.size(); ++i) {
    auto tokens = static_cast<double>(shape.pieces[i].tokens);
    if (i + 1 == shape.pieces.size()) tokens -= scale.overhead_tokens;
    const auto words = std::max<int64_t>(1, std::llround(tokens / scale.tokens_per_word));
    if (!text.empty()) text += ' ';
    text += made_up_text(seed, shape.pieces[i].id, words);
  }
  return text;
}

// Low ids are left out: they are where vocabularies keep their control tokens.
Json ids_of(const RequestShape& shape, uint64_t seed, int64_t id_limit) {
  const int64_t first = std::min<int64_t>(256, id_limit / 2);
  Json ids = Json::array();
  for (const TextPiece& piece : shape.pieces) {
    Philox random(seed, kTextStream + piece.id);
    for (int64_t i = 0; i < piece.tokens; ++i)
      ids.push_back(first + random.next_u32() % static_cast<uint64_t>(id_limit - first));
  }
  return ids;
}

}  // namespace

int64_t RequestShape::prompt_tokens() const {
  int64_t tokens = 0;
  for (const TextPiece& piece : pieces) tokens += piece.tokens;
  return tokens;
}

WorkloadPlan workload_plan_from(const std::string& dataset, int64_t prompt_tokens, int64_t output_tokens) {
  struct Preset {
    DatasetKind kind;
    int64_t prompt_tokens, output_tokens;
  };
  constexpr Preset kPresets[] = {{DatasetKind::kRandom, 512, 128}, {DatasetKind::kShareGptLike, 161, 338},
      {DatasetKind::kPrefixHeavy, 64, 64}};
  WorkloadPlan plan{.kind = DatasetKind::kFile, .file = dataset, .prompt_tokens = 512, .output_tokens = 128};
  for (const Preset& preset : kPresets)
    if (dataset == name_of(preset.kind))
      plan = {.kind = preset.kind,
          .file = "",
          .prompt_tokens = preset.prompt_tokens,
          .output_tokens = preset.output_tokens};
  if (prompt_tokens > 0) plan.prompt_tokens = prompt_tokens;
  if (output_tokens > 0) plan.output_tokens = output_tokens;
  return plan;
}

const char* name_of(DatasetKind kind) {
  switch (kind) {
    case DatasetKind::kRandom:
      return "random";
    case DatasetKind::kShareGptLike:
      return "sharegpt-like";
    case DatasetKind::kPrefixHeavy:
      return "prefix-heavy";
    case DatasetKind::kFile:
      return "file";
  }
  return "";
}

Workload::Workload(const WorkloadPlan& plan) : plan_(plan) {
  if (plan.kind == DatasetKind::kFile) from_file_ = read_workload_file(plan.file, plan.output_tokens);
}

RequestShape Workload::shape(int64_t index) const {
  const auto number = static_cast<uint64_t>(index);
  switch (plan_.kind) {
    case DatasetKind::kRandom:
      return even(plan_, number);
    case DatasetKind::kShareGptLike:
      return conversation(plan_, number);
    case DatasetKind::kPrefixHeavy:
      return after_prefix(plan_, number);
    case DatasetKind::kFile:
      return from_file_[number % from_file_.size()];
  }
  return {};
}

bool Workload::is_made_up() const {
  return from_file_.empty() || std::any_of(from_file_.begin(), from_file_.end(),
                                   [](const auto& shape) { return !shape.pieces.empty(); });
}

std::string first_words(int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0) text += ' ';
    text += kWords[static_cast<size_t>(i % kNumWords)];
  }
  return text;
}

std::string made_up_text(uint64_t seed, uint64_t id, int64_t num_words) {
  Philox random(seed, kTextStream + id);
  std::string text;
  for (int64_t i = 0; i < num_words; ++i) {
    if (i > 0) text += ' ';
    text += kWords[random.next_u32() % kWords.size()];
  }
  return text;
}

std::string request_body(
    const RequestShape& shape, uint64_t seed, const TokenScale& scale, const BodyOptions& options) {
  Json body = {{"model", options.model}, {"max_tokens", shape.output_tokens}, {"stream", true},
      {"stream_options", {{"include_usage", true}}}};
  if (!shape.messages.is_null() && !options.chat)
    throw Error("the dataset has \"messages\", which only the chat endpoint takes: use --endpoint chat");
  if (!shape.messages.is_null())
    body["messages"] = shape.messages;
  else if (options.sends_ids() && !shape.pieces.empty())
    body["prompt"] = ids_of(shape, seed, options.id_limit);
  else if (options.chat)
    body["messages"] = {{{"role", "user"}, {"content", text_of(shape, seed, scale)}}};
  else
    body["prompt"] = text_of(shape, seed, scale);
  if (options.temperature) body["temperature"] = *options.temperature;
  if (options.ignore_eos) body["ignore_eos"] = true;
  body.update(options.extra);
  return dump_json(body);
}

}  // namespace cheetah
