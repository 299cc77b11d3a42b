// SPDX-License-Identifier: MIT
// cheetah tokenize: text to token ids and back, without loading any weights.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/table.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/model_lookup.h"
#include "cli/output.h"
#include "model/files/gguf.h"
#include "model/tokenizer/tokenizer.h"

namespace cheetah {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExamples = R"(
Examples:
  printf 'Once upon a time' | cheetah tokenize
  printf 'Hello' | cheetah tokenize --model model.gguf --special --json
  echo '["one", "two"]' | cheetah tokenize -m tokenizer.json --batch
  echo '569 654 262' | cheetah tokenize --decode
)";

struct TokenizeOptions {
  std::string model;
  bool json = false;
  bool special = false;
  bool batch = false;
  bool decode = false;
  bool skip_special = false;
  bool no_parse_special = false;
};

bool is_gguf(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  char magic[4] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
  return std::string_view(magic, sizeof magic) == "GGUF";
}

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& path) {
  if (path.starts_with("random:")) throw Error(format("{}: random weights come without a tokenizer", path));
  if (is_gguf(path)) return Tokenizer::from_gguf(GgufFile::open(path));
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return Tokenizer::from_json_file(path);
  const std::string file = path + "/tokenizer.json";
  if (!fs::exists(file, ignored)) throw Error(format("{}: the folder has no tokenizer.json", path));
  return Tokenizer::from_json_file(file);
}

int32_t checked_id(const Tokenizer& tokenizer, const Json& value) {
  const bool is_id = value.is_number_integer() && value >= 0 && value < tokenizer.vocab_size();
  if (!is_id)
    throw Error(format("standard input: {} is not a token id of this vocabulary (0 to {})",
        printable(dump_json(value)), tokenizer.vocab_size() - 1));
  return value.get<int32_t>();
}

std::string decode_list(const Tokenizer& tokenizer, const Json& list, bool skip_special) {
  if (!list.is_array()) throw Error("standard input: expected a JSON list of token ids");
  std::vector<int32_t> ids;
  for (const Json& value : list) ids.push_back(checked_id(tokenizer, value));
  return tokenizer.decode(ids, skip_special);
}

// "1 2 3" and "[1, 2, 3]" alike.
Json parse_ids(const std::string& text) {
  const size_t start = text.find_first_not_of(" \t\r\n");
  if (start == std::string::npos) return Json::array();
  if (text[start] == '[') return parse_json(text, "standard input");
  Json ids = Json::array();
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word.find_first_not_of("0123456789") != std::string::npos || word.size() > 10)
      throw Error(format("standard input: '{}' is not a token id", printable(word)));
    ids.push_back(std::stoll(word));
  }
  return ids;
}

void print_ids(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool json) {
  if (json) return print(dump_json(ids) + "\n");
  if (!stdout_is_terminal()) return print(format("{}\n", fmt::join(ids, " ")));
  Table table({"token", "id"});
  for (const int32_t id : ids) table.add({printable(tokenizer.token_text(id), 200), std::to_string(id)});
  print(table.render() + format("{} tokens\n", ids.size()));
}

Json read_batch() {
  const JsonLimits limits{.max_bytes = int64_t{1} << 30};
  Json batch = parse_json(read_standard_input(limits.max_bytes), "standard input", limits);
  if (!batch.is_array()) throw Error("standard input: --batch expects a JSON list");
  return batch;
}

void tokenize_batch(const Tokenizer& tokenizer, const TokenizeOptions& options, const EncodeOptions& encode) {
  Json results = Json::array();
  for (const Json& item : read_batch()) {
    if (options.decode) {
      results.push_back(decode_list(tokenizer, item, options.skip_special));
      continue;
    }
    if (!item.is_string()) throw Error("standard input: --batch expects a JSON list of strings");
    results.push_back(tokenizer.encode(item.get_ref<const std::string&>(), encode));
  }
  print(dump_json(results) + "\n");
}

int run_tokenize(const TokenizeOptions& options) {
  const auto tokenizer = open_tokenizer(find_model(options.model));
  if (stdin_is_terminal())
    print_note(format("reading {} from the terminal; Ctrl-D ends it", options.decode ? "token ids" : "text"));
  const EncodeOptions encode{.add_special = options.special, .parse_special = !options.no_parse_special};
  if (options.batch) {
    tokenize_batch(*tokenizer, options, encode);
  } else if (options.decode) {
    const std::string text = decode_list(*tokenizer, parse_ids(read_standard_input()), options.skip_special);
    options.json ? print(dump_json(text) + "\n") : print_model_text(text, false);
  } else {
    print_ids(*tokenizer, tokenizer->encode(read_standard_input(), encode), options.json);
  }
  return 0;
}

}  // namespace

void add_tokenize(CLI::App& root, Action& action) {
  auto* command =
      root.add_subcommand("tokenize", "Turn text on standard input into token ids, or ids into text");
  auto options = std::make_shared<TokenizeOptions>();
  add_model_option(*command, options->model);
  command->add_flag("--json", options->json, "print one JSON list of ids (with --decode: one JSON string)");
  command->add_flag("--special", options->special, "add the model's prefix and suffix tokens (BOS, [CLS] …)");
  command->add_flag("--no-parse-special", options->no_parse_special,
      "take special tokens written in the text as plain characters");
  command->add_flag(
      "--batch", options->batch, "standard input is a JSON list of strings; print a JSON list of id lists");
  command->add_flag("--decode", options->decode, "the other way: ids in (numbers or a JSON list), text out");
  command->add_flag("--skip-special", options->skip_special, "leave special tokens out of decoded text");
  command->footer(kExamples);
  command->callback([=, &action] { action = [=] { return run_tokenize(*options); }; });
}

}  // namespace cheetah
