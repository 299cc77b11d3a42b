// SPDX-License-Identifier: MIT
// Tools on their way into the prompt and out of the answer.
#include <cstdint>

#include "base/format.h"
#include "engine/grammar/grammar_cache.h"
#include "engine/grammar/grammar_tree.h"
#include "model/model.h"
#include "model/template/chat_template.h"
#include "serve/api/chat_plan.h"
#include "serve/api/constraint.h"
#include "serve/api/failure.h"

namespace cheetah {
namespace {

bool template_says(const ApiServices& services, std::string_view word) {
  const ChatTemplate* chat_template = services.model.chat_template();
  return chat_template && chat_template->source().find(word) != std::string_view::npos;
}

std::string tools_in_words(const ToolSet& tools) {
  std::string text = "You can call these tools:\n";
  for (const OrderedJson& definition : tools.definitions) text += dump_ordered(definition["function"]) + "\n";
  return text +
         "To call one, answer with nothing but a JSON object: "
         "{\"name\": the tool's name, \"arguments\": an object with its arguments}";
}

// For templates that know no tools: the definitions go into the system message, calls and results into the
// messages around them.
void say_in_words(ChatPlan& plan) {
  OrderedJson messages = OrderedJson::array();
  for (const OrderedJson& message : plan.input.messages) {
    const std::string role = message["role"];
    std::string content = message["content"];
    if (message.contains("tool_calls"))
      for (const OrderedJson& call : message["tool_calls"]) {
        if (!content.empty()) content += '\n';
        content += dump_ordered(call["function"]);
      }
    if (role == "tool")
      content = format("Result of {}: {}", message["name"].get_ref<const std::string&>(), content);
    messages.push_back({{"role", role == "tool" ? "user" : role}, {"content", content}});
  }
  if (!plan.input.tools.is_null()) {
    const std::string words = tools_in_words(*plan.tools);
    if (messages.front()["role"] == "system")
      messages.front()["content"] = messages.front()["content"].get<std::string>() + "\n\n" + words;
    else
      messages.insert(messages.begin(), OrderedJson{{"role", "system"}, {"content", words}});
    plan.input.tools = nullptr;
  }
  plan.input.messages = std::move(messages);
}

// Nine letters and digits that stand for an id: some templates insist on that length.
std::string nine_characters(std::string_view id) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  std::string result;
  for (int i = 0; i < 9; ++i, hash /= 36) result += "0123456789abcdefghijklmnopqrstuvwxyz"[hash % 36];
  return result;
}

void shorten_ids(OrderedJson& messages) {
  const auto shorten = [](OrderedJson& id) {
    if (id.get_ref<const std::string&>().size() != 9) id = nine_characters(id.get_ref<const std::string&>());
  };
  for (OrderedJson& message : messages) {
    if (message.contains("tool_call_id")) shorten(message["tool_call_id"]);
    if (message.contains("tool_calls"))
      for (OrderedJson& call : message["tool_calls"]) shorten(call["id"]);
  }
}

// What developers say is a system message where the template knows only that; it joins one that comes before it,
// since many templates read the first alone.
void developer_to_system(OrderedJson& messages) {
  OrderedJson result = OrderedJson::array();
  for (OrderedJson& message : messages) {
    const bool developer = message["role"] == "developer";
    if (developer) message["role"] = "system";
    if (developer && !result.empty() && result.back()["role"] == "system")
      result.back()["content"] =
          result.back()["content"].get<std::string>() + "\n\n" + message["content"].get<std::string>();
    else
      result.push_back(std::move(message));
  }
  messages = std::move(result);
}

bool has_special(const ToolDialect& dialect, const ModelTables& tables) {
  bool any = tables.has_special(dialect.trigger) || tables.has_special(dialect.close) ||
             tables.has_special(dialect.after_name);
  for (const std::string_view wrapper : dialect.wrappers) any = any || tables.has_special(wrapper);
  return any;
}

std::vector<ToolUse> allowed_tools(const ChatPlan& plan) {
  if (plan.tool_choice.named.empty()) return plan.tools->tools;
  return {*plan.tools->find(plan.tool_choice.named)};
}

// Calls that must come are held to their form by a grammar, in the model's own dialect where text can say it.
void require_calls(ChatPlan& plan, const ToolDialect& own, bool own_is_text, const ApiServices& services) {
  if (plan.request.grammar)
    refuse("conflicting_parameters", "tool_choice",
        "tool_choice requires a tool call, so the answer cannot follow another format as well");
  const bool use_own = own.shape == CallShape::kJson && own_is_text && !own.close.empty();
  plan.shape.dialect = use_own ? &own : &json_dialect();
  const bool many = plan.tool_choice.parallel && plan.tool_choice.named.empty();
  const ToolCallFormat wanted =
      call_format(*plan.shape.dialect, allowed_tools(plan), 1, many ? kUnbounded : 1, false);
  plan.request.grammar = compiled("tools", [&] { return services.grammars.tool_calls(wanted); });
  plan.shape.reasoning_open.clear();
  plan.shape.harmony = false;
}

}  // namespace

void place_tools(ChatPlan& plan, const ApiServices& services) {
  if (!template_says(services, "developer")) developer_to_system(plan.input.messages);
  const bool offered = plan.tools && plan.tool_choice.mode != ToolMode::kNone;
  if (offered) plan.input.tools = plan.tools->definitions;
  if (!template_says(services, "tools")) return say_in_words(plan);
  if (template_says(services, "length != 9")) shorten_ids(plan.input.messages);
}

void expect_calls(ChatPlan& plan, const ApiServices& services, std::string_view prompt) {
  if (!plan.tools || plan.tool_choice.mode == ToolMode::kNone) return;
  const ToolDialect& own = template_says(services, "tools")
                               ? find_dialect(services.model.chat_template()->source())
                               : json_dialect();
  const bool own_is_text = !has_special(own, services.grammars.tables());
  plan.shape.tools = plan.tools;
  plan.shape.dialect = &own;
  if (plan.tool_choice.mode == ToolMode::kRequired) return require_calls(plan, own, own_is_text, services);
  if (plan.shape.harmony) return;
  if (!own_is_text) plan.request.skip_special = false;  // the marks must be seen to be found
  plan.shape.begins_in_call =
      own.shape == CallShape::kNamed && !own.trigger.empty() && prompt.ends_with(own.trigger);
  bool strict = false;
  for (const ToolUse& tool : plan.tools->tools) strict = strict || tool.strict;
  if (!strict || plan.request.grammar || own.shape != CallShape::kJson || !own_is_text ||
      own.trigger.empty() || !plan.shape.reasoning_open.empty())
    return;
  const ToolCallFormat wanted =
      call_format(own, plan.tools->tools, 0, plan.tool_choice.parallel ? kUnbounded : 1, true);
  plan.request.grammar = compiled("tools", [&] { return services.grammars.tool_calls(wanted); });
}

}  // namespace cheetah
