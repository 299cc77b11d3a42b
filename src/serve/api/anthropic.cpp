// SPDX-License-Identifier: MIT
// POST /v1/messages and /v1/messages/count_tokens, as Anthropic's clients send them.
#include <set>

#include "base/error.h"
#include "base/format.h"
#include "serve/api/anthropic_writer.h"
#include "serve/api/chat_plan.h"
#include "serve/api/failure.h"
#include "serve/api/reasoning_fields.h"

namespace cheetah {
namespace {

// Messages of content blocks as the messages of a chat: results of tools become messages of their own.
class BlockReader {
 public:
  OrderedJson read(Fields& fields) {
    if (const OrderedJson* system = fields.find("system"))
      messages_.push_back({{"role", "system"}, {"content", content_text(*system, "system")}});
    const OrderedJson* list = fields.find("messages");
    if (!list) fields.missing("messages");
    if (!list->is_array() || list->empty())
      refuse(list->is_array() ? "invalid_value" : "invalid_type", "messages",
          format("messages must be a non-empty array, got {}", shown(*list)));
    for (size_t i = 0; i < list->size(); ++i) add((*list)[i], format("messages[{}]", i));
    return std::move(messages_);
  }

 private:
  void add(const OrderedJson& message, const std::string& path) {
    Fields fields(message, path);
    const std::string role = fields.required_string("role", 64);
    if (role != "user" && role != "assistant" && role != "system")
      refuse("invalid_value", fields.param("role"),
          format("{} must be user or assistant, got \"{}\"", fields.param("role"), printable(role)));
    const OrderedJson* content = fields.find("content");
    if (!content) fields.missing("content");
    OrderedJson said = {{"role", role}, {"content", ""}};
    if (content->is_array())
      for (size_t i = 0; i < content->size(); ++i)
        add_block((*content)[i], format("{}[{}]", fields.param("content"), i), said);
    else
      said["content"] = content_text(*content, fields.param("content"));
    const bool empty = said["content"].get_ref<const std::string&>().empty();
    if (!empty || said.contains("tool_calls") || !content->is_array() || content->empty())
      messages_.push_back(std::move(said));
  }

  void add_block(const OrderedJson& block, const std::string& path, OrderedJson& said) {
    Fields fields(block, path);
    const std::string type = fields.required_string("type", 64);
    if (type == "tool_use") return add_call(fields, said);
    if (type == "tool_result") return add_result(fields);
    if (type == "redacted_thinking") return;
    if (type == "thinking") {
      said["reasoning_content"] = fields.string("thinking", SIZE_MAX).value_or("");
      return;
    }
    if (type != "text")
      refuse("unsupported_content_part", path,
          format(
              "{} has type \"{}\"; this model reads text, tool_use and tool_result", path, printable(type)));
    std::string text = said["content"];
    if (!text.empty()) text += '\n';
    said["content"] = text + content_text(OrderedJson::array({block}), path);
  }

  void add_call(Fields& fields, OrderedJson& said) {
    const OrderedJson* input = fields.find("input");
    const std::string id = fields.required_string("id", 256);
    ids_.insert(id);
    said["tool_calls"].push_back({{"id", fields.required_string("id", 256)}, {"type", "function"},
        {"function", {{"name", fields.required_string("name", 256)},
                         {"arguments", input ? dump_ordered(*input) : std::string("{}")}}}});
  }

  void add_result(Fields& fields) {
    const std::string id = fields.required_string("tool_use_id", 256);
    if (!ids_.contains(id))
      refuse("invalid_value", fields.param("tool_use_id"),
          format("{} must be the id of an earlier tool_use, got \"{}\"", fields.param("tool_use_id"),
              printable(id)));
    const OrderedJson* content = fields.find("content");
    messages_.push_back({{"role", "tool"}, {"tool_call_id", id},
        {"content", content ? content_text(*content, fields.param("content")) : std::string()}});
  }

  OrderedJson messages_ = OrderedJson::array();
  std::set<std::string> ids_;  // of the calls so far
};

std::shared_ptr<const ToolSet> read_message_tools(Fields& fields, std::vector<std::string>& warnings) {
  const OrderedJson* list = tool_list(fields);
  if (!list) return nullptr;
  auto set = std::make_shared<ToolSet>();
  for (size_t i = 0; i < list->size(); ++i) {
    Fields tool((*list)[i], format("tools[{}]", i));
    if (tool.string("type", 64).value_or("custom") == "custom")
      add_tool(*set, tool, tool.find("input_schema"), "input_schema");
    else
      warnings.push_back(format("tools[{}] runs elsewhere and was left out", i));
  }
  return set->tools.empty() ? nullptr : set;
}

// What the prompt depends on: all that count_tokens needs.
void read_prompt(
    Fields& fields, const ApiServices& services, ChatPlan& plan, std::vector<std::string>& warnings) {
  check_model(fields, services);
  plan.input.messages = read_messages(BlockReader().read(fields), "messages");
  plan.input.continue_final_message =
      plan.input.messages.back()["role"] == "assistant" && !plan.input.messages.back().contains("tool_calls");
  read_reasoning_budget(fields, plan, warnings);
  plan.tools = read_message_tools(fields, warnings);
  plan.tool_choice = read_tool_choice(fields, plan.tools.get());
  if (const OrderedJson* choice = fields.object("tool_choice")) {
    Fields inner(*choice, "tool_choice");
    if (inner.boolean("disable_parallel_tool_use").value_or(false)) plan.tool_choice.parallel = false;
  }
}

ChatPlan read_plan(
    Fields& fields, const ApiServices& services, const CallFacts& facts, std::vector<std::string>& warnings) {
  ChatPlan plan;
  read_prompt(fields, services, plan, warnings);
  plan.style = make_style(services, facts, "msg_");
  plan.style.stream.stream = fields.boolean("stream").value_or(false);
  read_sampling(fields, services, facts, plan.request);
  if (plan.request.best_of > 1)
    refuse("unsupported_parameter", "n", "n is not supported here; send n requests");
  read_stop(fields, "stop_sequences", plan.request);
  plan.max_tokens = fields.integer("max_tokens", 1, INT32_MAX);
  if (!plan.max_tokens) fields.missing("max_tokens");
  fields.object("metadata");
  fields.no_effect("service_tier", {R"("auto")", R"("standard_only")"});
  fields.no_effect("mcp_servers", {"[]"});
  for (const std::string_view name :
      {"container", "context_management", "output_config", "inference_geo", "speed"})
    fields.no_effect(name);
  fields.ignore({"betas"});
  return plan;
}

}  // namespace

ApiResult parse_message(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  return guarded([&] {
    const OrderedJson json = parse_body(body);
    Fields fields(json, "");
    ApiCall call;
    ChatPlan plan = read_plan(fields, services, facts, call.warnings);
    fields.finish(services.strict_fields, call.warnings);
    prepare(plan, services, facts, call.warnings);
    call.stream = plan.style.stream.stream;
    call.writer = make_anthropic_writer(plan);
    call.requests.push_back(std::move(plan.request));
    return call;
  });
}

ApiResult parse_count_tokens(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  return guarded([&] {
    const OrderedJson json = parse_body(body);
    Fields fields(json, "");
    ApiCall call;
    ChatPlan plan;
    read_prompt(fields, services, plan, call.warnings);
    place_tools(plan, services);
    call.body = format("{{\"input_tokens\":{}}}", render_chat(plan.input, services, facts).ids.size());
    return call;
  });
}

}  // namespace cheetah
