// SPDX-License-Identifier: MIT
#include "cli/conversation.h"

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/format.h"
#include "model/template/chat_template.h"
#include "model/tokenizer/tokenizer.h"

namespace cheetah {

std::vector<int32_t> chat_prompt(const Model& model, const std::vector<ChatMessage>& messages) {
  if (!model.tokenizer()) throw Error(format("{}: the model has no tokenizer", model.name()));
  if (!model.chat_template())
    throw Error(format("{}: the model has no chat template; use `cheetah generate`", model.name()));
  nlohmann::ordered_json variables;  // templates print objects in the order they were given
  variables["messages"] = nlohmann::ordered_json::array();
  for (const ChatMessage& message : messages)
    variables["messages"].push_back({{"role", message.role}, {"content", message.content}});
  variables["add_generation_prompt"] = true;
  variables["bos_token"] = model.bos_token();
  variables["eos_token"] = model.eos_token();
  const auto json = variables.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  const std::string prompt = model.chat_template()->render(json, std::time(nullptr));
  return model.tokenizer()->encode(prompt, {.add_special = false, .parse_special = true});
}

Json conversation_json(const std::string& model, const std::vector<ChatMessage>& messages) {
  Json list = Json::array();
  for (const ChatMessage& message : messages)
    list.push_back({{"role", message.role}, {"content", message.content}});
  return {{"model", model}, {"messages", std::move(list)}};
}

std::vector<ChatMessage> conversation_from_json(const Json& saved, const std::string& what) {
  const auto list = saved.is_object() ? saved.find("messages") : saved.end();
  if (list == saved.end() || !list->is_array())
    throw Error(format("{}: not a conversation: it has no list of messages", what));
  std::vector<ChatMessage> messages;
  for (const Json& item : *list) {
    const auto text = [&](const char* name) -> const std::string* {
      const auto found = item.is_object() ? item.find(name) : item.end();
      return found != item.end() && found->is_string() ? found->get_ptr<const std::string*>() : nullptr;
    };
    const std::string* role = text("role");
    const std::string* content = text("content");
    const bool known = role && (*role == "system" || *role == "user" || *role == "assistant");
    if (!known || !content)
      throw Error(format("{}: message {}: expected a role (system, user, assistant) and a content of text",
          what, messages.size() + 1));
    messages.push_back({*role, *content});
  }
  return messages;
}

int64_t drop_oldest(
    const Model& model, std::vector<ChatMessage>& messages, int64_t capacity, int64_t reserve) {
  const auto is_user = [](const ChatMessage& message) { return message.role == "user"; };
  int64_t dropped = 0;
  while (std::ssize(chat_prompt(model, messages)) + reserve > capacity) {
    const auto first = std::ranges::find_if(messages, is_user);
    if (first == messages.end()) return dropped;
    const auto next = std::find_if(first + 1, messages.end(), is_user);
    if (next == messages.end()) return dropped;
    dropped += next - first;
    messages.erase(first, next);
  }
  return dropped;
}

}  // namespace cheetah
