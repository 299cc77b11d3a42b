// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "model/model.h"

namespace cheetah {

struct ChatMessage {
  std::string role;
  std::string content;
};

// The prompt for the assistant's next message, as the model's chat template writes it. Throws Error when the
// model has no template or no tokenizer.
std::vector<int32_t> chat_prompt(const Model& model, const std::vector<ChatMessage>& messages);

// Removes the oldest exchanges (a user message and what follows it up to the next) after the system message
// until the prompt leaves `reserve` of `capacity` tokens free; the last user message stays. Returns how many
// messages went.
int64_t drop_oldest(
    const Model& model, std::vector<ChatMessage>& messages, int64_t capacity, int64_t reserve);

// A conversation as /save writes it and /load reads it. Throws Error naming `what` when it is none.
Json conversation_json(const std::string& model, const std::vector<ChatMessage>& messages);
std::vector<ChatMessage> conversation_from_json(const Json& saved, const std::string& what);

}  // namespace cheetah
