// SPDX-License-Identifier: MIT
#include "quantize/eval_data.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "model/tokenizer/tokenizer.h"
#include "quantize/sha256.h"

namespace cheetah {
namespace {

constexpr size_t kMaxChoices = 26;

// Cuts tokens into windows, each with the same tokens in front. A rest of one token is dropped.
void cut(std::span<const int32_t> tokens, std::span<const int32_t> prefix, int64_t window,
    std::vector<std::vector<int32_t>>& into) {
  const auto room = static_cast<size_t>(window) - prefix.size();
  for (size_t at = 0; at < tokens.size(); at += room) {
    std::vector<int32_t> ids(prefix.begin(), prefix.end());
    const auto part = tokens.subspan(at, std::min(room, tokens.size() - at));
    ids.insert(ids.end(), part.begin(), part.end());
    if (ids.size() >= 2) into.push_back(std::move(ids));
  }
}

const Tokenizer& tokenizer_for(const Model& model, const std::string& path) {
  if (!model.tokenizer())
    throw Error(
        format("{}: text needs a tokenizer, and {} has none: give token ids as .u16", path, model.name()));
  return *model.tokenizer();
}

// Begin-of-text where the model expects it: what the tokenizer puts before an empty text.
std::vector<int32_t> prefix_of(const Model& model, const Tokenizer& tokenizer, int64_t window) {
  std::vector<int32_t> prefix = tokenizer.encode("", {.add_special = true});
  const auto is_end = [&](int32_t id) { return std::ranges::count(model.traits().eos_ids, id) > 0; };
  while (!prefix.empty() && prefix.back() != model.traits().bos_id && is_end(prefix.back()))
    prefix.pop_back();
  if (std::ssize(prefix) + 2 > window) prefix.clear();
  return prefix;
}

std::vector<int32_t> ids_of_u16(const MappedFile& file, int64_t vocab) {
  if (file.size() % 2 != 0)
    throw Error(format("{}: {} bytes, expected token ids of two bytes each", file.path(), file.size()));
  std::vector<int32_t> ids(static_cast<size_t>(file.size() / 2));
  for (size_t i = 0; i < ids.size(); ++i) {
    uint16_t id = 0;
    std::memcpy(&id, file.bytes().data() + 2 * i, sizeof id);
    if (id >= vocab)
      throw Error(format(
          "{}: token id {} at byte {} is outside the vocabulary of {}", file.path(), id, 2 * i, vocab));
    ids[i] = id;
  }
  return ids;
}

void each_line(std::string_view text, const std::string& what,
    const std::function<void(const Json&, const std::string&)>& take) {
  int64_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = format("{}: line {}", what, number);
    const Json object = parse_json(line, where);
    if (!object.is_object())
      throw Error(format("{}: expected a JSON object, found {}", where, object.type_name()));
    take(object, where);
  }
}

int64_t answer_of(const Json& object, const std::vector<std::string>& choices, const std::string& where) {
  const auto at = object.find("answer");
  const auto count = std::ssize(choices);
  if (at != object.end() && at->is_number_integer() && *at >= 0 && *at < count) return at->get<int64_t>();
  if (at != object.end() && at->is_string()) {
    const auto& text = at->get_ref<const std::string&>();
    const auto same = std::ranges::find(choices, text);
    if (same != choices.end()) return same - choices.begin();
    if (text.size() == 1 && text[0] >= 'A' && text[0] - 'A' < count) return text[0] - 'A';
  }
  throw Error(format(
      "{}: field \"answer\" must be an index below {}, a letter, or one of the choices", where, count));
}

ChoiceQuestion question_of(const Json& object, const std::string& where) {
  ChoiceQuestion question;
  for (const char* name : {"prompt", "question", "context", "query"})
    if (const auto at = object.find(name); at != object.end() && at->is_string()) {
      question.prompt = at->get<std::string>();
      break;
    }
  if (question.prompt.empty())
    throw Error(format("{}: field \"prompt\" (or \"question\", \"context\") must be a text", where));
  const auto choices = object.find("choices");
  const std::string rule = format("{}: field \"choices\" must be 2 to {} texts", where, kMaxChoices);
  if (choices == object.end() || !choices->is_array() || choices->size() < 2 || choices->size() > kMaxChoices)
    throw Error(rule);
  for (const Json& choice : *choices) {
    if (!choice.is_string() || choice.get_ref<const std::string&>().empty()) throw Error(rule);
    question.choices.push_back(choice.get<std::string>());
  }
  question.answer = answer_of(object, question.choices, where);
  return question;
}

void read_lines(const MappedFile& file, const Model& model, EvalData& data) {
  const bool are_questions = file.text().find("\"choices\"") != std::string_view::npos;
  if (are_questions) {
    tokenizer_for(model, file.path());
    data.questions = read_questions(file.text(), file.path());
    return;
  }
  const Tokenizer& tokenizer = tokenizer_for(model, file.path());
  const std::vector<int32_t> prefix = prefix_of(model, tokenizer, data.window);
  each_line(file.text(), file.path(), [&](const Json& object, const std::string& where) {
    const std::string text = JsonFields(object, where).string("text");
    cut(tokenizer.encode(text, {}), prefix, data.window, data.windows);
  });
}

}  // namespace

std::vector<ChoiceQuestion> read_questions(std::string_view text, const std::string& what) {
  std::vector<ChoiceQuestion> questions;
  each_line(text, what,
      [&](const Json& object, const std::string& where) { questions.push_back(question_of(object, where)); });
  return questions;
}

EvalData read_eval_data(const std::string& path, const Model& model, const EvalDataOptions& options) {
  CHEETAH_ASSERT(options.window >= 2, "a window has a token to predict");
  const MappedFile file = MappedFile::open(path);
  EvalData data{.source = path,
      .sha256 = sha256_of(file.text()),
      .window = options.window,
      .windows = {},
      .questions = {}};
  if (path.ends_with(".u16")) {
    cut(ids_of_u16(file, model.traits().vocab), {}, options.window, data.windows);
  } else if (path.ends_with(".jsonl")) {
    read_lines(file, model, data);
  } else {
    const Tokenizer& tokenizer = tokenizer_for(model, path);
    cut(tokenizer.encode(file.text(), {.parse_special = false}), prefix_of(model, tokenizer, options.window),
        options.window, data.windows);
  }
  if (data.windows.empty() && data.questions.empty())
    throw Error(format("{}: nothing to evaluate: expected a text of two tokens at least", path));
  if (options.max_windows > 0) {
    const auto most = static_cast<size_t>(options.max_windows);
    data.windows.resize(std::min(data.windows.size(), most));
    data.questions.resize(std::min(data.questions.size(), most));
  }
  return data;
}

std::string heldout_beside(const std::string& model_path) {
  namespace fs = std::filesystem;
  const fs::path path(model_path);
  const fs::path file = (fs::is_directory(path) ? path : path.parent_path()) / "heldout.u16";
  std::error_code error;
  return fs::is_regular_file(file, error) ? file.string() : "";
}

}  // namespace cheetah
