// SPDX-License-Identifier: MIT
#pragma once
// A conversation as every chat-like endpoint hands it to the model's template.
#include <cstdint>
#include <string>
#include <vector>

#include "serve/api/endpoint.h"
#include "serve/api/fields.h"

namespace cheetah {

struct ChatInput {
  OrderedJson messages = OrderedJson::array();    // {role, content, …}: contents are strings
  OrderedJson tools;                              // null, or an array in the chat endpoint's form
  OrderedJson documents;                          // null, or an array
  OrderedJson variables = OrderedJson::object();  // further ones for the template
  bool add_generation_prompt = true;
  bool continue_final_message = false;
};

// Checks and evens out the messages of a chat request: parts become one text, arguments of tool calls become
// objects, results of tools know the tool's name.
OrderedJson read_messages(const OrderedJson& messages, const std::string& path);
// A string, or an array of text parts, as one string; refuses parts that are not text.
std::string content_text(const OrderedJson& content, const std::string& param);

struct ChatPrompt {
  std::string text;
  std::vector<int32_t> ids;
};

// Special tokens written in the conversation itself stay plain text: only the template can open a turn.
ChatPrompt render_chat(const ChatInput& input, const ApiServices& services, const CallFacts& facts);

}  // namespace cheetah
