// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "serve/api/chat_plan.h"
#include "serve/api/response_archive.h"

namespace cheetah {

// What a response repeats of its request.
struct ResponseEcho {
  std::optional<std::string> instructions, reasoning_effort;
  std::optional<int64_t> max_output_tokens;
  OrderedJson text_format = {{"type", "text"}};
  OrderedJson tool_choice = "auto";
  OrderedJson tools = OrderedJson::array();
  OrderedJson metadata = OrderedJson::object();
  std::string previous;  // the response it goes on from; "": none
  // Where it is kept once it is complete; nullptr: nowhere. Outlives every answer.
  ResponseArchive* archive = nullptr;
  std::string tenant;
  OrderedJson input;  // its items
};

// Answers of /v1/responses, whole or as server-sent events.
std::unique_ptr<ResponseWriter> make_response_writer(const ChatPlan& plan, ResponseEcho echo);

}  // namespace cheetah
