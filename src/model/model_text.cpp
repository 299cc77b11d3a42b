// SPDX-License-Identifier: MIT
// The text side of a checkpoint: tokenizer, special tokens, chat template.
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "model/model_state.h"
#include "model/template/template_source.h"
#include "model/tokenizer/turn_ends.h"

namespace cheetah {
namespace {

std::unique_ptr<Tokenizer> tokenizer_of(const Checkpoint& checkpoint) {
  if (const GgufFile* gguf = checkpoint.gguf())
    return gguf->find("tokenizer.ggml.model") ? Tokenizer::from_gguf(*gguf) : nullptr;
  const auto text = checkpoint.text_file("tokenizer.json");
  return text ? Tokenizer::from_json(*text, checkpoint.path() + "/tokenizer.json") : nullptr;
}

// GGUF names one end of text, while chat models end a turn with another token; known ones count as ends too.
void add_turn_ends(const Tokenizer& tokenizer, ModelTraits& traits) {
  const bool harmony = tokenizer.id_of("<|channel|>") && tokenizer.id_of("<|return|>");
  for (const std::string_view text : kTurnEnds) {
    if (harmony && text == "<|end|>") continue;  // there it ends a message, and the turn goes on
    const auto id = tokenizer.id_of(text);
    if (id && *id < traits.vocab && tokenizer.is_special(*id) && !std::ranges::count(traits.eos_ids, *id))
      traits.eos_ids.push_back(*id);
  }
}

}  // namespace

void Model::State::read_text_side() {
  tokenizer = tokenizer_of(*checkpoint);
  if (tokenizer && checkpoint->gguf()) add_turn_ends(*tokenizer, traits);
  const GgufFile* gguf = checkpoint->gguf();
  const TemplateSource source =
      gguf ? read_template_source(*gguf, false) : read_template_source(checkpoint->path(), false);
  bos_token = source.special_token("bos_token");
  eos_token = source.special_token("eos_token");
  if (tokenizer && bos_token.empty() && traits.bos_id >= 0) bos_token = tokenizer->token_text(traits.bos_id);
  if (tokenizer && eos_token.empty() && !traits.eos_ids.empty())
    eos_token = tokenizer->token_text(traits.eos_ids.front());
  if (source.text.empty()) return;
  try {  // a model whose template is broken can still complete text
    chat_template = std::make_unique<ChatTemplate>(source.text, name + "'s chat template");
  } catch (const Error& error) {
    weights.notes.push_back(format("no chat: {}", error.what()));
  }
}

}  // namespace cheetah
