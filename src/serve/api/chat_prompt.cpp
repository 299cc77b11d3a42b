// SPDX-License-Identifier: MIT
// From a conversation to tokens, through the model's template.
#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/format.h"
#include "engine/grammar/grammar_cache.h"
#include "model/model.h"
#include "model/template/chat_template.h"
#include "model/tokenizer/tokenizer.h"
#include "serve/api/chat_input.h"
#include "serve/api/failure.h"
#include "serve/api/request_fields.h"

namespace cheetah {
namespace {

// Whether any string of a value, keys too, spells out a special token.
bool has_special(const OrderedJson& value, const ModelTables& tables) {
  if (value.is_string()) return tables.has_special(value.get_ref<const std::string&>());
  if (value.is_array())
    return std::ranges::any_of(value, [&](const OrderedJson& item) { return has_special(item, tables); });
  if (value.is_object())
    for (const auto& [name, member] : value.items())
      if (tables.has_special(name) || has_special(member, tables)) return true;
  return false;
}

// A noncharacter of Unicode that the conversation does not use.
std::string unused_mark(const std::string& text) {
  for (unsigned char last = 0x90; last <= 0xAF; ++last) {  // U+FDD0 to U+FDEF
    std::string mark = {'\xEF', '\xB7', static_cast<char>(last)};
    if (text.find(mark) == std::string::npos) return mark;
  }
  refuse("invalid_unicode", "messages", "messages uses every noncharacter from U+FDD0 to U+FDEF");
}

std::string marked_text(std::string_view text, const std::string& mark, const ModelTables& tables) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!tables.special_at(text, i).empty()) result += mark;
    result += text[i];
  }
  return result;
}

// The value with a mark before each special token that it spells out.
OrderedJson marked(const OrderedJson& value, const std::string& mark, const ModelTables& tables) {
  if (value.is_string()) return marked_text(value.get_ref<const std::string&>(), mark, tables);
  OrderedJson result = value;
  if (value.is_array())
    for (OrderedJson& item : result) item = marked(item, mark, tables);
  if (value.is_object()) {
    result = OrderedJson::object();
    for (const auto& [name, member] : value.items())
      result[marked_text(name, mark, tables)] = marked(member, mark, tables);
  }
  return result;
}

void append(std::vector<int32_t>& ids, const std::vector<int32_t>& more) {
  ids.insert(ids.end(), more.begin(), more.end());
}

ChatPrompt encode_marked(const std::string& text, const std::string& mark, const ApiServices& services) {
  const Tokenizer& tokenizer = tokenizer_of(services);
  const ModelTables& tables = services.grammars.tables();
  ChatPrompt prompt;
  size_t at = 0;
  while (at < text.size()) {
    const size_t next = mark.empty() ? std::string::npos : text.find(mark, at);
    const std::string trusted = text.substr(at, next - at);
    append(prompt.ids, tokenizer.encode(trusted, {.add_special = false, .parse_special = true}));
    prompt.text += trusted;
    if (next == std::string::npos) break;
    at = next + mark.size();
    if (at == text.size()) break;
    const std::string_view written = tables.special_at(text, at);
    append(prompt.ids, tokenizer.encode(written, {.add_special = false, .parse_special = false}));
    prompt.text += written;
    at += written.size();
  }
  return prompt;
}

// Ends the prompt where the last message's text does, so that the model goes on writing it.
void cut_after_last_message(const OrderedJson& message, std::string& text) {
  std::string content = message.value("content", "");
  while (!content.empty() && std::isspace(static_cast<unsigned char>(content.back()))) content.pop_back();
  const size_t at = text.rfind(content);
  if (message.value("role", "") != "assistant" || content.empty() || at == std::string::npos)
    refuse("invalid_value", "continue_final_message",
        "continue_final_message needs a last message of the assistant with text that the template prints");
  text.resize(at + content.size());
}

// `mark`: what was put before special tokens in what the client said, to tell them from the template's own;
// empty when there were none.
OrderedJson template_variables(const ChatInput& input, const ModelTables& tables, std::string& mark) {
  OrderedJson said = OrderedJson::object();
  said["messages"] = input.messages;
  if (!input.tools.is_null()) said["tools"] = input.tools;
  if (!input.documents.is_null()) said["documents"] = input.documents;
  for (const auto& [name, value] : input.variables.items()) said[name] = value;
  if (!has_special(said, tables)) return said;  // rendered exactly as it came
  mark = unused_mark(dump_ordered(said));
  return marked(said, mark, tables);
}

// Some templates print the arguments of earlier calls as text, most as an object.
bool arguments_as_text(OrderedJson& messages) {
  bool any = false;
  for (OrderedJson& message : messages)
    if (message.contains("tool_calls"))
      for (OrderedJson& call : message["tool_calls"]) {
        OrderedJson& arguments = call["function"]["arguments"];
        any = any || !arguments.is_string();
        if (!arguments.is_string()) arguments = dump_ordered(arguments);
      }
  return any;
}

std::string render(const ChatTemplate& chat_template, OrderedJson& variables, int64_t now) {
  try {
    return chat_template.render(dump_ordered(variables), now);
  } catch (const Error& error) {
    if (arguments_as_text(variables["messages"])) return render(chat_template, variables, now);
    refuse("chat_template_error", "messages", printable(error.what(), 400));
  }
}

}  // namespace

ChatPrompt render_chat(const ChatInput& input, const ApiServices& services, const CallFacts& facts) {
  const ChatTemplate* chat_template = services.model.chat_template();
  tokenizer_of(services);
  if (!chat_template)
    refuse("no_chat_template", "messages",
        "this model has no chat template; use /v1/completions with a prompt of your own");
  std::string mark;
  OrderedJson variables = template_variables(input, services.grammars.tables(), mark);
  variables["add_generation_prompt"] = input.add_generation_prompt && !input.continue_final_message;
  variables["bos_token"] = services.model.bos_token();
  variables["eos_token"] = services.model.eos_token();
  std::string text = render(*chat_template, variables, facts.unix_time);
  if (input.continue_final_message) cut_after_last_message(variables["messages"].back(), text);
  check_text_length(services, text, "messages");
  return encode_marked(text, mark, services);
}

}  // namespace cheetah
