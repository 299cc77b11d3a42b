// SPDX-License-Identifier: MIT
#include "model/template/template_source.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "model/files/gguf.h"
#include "model/files/model_directory.h"

namespace cheetah {
namespace {

// A special token is a string, or an object that describes one.
std::optional<std::string> token_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  const auto content = value.is_object() ? value.find("content") : value.end();
  if (value.is_object() && content != value.end() && content->is_string()) return content->get<std::string>();
  return std::nullopt;
}

void add_special_tokens(const Json& config, TemplateSource& source) {
  if (!config.is_object()) return;
  for (const auto& field : config.items()) {
    const std::string& name = field.key();
    if (!name.ends_with("_token")) continue;
    const auto text = token_text(field.value());
    const auto same = [&](const auto& token) { return token.first == name; };
    if (text && std::none_of(source.special_tokens.begin(), source.special_tokens.end(), same))
      source.special_tokens.emplace_back(name, *text);
  }
}

// The field is one template, or a list of {name, template}.
std::optional<std::string> choose_template(const Json& field, const std::string& where, bool has_tools) {
  if (field.is_null()) return std::nullopt;
  if (field.is_string()) return field.get<std::string>();
  if (!field.is_array()) throw Error(format("{}: expected a string or a list of named templates", where));
  std::optional<std::string> chosen;
  for (const Json& entry : field) {
    const JsonFields fields(entry, where);
    const std::string name = fields.string("name");
    if (name == "tool_use" && has_tools) return fields.string("template");
    if (name == "default") chosen = fields.string("template");
  }
  if (!chosen) throw Error(format("{}: the list of templates has no \"default\"", where));
  return chosen;
}

bool take_field(const Json& config, const std::string& path, bool has_tools, TemplateSource& source) {
  if (!config.is_object() || !config.contains("chat_template")) return false;
  const std::string where = format("{}: chat_template", path);
  const auto text = choose_template(config["chat_template"], where, has_tools);
  if (!text) return false;
  source.text = *text;
  source.name = path;
  return true;
}

TemplateSource from_directory(const std::string& directory, bool has_tools) {
  TemplateSource source;
  const auto path_of = [&](const char* name) { return (std::filesystem::path(directory) / name).string(); };
  const auto json_of = [&](const char* name) {
    const auto text = read_model_text(directory, name);
    return text ? parse_json(*text, path_of(name)) : Json();
  };
  const Json config = json_of("tokenizer_config.json");
  add_special_tokens(config, source);
  add_special_tokens(json_of("special_tokens_map.json"), source);
  if (auto text = read_model_text(directory, "chat_template.jinja")) {
    source.text = std::move(*text);
    source.name = path_of("chat_template.jinja");
    return source;
  }
  if (take_field(config, path_of("tokenizer_config.json"), has_tools, source)) return source;
  if (take_field(json_of("chat_template.json"), path_of("chat_template.json"), has_tools, source))
    return source;
  return source;
}

}  // namespace

std::string TemplateSource::special_token(std::string_view kind) const {
  const auto at = std::ranges::find(special_tokens, kind, &std::pair<std::string, std::string>::first);
  return at == special_tokens.end() ? "" : at->second;
}

TemplateSource read_template_source(const GgufFile& file, bool has_tools) {
  TemplateSource source;
  source.name = file.name();
  auto text = file.string("tokenizer.chat_template");
  if (const auto tool_use = file.string("tokenizer.chat_template.tool_use"); has_tools && tool_use)
    text = tool_use;
  if (text) source.text = *text;
  constexpr std::pair<const char*, const char*> kTokens[] = {{"bos_token", "tokenizer.ggml.bos_token_id"},
      {"eos_token", "tokenizer.ggml.eos_token_id"}, {"unk_token", "tokenizer.ggml.unknown_token_id"},
      {"pad_token", "tokenizer.ggml.padding_token_id"}};
  const std::vector<std::string_view> vocabulary = file.strings("tokenizer.ggml.tokens");
  for (const auto& [name, key] : kTokens) {
    const auto id = file.integer(key);
    if (id && *id >= 0 && *id < static_cast<int64_t>(vocabulary.size()))
      source.special_tokens.emplace_back(name, vocabulary[static_cast<size_t>(*id)]);
  }
  return source;
}

TemplateSource read_template_source(const std::string& model_path, bool has_tools) {
  namespace fs = std::filesystem;
  if (fs::is_directory(model_path)) return from_directory(model_path, has_tools);
  if (fs::path(model_path).extension() == ".safetensors")
    return from_directory(fs::path(model_path).parent_path().string(), has_tools);
  return read_template_source(GgufFile::open(model_path), has_tools);
}

TemplateSource find_chat_template(const std::string& model_path, bool has_tools) {
  TemplateSource source = read_template_source(model_path, has_tools);
  if (source.text.empty())
    throw Error(
        format("{}: the model has no chat template (chat_template.jinja, chat_template in "
               "tokenizer_config.json, or tokenizer.chat_template in a GGUF file)",
            model_path));
  return source;
}

}  // namespace cheetah
