// SPDX-License-Identifier: MIT
// POST /v1/responses
#include <set>

#include "base/error.h"
#include "base/format.h"
#include "serve/api/chat_plan.h"
#include "serve/api/constraint.h"
#include "serve/api/failure.h"
#include "serve/api/reasoning_fields.h"
#include "serve/api/response_archive.h"
#include "serve/api/response_writer.h"

namespace cheetah {
namespace {

constexpr size_t kMaxItems = 4096;

// "input" as the messages of a chat: calls join the assistant's message before them.
class InputReader {
 public:
  OrderedJson read(const OrderedJson& input, const std::optional<std::string>& instructions) {
    if (instructions) messages_.push_back({{"role", "system"}, {"content", *instructions}});
    if (input.is_string()) {
      messages_.push_back({{"role", "user"}, {"content", input}});
      return std::move(messages_);
    }
    if (!input.is_array() || input.empty())
      refuse("invalid_type", "input",
          format("input must be a string or a non-empty array, got {}", shown(input)));
    if (input.size() > kMaxItems)
      refuse("too_many_messages", "input",
          format("input has {} items, more than the limit of {}", input.size(), kMaxItems));
    for (size_t i = 0; i < input.size(); ++i) add(input[i], format("input[{}]", i));
    if (messages_.empty()) refuse("invalid_value", "input", "input has no message");
    return std::move(messages_);
  }

 private:
  void add(const OrderedJson& item, const std::string& path) {
    Fields fields(item, path);
    const std::string type = fields.string("type", 64).value_or("message");
    if (type == "message") return add_message(fields);
    if (type == "function_call") return add_call(fields);
    if (type == "function_call_output") return add_output(fields);
    if (type == "reasoning" || type == "item_reference") return;  // thoughts are not shown to the model again
    refuse("invalid_value", fields.param("type"),
        format("{} must be message, function_call, function_call_output or reasoning, got \"{}\"",
            fields.param("type"), printable(type)));
  }

  void add_message(Fields& fields) {
    const std::string role = fields.required_string("role", 64);
    if (role != "user" && role != "assistant" && role != "system" && role != "developer")
      refuse("invalid_value", fields.param("role"),
          format("{} must be one of user, assistant, system, developer, got \"{}\"", fields.param("role"),
              printable(role)));
    const OrderedJson* content = fields.find("content");
    if (!content) fields.missing("content");
    messages_.push_back({{"role", role}, {"content", content_text(*content, fields.param("content"))}});
  }

  void add_call(Fields& fields) {
    const std::string id = fields.required_string("call_id", 256);
    const OrderedJson function = {{"name", fields.required_string("name", 256)},
        {"arguments", fields.string("arguments", SIZE_MAX).value_or("{}")}};
    ids_.insert(id);
    if (messages_.empty() || messages_.back()["role"] != "assistant")
      messages_.push_back({{"role", "assistant"}, {"content", ""}});
    messages_.back()["tool_calls"].push_back({{"id", id}, {"type", "function"}, {"function", function}});
  }

  void add_output(Fields& fields) {
    const std::string id = fields.required_string("call_id", 256);
    if (!ids_.contains(id))
      refuse("invalid_value", fields.param("call_id"),
          format("{} must be the call_id of an earlier function_call, got \"{}\"", fields.param("call_id"),
              printable(id)));
    const OrderedJson* output = fields.find("output");
    if (!output) fields.missing("output");
    messages_.push_back(
        {{"role", "tool"}, {"tool_call_id", id}, {"content", content_text(*output, fields.param("output"))}});
  }

