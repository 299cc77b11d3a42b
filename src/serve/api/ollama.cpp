// SPDX-License-Identifier: MIT
// POST /api/chat and /api/generate
#include "serve/api/ollama.h"

#include <array>
#include <deque>

#include "base/format.h"
#include "engine/grammar/grammar_cache.h"
#include "model/model.h"
#include "model/template/chat_template.h"
#include "model/tokenizer/tokenizer.h"
#include "serve/api/constraint.h"
#include "serve/api/failure.h"
#include "serve/api/fill_in_middle.h"
#include "serve/api/json_text.h"
#include "serve/api/reasoning_fields.h"
#include "serve/api/sampler_fields.h"
#include "serve/api/wanted_model.h"

namespace cheetah {
namespace {

// Options of Ollama and the names we read them under.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kOptions = {
    {{"temperature", "temperature"}, {"top_p", "top_p"}, {"top_k", "top_k"}, {"min_p", "min_p"},
        {"repeat_penalty", "repetition_penalty"}, {"presence_penalty", "presence_penalty"},
        {"frequency_penalty", "frequency_penalty"}, {"seed", "seed"}, {"stop", "stop"},
        {"logit_bias", "logit_bias"}, {"repeat_last_n", "repeat_last_n"}}};

void refuse_images(const OrderedJson& object, const std::string& path) {
  const auto images = object.find("images");
  if (images == object.end() || images->is_null() || images->empty()) return;
  refuse("unsupported_content_part", path + "images",
      format("{}images cannot be read: this model reads text only; send the request without them", path));
}

// Ollama's calls have no ids and its results name the tool: both get the ids that other APIs send.
class MessageConverter {
 public:
  OrderedJson convert(const OrderedJson& messages) {
    OrderedJson result = OrderedJson::array();
    for (size_t i = 0; i < messages.size(); ++i) {
      if (!messages[i].is_object())
        refuse("invalid_type", format("messages[{}]", i), format("messages[{}] must be an object", i));
      refuse_images(messages[i], format("messages[{}].", i));
      result.push_back(convert_one(messages[i]));
    }
    return result;
  }

 private:
  OrderedJson convert_one(OrderedJson message) {
    if (message.contains("thinking")) message["reasoning_content"] = message["thinking"];
    if (!message.contains("content") || message["content"].is_null()) message["content"] = "";
    if (message.contains("tool_calls") && message["tool_calls"].is_array())
      for (OrderedJson& call : message["tool_calls"]) number(call);
    if (message.value("role", OrderedJson()) == "tool" && !message.contains("tool_call_id") &&
        !open_.empty()) {
      message["tool_call_id"] = open_.front();
      open_.pop_front();
    }
    return message;
  }

  void number(OrderedJson& call) {
    if (!call.is_object()) return;
    if (!call.contains("id")) call["id"] = format("call_{}", next_++);
    if (call["id"].is_string()) open_.push_back(call["id"]);
  }

