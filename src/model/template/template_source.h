// SPDX-License-Identifier: MIT
#pragma once
// Where a model keeps its chat template and the special tokens the template speaks of.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/files/gguf.h"

namespace cheetah {

struct TemplateSource {
  std::string text;  // empty: the model has no chat template
  std::string name;  // for messages: the file, or the file and the field
  std::vector<std::pair<std::string, std::string>> special_tokens;  // "bos_token" → "<s>" …

  std::string special_token(std::string_view kind) const;  // empty: not named
};

// From a Hugging Face directory (or a file in it): chat_template.jinja, chat_template.json or
// tokenizer_config.json; from a GGUF file: tokenizer.chat_template. Of several named templates, "tool_use" is
// taken when there are tools and it exists, else "default".
TemplateSource read_template_source(const std::string& model_path, bool has_tools);
TemplateSource read_template_source(const GgufFile& file, bool has_tools);

// The same, for callers that need one: throws Error when the model has none.
TemplateSource find_chat_template(const std::string& model_path, bool has_tools);

}  // namespace cheetah
