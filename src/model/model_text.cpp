// The text side of a checkpoint: tokenizer, special tokens, chat template.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/format.h"
#include "model/model_state.h"

namespace cheetah {
namespace {

// "bos_token" of tokenizer_config.json: a string, or an added token with its "content".
std::string special_token(const Json& config, std::string_view name) {
  const auto at = config.find(name);
  if (at == config.end()) return "";
  if (at->is_string()) return at->get<std::string>();
  const Json content = at->is_object() ? at->value("content", Json()) : Json();
  return content.is_string() ? content.get<std::string>() : "";
}

// "chat_template" of tokenizer_config.json: one template, or a list of named ones of which "default" is
// meant.
std::optional<std::string> template_in(const Json& config) {
  const auto at = config.find("chat_template");
  if (at == config.end()) return std::nullopt;
  if (at->is_string()) return at->get<std::string>();
  if (!at->is_array()) return std::nullopt;
  for (const Json& item : *at)
    if (item.is_object() && item.value("name", Json()) == "default" &&
        item.value("template", Json()).is_string())
      return item.at("template").get<std::string>();
  return std::nullopt;
}

Json tokenizer_config_of(const Checkpoint& checkpoint) {
  const auto text = checkpoint.text_file("tokenizer_config.json");
  if (!text) return Json::object();
  const std::string name = checkpoint.path() + "/tokenizer_config.json";
  Json config = parse_json(*text, name);
  if (!config.is_object()) throw Error(format("{}: expected a JSON object", name));
  return config;
}

std::optional<std::string> template_of(const Checkpoint& checkpoint, const Json& config) {
  if (const GgufFile* gguf = checkpoint.gguf()) {
    const auto source = gguf->string("tokenizer.chat_template");
    return source ? std::optional<std::string>(*source) : std::nullopt;
  }
  if (auto source = checkpoint.text_file("chat_template.jinja")) return source;
  return template_in(config);
}

std::unique_ptr<Tokenizer> tokenizer_of(const Checkpoint& checkpoint) {
  if (const GgufFile* gguf = checkpoint.gguf())
    return gguf->find("tokenizer.ggml.model") ? Tokenizer::from_gguf(*gguf) : nullptr;
  const auto text = checkpoint.text_file("tokenizer.json");
  return text ? Tokenizer::from_json(*text, checkpoint.path() + "/tokenizer.json") : nullptr;
}

// GGUF names one end of text, while chat models end a turn with another token; known ones count as ends too.
void add_turn_ends(const Tokenizer& tokenizer, ModelTraits& traits) {
  constexpr std::array kTurnEnds = {"<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<end_of_turn>", "<|return|>"};
  for (const char* text : kTurnEnds) {
    const auto id = tokenizer.id_of(text);
    if (id && *id < traits.vocab && tokenizer.is_special(*id) && !std::ranges::count(traits.eos_ids, *id))
      traits.eos_ids.push_back(*id);
  }
}

}  // namespace

void Model::State::read_text_side() {
  tokenizer = tokenizer_of(*checkpoint);
  if (tokenizer && checkpoint->gguf()) add_turn_ends(*tokenizer, traits);
  const Json config = tokenizer_config_of(*checkpoint);
  bos_token = special_token(config, "bos_token");
  eos_token = special_token(config, "eos_token");
  if (tokenizer && bos_token.empty() && traits.bos_id >= 0) bos_token = tokenizer->token_text(traits.bos_id);
  if (tokenizer && eos_token.empty() && !traits.eos_ids.empty())
    eos_token = tokenizer->token_text(traits.eos_ids.front());
  const auto source = template_of(*checkpoint, config);
  if (!source) return;
  try {  // a model whose template is broken can still complete text
    chat_template = std::make_unique<ChatTemplate>(*source, name + "'s chat template");
  } catch (const Error& error) {
    weights.notes.push_back(format("no chat: {}", error.what()));
  }
}

}  // namespace cheetah
