// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "serve/api/chat_plan.h"

namespace cheetah {

// What a response repeats of its request.
struct ResponseEcho {
  std::optional<std::string> instructions, reasoning_effort;
  std::optional<int64_t> max_output_tokens;
  OrderedJson text_format = {{"type", "text"}};
  OrderedJson tool_choice = "auto";
  OrderedJson tools = OrderedJson::array();
  OrderedJson metadata = OrderedJson::object();
};

// Answers of /v1/responses, whole or as server-sent events.
std::unique_ptr<ResponseWriter> make_response_writer(const ChatPlan& plan, ResponseEcho echo);

}  // namespace cheetah
