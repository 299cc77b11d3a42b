// SPDX-License-Identifier: MIT
#pragma once
// What the chat-like endpoints (chat completions, responses, messages) have in common: from a checked
// conversation to a request for the engine and to the way its answer is read.
#include <climits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/api/answer.h"
#include "serve/api/chat_input.h"
#include "serve/api/endpoint.h"
#include "serve/api/output_parser.h"
#include "serve/api/tools.h"

namespace cheetah {

struct ChatPlan {
  ChatInput input;
  std::optional<int64_t> max_tokens;        // nullopt: all that fits
  std::optional<int64_t> reasoning_tokens;  // at most so many of thoughts
  std::string reasoning_param;              // the field that says so
  bool reasoning_is_hint = false;           // it may be passed over in silence
  std::optional<int64_t> truncate_to;       // keep at most so many tokens of the prompt, the last ones
  std::string messages_param = "messages";
  std::shared_ptr<const ToolSet> tools;  // shared: with the parsers of the answer; nullptr: none were sent
  ToolChoice tool_choice;
  GenerationRequest request;
  AnswerStyle style;
  OutputShape shape;
};

// Renders and tokenizes the conversation into plan.request and finds out plan.shape.
void prepare(
    ChatPlan& plan, const ApiServices& services, const CallFacts& facts, std::vector<std::string>& warnings);

// The parts of it that concern tools: what the template gets of them …
void place_tools(ChatPlan& plan, const ApiServices& services);
// … and what the answer must look like for them to be found in it.
void expect_calls(ChatPlan& plan, const ApiServices& services, std::string_view prompt);

// What one choice of an answer has said so far.
struct ChatChoice {
  ChatChoice(const OutputShape& shape, bool parallel_calls)
      : parser(shape), max_calls(parallel_calls ? INT_MAX : 1) {}
  struct Call {
    std::string id, name, arguments;
  };

  // New parts of the answer, also added to the fields below.
  std::vector<OutputDelta> take(const GenerationEvent& event, const std::string& call_id_prefix);

  OutputParser parser;
  int max_calls;  // further ones are dropped
  std::string content, reasoning;
  std::vector<Call> calls;
  std::vector<GeneratedToken> tokens;  // kept when logprobs or ids are wanted
  std::optional<FinishReason> finish;
  std::string stop_string;
  bool started = false;  // the client knows of it
};

}  // namespace cheetah
