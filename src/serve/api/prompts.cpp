// SPDX-License-Identifier: MIT
#include "serve/api/prompts.h"

#include "base/format.h"
#include "model/model.h"
#include "model/tokenizer/tokenizer.h"
#include "serve/api/failure.h"
#include "serve/api/request_fields.h"

namespace cheetah {
namespace {

class PromptReader {
 public:
  PromptReader(const ApiServices& services, const PromptRules& rules, bool add_special)
      : services_(services), rules_(rules), add_special_(add_special) {}

  std::vector<Prompt> read(Fields& fields) {
    const std::string param = fields.param(rules_.field);
    const OrderedJson* value = fields.find(rules_.field);
    if (!value) fields.missing(rules_.field);
    if (value->is_string())
      add_text(*value, param);
    else if (!value->is_array())
      fields.wrong_type(rules_.field, *value, "a string, strings, token ids or lists of token ids");
    else if (value->empty())
      refuse("invalid_value", param, format("{} must not be empty", param));
    else if (value->front().is_number())
      add_ids(*value, param);
    else
      read_many(*value, param);
    return std::move(prompts_);
  }

 private:
  void read_many(const OrderedJson& list, const std::string& name) {
    if (list.size() > rules_.max_prompts)
      refuse("invalid_value", name,
          format("{} has {} items, more than the limit of {}", name, list.size(), rules_.max_prompts));
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string param = format("{}[{}]", name, i);
      if (list[i].type() != list.front().type() || (!list[i].is_string() && !list[i].is_array()))
        refuse("invalid_type", param,
            format("{} must be of the same kind as the items before it, text or token ids, got {}", param,
                shown(list[i])));
      if (list[i].is_string())
        add_text(list[i], param);
      else
        add_ids(list[i], param);
    }
  }

  void add_text(const OrderedJson& value, const std::string& param) {
    const auto& text = value.get_ref<const std::string&>();
    const Tokenizer& tokenizer = tokenizer_of(services_);
    check_text_length(services_, text, param);
    add({param, tokenizer.encode(text, {.add_special = add_special_, .parse_special = rules_.parse_special}),
        text});
  }

  void add_ids(const OrderedJson& values, const std::string& param) {
    Prompt prompt{param, {}, {}};
    if (std::ssize(values) > services_.max_context)
      context_exceeded(services_, param, format("{} tokens", values.size()));
    for (size_t i = 0; i < values.size(); ++i)
      prompt.ids.push_back(
          token_id_of(values[i], format("{}[{}]", param, i), services_.model.traits().vocab));
    if (const Tokenizer* tokenizer = services_.model.tokenizer())
      prompt.text = tokenizer->decode(prompt.ids, false);
    add(std::move(prompt));
  }

  void add(Prompt&& prompt) {
    if (prompt.ids.empty() && services_.model.traits().bos_id >= 0)
      prompt.ids.push_back(services_.model.traits().bos_id);
    if (prompt.ids.empty())
      refuse("empty_prompt", prompt.param,
          format("{} has no tokens and the model has no token to begin with", prompt.param));
    if (std::ssize(prompt.ids) > services_.max_context)
      context_exceeded(services_, prompt.param, format("{} tokens", prompt.ids.size()));
    prompts_.push_back(std::move(prompt));
  }

  const ApiServices& services_;
  const PromptRules& rules_;
  bool add_special_;
  std::vector<Prompt> prompts_;
};

}  // namespace

std::vector<Prompt> read_prompts(Fields& fields, const ApiServices& services, const PromptRules& rules) {
  const bool add_special = fields.boolean("add_special_tokens").value_or(true);
  return PromptReader(services, rules, add_special).read(fields);
}

}  // namespace cheetah
