// SPDX-License-Identifier: MIT
// POST /tokenize and /detokenize, with the names that llama.cpp's and vLLM's clients use.
#include "base/format.h"
#include "engine/grammar/grammar_cache.h"
#include "model/model.h"
#include "model/tokenizer/tokenizer.h"
#include "serve/api/answer.h"
#include "serve/api/chat_plan.h"
#include "serve/api/failure.h"
#include "serve/api/json_text.h"

namespace cheetah {
namespace {

std::vector<int32_t> tokens_of(Fields& fields, const ApiServices& services, const CallFacts& facts) {
  const Tokenizer& tokenizer = tokenizer_of(services);
  const bool new_name = fields.boolean("add_special_tokens").value_or(true);
  const bool old_name = fields.boolean("add_special").value_or(false);
  const bool parse_special = fields.boolean("parse_special").value_or(true);
  if (const OrderedJson* messages = fields.find("messages")) {
    ChatPlan plan;
    plan.input.messages = read_messages(*messages, "messages");
    plan.tools = read_tools(fields);
    plan.tool_choice = read_tool_choice(fields, plan.tools.get());
    plan.input.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
    place_tools(plan, services);
    return render_chat(plan.input, services, facts).ids;
  }
  for (const std::string_view name : {"prompt", "content"})
    if (const OrderedJson* text = fields.find(name)) {
      if (!text->is_string()) fields.wrong_type(name, *text, "a string");
      const bool add_special = name == "prompt" ? new_name : old_name;
      return tokenizer.encode(
          text->get_ref<const std::string&>(), {.add_special = add_special, .parse_special = parse_special});
    }
  fields.missing("prompt");
}

std::string tokens_body(
    const std::vector<int32_t>& ids, bool strings, bool pieces, const ApiServices& services) {
  const ModelTables& tables = services.grammars.tables();
  std::string out = "{\"tokens\":";
  if (pieces) {
    for (size_t i = 0; i < ids.size(); ++i)
      out += format("{}{{\"id\":{},\"piece\":{}}}", i == 0 ? '[' : ',', ids[i],
          json_string(tables.token_bytes(ids[i])));
    out += ids.empty() ? "[]" : "]";
  } else {
    append_ids(out, ids);
  }
  out += format(",\"count\":{},\"max_model_len\":{}", ids.size(), services.max_context);
  if (strings) {
    out += ",\"token_strs\":";
    for (size_t i = 0; i < ids.size(); ++i)
      out += format("{}{}", i == 0 ? '[' : ',', json_string(tables.token_bytes(ids[i])));
    out += ids.empty() ? "[]" : "]";
  }
  return out + "}";
}

ApiCall tokenize(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  const OrderedJson json = parse_body(body);
  Fields fields(json, "");
  check_model(fields, services, true);
  const std::vector<int32_t> ids = tokens_of(fields, services, facts);
  const bool strings = fields.boolean("return_token_strs").value_or(false);
  const bool pieces = fields.boolean("with_pieces").value_or(false);
  ApiCall call;
  fields.finish(services.strict_fields, call.warnings);
  call.body = tokens_body(ids, strings, pieces, services);
  return call;
}

ApiCall detokenize(std::string_view body, const ApiServices& services) {
  const OrderedJson json = parse_body(body);
  Fields fields(json, "");
  check_model(fields, services, true);
  const Tokenizer& tokenizer = tokenizer_of(services);
  const OrderedJson* values = fields.array("tokens");
  if (!values) fields.missing("tokens");
  std::vector<int32_t> ids;
  for (size_t i = 0; i < values->size(); ++i)
    ids.push_back(token_id_of((*values)[i], format("tokens[{}]", i), services.model.traits().vocab));
  ApiCall call;
  fields.finish(services.strict_fields, call.warnings);
  const std::string text = json_string(tokenizer.decode(ids, false));
  call.body = format("{{\"prompt\":{},\"content\":{}}}", text, text);
  return call;
}

}  // namespace

ApiResult parse_tokenize(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  return guarded([&] { return tokenize(body, services, facts); });
}

ApiResult parse_detokenize(std::string_view body, const ApiServices& services, const CallFacts&) {
  return guarded([&] { return detokenize(body, services); });
}

}  // namespace cheetah