  int64_t next_ = 0;
  std::deque<std::string> open_;  // calls without a result, in their order
};

OrderedJson renamed_options(Fields& options) {
  OrderedJson renamed = OrderedJson::object();
  for (const auto& [theirs, ours] : kOptions)
    if (const OrderedJson* value = options.find(theirs)) renamed[ours] = *value;
  for (const std::string_view name : kSamplerFields)
    if (const OrderedJson* value = options.find(name)) renamed[name] = *value;
  return renamed;
}

void read_options(Fields& fields, const ApiServices& services, const CallFacts& facts, ChatPlan& plan,
    std::vector<std::string>& warnings) {
  const OrderedJson none = OrderedJson::object();
  const OrderedJson* given = fields.object("options");
  Fields options(given ? *given : none, "options");
  const OrderedJson renamed = renamed_options(options);
  Fields sampling(renamed, "options");
  read_sampling(sampling, services, facts, plan.request);
  if (const auto most = options.integer("num_predict", -2, INT32_MAX); most && *most >= 0)
    plan.max_tokens = *most;
  if (const auto context = options.integer("num_ctx", 1, INT32_MAX);
      context && *context > services.max_context)
    warnings.push_back(
        format("options.num_ctx: this server's context holds {} tokens", services.max_context));
  options.ignore({"num_keep", "num_batch", "num_gpu", "main_gpu", "num_thread", "low_vram", "f16_kv",
      "use_mmap", "use_mlock", "vocab_only", "numa", "penalize_newline"});
  sampling.finish(false, warnings);
  options.finish(services.strict_fields, warnings);
}

void read_think(Fields& fields, const ApiServices& services, ChatPlan& plan) {
  const OrderedJson* think = fields.find("think");
  if (!think) return;
  if (!think->is_boolean() && !think->is_string())
    fields.wrong_type("think", *think, "true, false, low, medium or high");
  plan.input.variables["enable_thinking"] = !think->is_boolean() || think->get<bool>();
  if (think->is_string()) read_reasoning_effort(think->get<std::string>(), "think", services, plan);
}

void read_format(Fields& fields, const ApiServices& services, ChatPlan& plan) {
  const OrderedJson* wanted = fields.find("format");
  if (!wanted || *wanted == "") return;
  if (*wanted == "json")
    plan.request.grammar = compiled("format", [&] { return services.grammars.json_object(); });
  else
    plan.request.grammar = schema_constraint(*wanted, "format", services);
}

ChatPlan read_common(
    Fields& fields, const ApiServices& services, const CallFacts& facts, std::vector<std::string>& warnings) {
  ChatPlan plan;
  check_model(fields, services);
  plan.style = make_style(services, facts, "");
  plan.style.model = fields.required_string("model");
  plan.style.stream.stream = fields.boolean("stream").value_or(true);
  read_options(fields, services, facts, plan, warnings);
  read_think(fields, services, plan);
  read_format(fields, services, plan);
  fields.ignore({"keep_alive", "truncate", "shift"});
  return plan;
}

ApiCall call_of(ChatPlan& plan, bool chat, ApiCall call) {
  call.stream = plan.style.stream.stream;
  call.stream_type = kJsonLines;
  call.writer = make_ollama_writer(plan, chat);
  call.requests.push_back(std::move(plan.request));
  return call;
}

// Without anything to say a call asks for the model to be loaded, as it is.
ApiCall loaded(const ChatPlan& plan, bool chat, std::string_view body) {
  ApiCall call;
  call.body = format(R"({{"model":{},"created_at":"{}",{},"done":true,"done_reason":"{}"}})",
      json_string(plan.style.model), rfc3339(plan.style.created),
      chat ? R"("message":{"role":"assistant","content":""})" : R"("response":"")",
      wanted_model(body).keep_alive_s == 0 ? "unload" : "load");
  return call;
}

ApiCall chat(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  const OrderedJson json = parse_body(body);
  Fields fields(json, "");
  ApiCall call;
  ChatPlan plan = read_common(fields, services, facts, call.warnings);
  plan.tools = read_tools(fields);
  plan.tool_choice = {.mode = plan.tools ? ToolMode::kAuto : ToolMode::kNone, .named = {}};
  const OrderedJson* messages = fields.array("messages");
  fields.finish(services.strict_fields, call.warnings);
  if (!messages || messages->empty()) return loaded(plan, true, body);
  plan.input.messages = read_messages(MessageConverter().convert(*messages), "messages");
  prepare(plan, services, facts, call.warnings);
  return call_of(plan, true, std::move(call));
}

std::vector<int32_t> context_of(Fields& fields, const ApiServices& services) {
  std::vector<int32_t> ids;
  if (const OrderedJson* values = fields.array("context"))
    for (size_t i = 0; i < values->size(); ++i)
      ids.push_back(token_id_of((*values)[i], format("context[{}]", i), services.model.traits().vocab));
  return ids;
}

ApiCall generate(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  const OrderedJson json = parse_body(body);
  Fields fields(json, "");
  refuse_images(json, "");
  ApiCall call;
  ChatPlan plan = read_common(fields, services, facts, call.warnings);
  plan.messages_param = "prompt";
  const std::string prompt = fields.string("prompt", SIZE_MAX).value_or("");
  const std::string suffix = fields.string("suffix", SIZE_MAX).value_or("");
  const std::string system = fields.string("system", SIZE_MAX).value_or("");
  const bool raw = fields.boolean("raw").value_or(false) || !services.model.chat_template();
  const std::vector<int32_t> context = context_of(fields, services);
  fields.ignore({"images"});
  fields.no_effect("template", {R"("")"});
  fields.finish(services.strict_fields, call.warnings);
  if (prompt.empty() && suffix.empty() && context.empty()) return loaded(plan, false, body);
  std::vector<int32_t>& ids = plan.request.prompt;
  if (!suffix.empty()) {
    ids = fill_in_middle({.prefix = prompt, .suffix = suffix}, services, "suffix");
  } else if (raw) {
    check_text_length(services, prompt, "prompt");
    ids = tokenizer_of(services).encode(prompt, {.add_special = context.empty(), .parse_special = true});
  } else {
    OrderedJson messages = OrderedJson::array();
    if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
    messages.push_back({{"role", "user"}, {"content", prompt}});
    plan.input.messages = read_messages(messages, "messages");
    prepare(plan, services, facts, call.warnings);
  }
  ids.insert(ids.begin(), context.begin(), context.end());
  fit_to_context(services, plan.max_tokens, plan.request, "prompt", call.warnings);
  return call_of(plan, false, std::move(call));
}

}  // namespace

ApiResult parse_ollama_chat(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  return guarded([&] { return chat(body, services, facts); });
}

ApiResult parse_ollama_generate(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  return guarded([&] { return generate(body, services, facts); });
}

}  // namespace cheetah