  OrderedJson messages_ = OrderedJson::array();
  std::set<std::string> ids_;
};

void refuse_unsupported(Fields& fields) {
  for (const std::string_view name : {"conversation", "prompt"})
    if (fields.has(name))
      refuse("unsupported_parameter", fields.param(name),
          format("{} is not supported: this server keeps no conversations; send them as input", name));
  if (fields.boolean("background").value_or(false))
    refuse("unsupported_parameter", "background", "background is not supported");
}

// As the items that clients read back: a text is one message of its user, and each has an id.
OrderedJson input_items(const OrderedJson& input, const std::string& key) {
  OrderedJson items = OrderedJson::array();
  if (input.is_string()) {
    const OrderedJson part = {{"type", "input_text"}, {"text", input}};
    items.push_back({{"type", "message"}, {"role", "user"}, {"content", OrderedJson::array({part})}});
  } else {
    items = input;
  }
  for (size_t i = 0; items.is_array() && i < items.size(); ++i) {
    if (!items[i].is_object()) continue;  // what is wrong is refused where it is read
    if (!items[i].contains("type")) items[i]["type"] = "message";
    if (!items[i].contains("id")) items[i]["id"] = format("item_{}_{}", key, i);
  }
  return items;
}

// The input with what was said before it, where it goes on from a response that was kept.
OrderedJson read_conversation(
    Fields& fields, const OrderedJson& input, const CallFacts& facts, ResponseEcho& echo) {
  const auto previous = fields.string("previous_response_id", 256);
  const OrderedJson items = input_items(input, facts.id);
  const bool keeps = fields.boolean("store").value_or(facts.archive != nullptr);
  if (keeps && facts.archive) {
    echo.archive = facts.archive;
    echo.tenant = facts.tenant;
    echo.input = items;
  }
  if (!previous) return input;
  if (!facts.archive)
    refuse("unsupported_parameter", "previous_response_id",
        "previous_response_id is not supported: this server keeps no responses (--response-store FILE does); send "
        "the conversation as input");
  auto before = facts.archive->conversation(facts.tenant, *previous);
  if (!before)
    refuse("previous_response_not_found", "previous_response_id",
        format("the response \"{}\" is not here, or one that it went on from is not", printable(*previous)),
        404);
  echo.previous = *previous;
  for (const OrderedJson& item : items) before->push_back(item);
  return *std::move(before);
}

std::shared_ptr<const GrammarProgram> read_text_format(
    Fields& fields, const ApiServices& services, ResponseEcho& echo) {
  const OrderedJson* text = fields.object("text");
  if (!text) return nullptr;
  Fields inner(*text, "text");
  const OrderedJson* wanted = inner.object("format");
  if (!wanted) return nullptr;
  echo.text_format = *wanted;
  return format_constraint(*wanted, "text.format", services);
}

void read_reasoning(Fields& fields, const ApiServices& services, ChatPlan& plan, ResponseEcho& echo) {
  const OrderedJson* reasoning = fields.object("reasoning");
  if (!reasoning) return;
  Fields inner(*reasoning, "reasoning");
  if (const auto effort = inner.string("effort", 32)) {
    read_reasoning_effort(*effort, "reasoning.effort", services, plan);
    echo.reasoning_effort = *effort;
  }
}

ChatPlan read_plan(Fields& fields, const ApiServices& services, const CallFacts& facts, ResponseEcho& echo,
    std::vector<std::string>& warnings) {
  ChatPlan plan;
  plan.messages_param = "input";
  check_model(fields, services);
  refuse_unsupported(fields);
  const OrderedJson* input = fields.find("input");
  if (!input) fields.missing("input");
  echo.instructions = fields.string("instructions", SIZE_MAX);
  const OrderedJson conversation = read_conversation(fields, *input, facts, echo);
  plan.input.messages = read_messages(InputReader().read(conversation, echo.instructions), "input");
  plan.style = make_style(services, facts, "resp_");
  plan.style.stream.stream = fields.boolean("stream").value_or(false);
  fields.object("stream_options");
  read_sampling(fields, services, facts, plan.request);
  if (plan.request.best_of > 1)
    refuse("unsupported_parameter", "n", "n is not supported here; send n requests");
  plan.max_tokens = echo.max_output_tokens = fields.integer("max_output_tokens", 1, INT32_MAX);
  plan.request.grammar = read_text_format(fields, services, echo);
  read_reasoning_budget(fields, plan, warnings);
  read_reasoning(fields, services, plan, echo);
  plan.tools = read_flat_tools(fields, warnings);
  plan.tool_choice = read_tool_choice(fields, plan.tools.get());
  plan.style.logprobs = fields.has("top_logprobs");
  plan.style.top_logprobs = static_cast<int>(fields.integer("top_logprobs", 0, 20).value_or(0));
  if (plan.style.logprobs) plan.request.top_logprobs = plan.style.top_logprobs;
  if (const OrderedJson* choice = fields.find("tool_choice")) echo.tool_choice = *choice;
  if (const OrderedJson* tools = fields.find("tools")) echo.tools = *tools;
  if (const OrderedJson* metadata = fields.object("metadata")) echo.metadata = *metadata;
  if (!facts.archive) fields.no_effect("store", {"false"});
  fields.no_effect("include", {"[]"});
  fields.no_effect("truncation", {R"("disabled")"});
  fields.no_effect("service_tier", {R"("auto")", R"("default")"});
  for (const std::string_view name : {"max_tool_calls", "prompt_cache_retention", "context_management"})
    fields.no_effect(name);
  fields.ignore({"prompt_cache_key", "safety_identifier", "client_metadata"});
  return plan;
}

}  // namespace

ApiResult parse_response(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  return guarded([&] {
    const OrderedJson json = parse_body(body);
    Fields fields(json, "");
    ApiCall call;
    ResponseEcho echo;
    ChatPlan plan = read_plan(fields, services, facts, echo, call.warnings);
    fields.finish(services.strict_fields, call.warnings);
    prepare(plan, services, facts, call.warnings);
    call.stream = plan.style.stream.stream;
    call.writer = make_response_writer(plan, std::move(echo));
    call.requests.push_back(std::move(plan.request));
    return call;
  });
}

}  // namespace cheetah
