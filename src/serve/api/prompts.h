// SPDX-License-Identifier: MIT
#pragma once
// Texts for the model in the four forms clients send: a text, texts, token ids, lists of token ids.
#include <string>
#include <string_view>
#include <vector>

#include "serve/api/endpoint.h"
#include "serve/api/fields.h"

namespace cheetah {

struct Prompt {
  std::string param;  // prompt[3]
  std::vector<int32_t> ids;
  std::string text;
};

struct PromptRules {
  std::string_view field = "prompt";
  size_t max_prompts = 128;
  bool parse_special = true;  // special tokens written in a text are meant
};

// At least one prompt, none of them empty or longer than the context. Reads add_special_tokens too.
std::vector<Prompt> read_prompts(Fields& fields, const ApiServices& services, const PromptRules& rules);

}  // namespace cheetah
