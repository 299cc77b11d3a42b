#pragma once
// Where a model keeps its chat template and the special tokens the template speaks of.
#include <string>
#include <utility>
#include <vector>

namespace cheetah {

struct TemplateSource {
  std::string text;
  std::string name;  // for messages: the file, or the file and the field
  std::vector<std::pair<std::string, std::string>> special_tokens;  // "bos_token" → "<s>" …
};

// From a Hugging Face directory (or a file in it): chat_template.jinja, chat_template.json or
// tokenizer_config.json; from a GGUF file: tokenizer.chat_template. Of several named templates, "tool_use" is
// taken when there are tools and it exists, else "default". Throws Error when the model has none.
TemplateSource find_chat_template(const std::string& model_path, bool has_tools);

}  // namespace cheetah
