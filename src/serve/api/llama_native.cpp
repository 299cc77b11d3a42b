// SPDX-License-Identifier: MIT
// POST /completion, /infill and /apply-template, and GET /props and /slots, as llama.cpp's server has them.
#include "serve/api/llama_native.h"

#include <algorithm>
#include <array>

#include "base/format.h"
#include "engine/grammar/grammar_cache.h"
#include "model/model.h"
#include "model/template/chat_template.h"
#include "model/tokenizer/tokenizer.h"
#include "serve/api/chat_plan.h"
#include "serve/api/constraint.h"
#include "serve/api/failure.h"
#include "serve/api/fill_in_middle.h"
#include "serve/api/json_text.h"
#include "serve/api/prompts.h"
#include "serve/api/sampler_fields.h"

namespace cheetah {
namespace {

// Names that differ from those read_sampling() knows.
constexpr std::array<std::pair<std::string_view, std::string_view>, 15> kSampling = {
    {{"temperature", "temperature"}, {"top_k", "top_k"}, {"top_p", "top_p"}, {"min_p", "min_p"},
        {"seed", "seed"}, {"repeat_penalty", "repetition_penalty"}, {"presence_penalty", "presence_penalty"},
        {"frequency_penalty", "frequency_penalty"}, {"stop", "stop"}, {"ignore_eos", "ignore_eos"},
        {"n", "n"}, {"priority", "priority"}, {"cache_salt", "cache_salt"}, {"timeout", "timeout"},
        {"user", "user"}}};

OrderedJson settings_json(const GenerationRequest& request) {
  const SamplingParams& sampling = request.sampling;
  OrderedJson settings = {{"n_predict", request.max_tokens}, {"seed", request.seed},
      {"temperature", sampling.temperature}, {"top_k", sampling.top_k}, {"top_p", sampling.top_p},
      {"min_p", sampling.min_p}, {"repeat_penalty", sampling.repetition_penalty},
      {"presence_penalty", sampling.presence_penalty}, {"frequency_penalty", sampling.frequency_penalty},
      {"stop", request.stop}, {"ignore_eos", request.ignore_eos}, {"max_tokens", request.max_tokens}};
  append_samplers(request, settings);
  return settings;
}

struct NativeStyle : AnswerStyle {
  std::vector<std::string> prompts, settings;  // of each request
};

class NativeWriter : public ResponseWriter {
 public:
  NativeWriter(NativeStyle style, const std::vector<GenerationRequest>& requests)
      : style_(std::move(style)), choices_(requests.size()) {
    for (size_t i = 0; i < requests.size(); ++i) choices_[i].prompt_tokens = std::ssize(requests[i].prompt);
  }

  std::string on_event(size_t index, const GenerationEvent& event) override {
    if (failed_) return "";
    if (is_failure(event)) {
      error_ = generation_error(event);
      return style_.stream.stream ? fail(*error_) : "";
    }
    Choice& choice = choices_[index];
    choice.text += event.text;
    choice.count += std::ssize(event.tokens);
    choice.tokens.insert(choice.tokens.end(), event.tokens.begin(), event.tokens.end());
    if (event.finish) choice.last = event;
    if (!style_.stream.stream) return "";
    std::string out;
    if (!event.text.empty() || !event.tokens.empty()) out = sse_data(piece(index, event));
    if (event.finish) out += sse_data(whole(index, ""));
    return out;
  }

  std::string finish() override {
    if (failed_ || style_.stream.stream) return "";
    if (error_) return error_body(*error_, ApiStyle::kOpenAi);
    if (choices_.size() == 1) return whole(0, choices_[0].text);
    std::string out;
    for (size_t i = 0; i < choices_.size(); ++i) out += (i > 0 ? "," : "[") + whole(i, choices_[i].text);
    return out + "]";
  }

  std::string fail(const ApiError& error) override {
    if (std::exchange(failed_, true)) return "";
    return sse_data(error_body(error, ApiStyle::kOpenAi));
  }

 private:
  struct Choice {
    std::string text;
    std::vector<GeneratedToken> tokens;
    GenerationEvent last;
    int64_t prompt_tokens = 0, count = 0;
  };

  std::string piece(size_t index, const GenerationEvent& event) const {
    std::string out = format("{{\"index\":{},\"content\":", index);
    append_quoted(out, event.text);
    out += ",\"tokens\":";
    append_ids(out, ids_of(event.tokens));
    out += format(R"(,"stop":false,"id_slot":{},"tokens_predicted":{},"tokens_evaluated":{})", index,
        choices_[index].count, choices_[index].prompt_tokens);
    return out + probabilities(event.tokens) + "}";
  }

  std::string whole(size_t index, std::string_view text) const {
    const Choice& choice = choices_[index];
    const bool word = !choice.last.stop_string.empty();
    const bool limit = choice.last.finish && choice.last.finish != FinishReason::kStop;
    std::string out = format("{{\"index\":{},\"content\":", index);
    append_quoted(out, text);
    out += ",\"tokens\":";
    append_ids(
        out, style_.token_ids && !style_.stream.stream ? ids_of(choice.tokens) : std::vector<int32_t>());
    out += format(
        R"(,"id_slot":{},"stop":true,"model":{},"tokens_predicted":{},"tokens_evaluated":{},"generation_settings":{},)",
        index, json_string(style_.model), choice.count, choice.prompt_tokens, style_.settings[index]);
    out += format(R"("prompt":{},"has_new_line":{},"truncated":false,"stop_type":"{}","stopping_word":{},)",
        json_string(style_.prompts[index]), choice.text.find('\n') != std::string::npos,
        word    ? "word"
        : limit ? "limit"
                : "eos",
        json_string(choice.last.stop_string));
    out += format(R"("tokens_cached":{},"timings":{})", choice.last.cached_tokens, timings_json(choice.last));
    return out + (style_.stream.stream ? "" : probabilities(choice.tokens)) + "}";
  }

  static std::vector<int32_t> ids_of(const std::vector<GeneratedToken>& tokens) {
    std::vector<int32_t> ids;
    for (const GeneratedToken& token : tokens) ids.push_back(token.id);
    return ids;
  }

  std::string probabilities(const std::vector<GeneratedToken>& tokens) const {
    if (!style_.logprobs) return "";
    std::string out = ",\"completion_probabilities\":[";
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0) out += ',';
      append_logprob(out, tokens[i], style_.top_logprobs, *style_.tables);
    }
    return out + "]";
  }

  NativeStyle style_;
  std::vector<Choice> choices_;
  std::optional<ApiError> error_;
  bool failed_ = false;
};

// Pairs [id or text, bias], or an object, as the object that read_sampling() knows.
OrderedJson biases_of(Fields& fields, const ApiServices& services) {
  const OrderedJson* given = fields.find("logit_bias");
  if (!given || given->is_object()) return given ? *given : OrderedJson();
  if (!given->is_array()) fields.wrong_type("logit_bias", *given, "an array of [token, bias] or an object");
  OrderedJson biases = OrderedJson::object();
  for (size_t i = 0; i < given->size(); ++i) {
    const OrderedJson& pair = (*given)[i];
    const std::string param = format("logit_bias[{}]", i);
    if (!pair.is_array() || pair.size() != 2)
      refuse("invalid_type", param, format("{} must be [token, bias], got {}", param, shown(pair)));
    const OrderedJson bias = pair[1] == false ? OrderedJson(-100) : pair[1];
    if (!pair[0].is_string()) {
      biases[format("{}", token_id_of(pair[0], param, services.model.traits().vocab))] = bias;
      continue;
    }
    for (const int32_t id :
        tokenizer_of(services).encode(pair[0].get<std::string>(), {.parse_special = true}))
      biases[format("{}", id)] = bias;
  }
  return biases;
}

void read_request(Fields& fields, const ApiServices& services, const CallFacts& facts, NativeStyle& style,
    GenerationRequest& request) {
  check_model(fields, services, true);
  static_cast<AnswerStyle&>(style) = make_style(services, facts, "cmpl-");
  style.stream.stream = fields.boolean("stream").value_or(false);
  OrderedJson renamed = OrderedJson::object();
  for (const auto& [theirs, ours] : kSampling)
    if (const OrderedJson* value = fields.find(theirs)) renamed[ours] = *value;
  for (const std::string_view name : kSamplerFields)
    if (const OrderedJson* value = fields.find(name)) renamed[name] = *value;
  if (renamed.contains("seed") && renamed["seed"] == -1) renamed.erase("seed");  // -1: any
  if (OrderedJson biases = biases_of(fields, services); !biases.is_null())
    renamed["logit_bias"] = std::move(biases);
  Fields sampling(renamed, "");
  read_sampling(sampling, services, facts, request);
  if (request.n > 1) refuse("unsupported_parameter", "n", "n is not supported here; send n requests");
  if (const auto top = fields.integer("n_probs", 0, 20); top && *top > 0) {
    style.logprobs = true;
    style.top_logprobs = static_cast<int>(*top);
    request.top_logprobs = style.top_logprobs;
  }
  request.grammar = read_constraint(fields, services);
  style.token_ids = fields.boolean("return_tokens").value_or(false);
  fields.ignore({"cache_prompt", "id_slot", "n_keep", "n_discard", "n_indent", "min_keep", "samplers",
      "timings_per_token", "response_fields", "repeat_last_n", "n_cache_reuse", "return_progress"});
  for (const std::string_view name : {"t_max_predict_ms", "post_sampling_probs", "lora", "dynatemp_range"})
    fields.no_effect(name, {"0", "0.0", "false", "[]"});
}

std::optional<int64_t> read_max_tokens(Fields& fields) {
  std::optional<int64_t> most = fields.integer("n_predict", -2, INT32_MAX);
  if (!most) most = fields.integer("max_tokens", -2, INT32_MAX);
  return most && *most >= 0 ? most : std::nullopt;
}

// Texts and token ids one after another, as one prompt.
Prompt mixed_prompt(const OrderedJson& parts, const ApiServices& services) {
  Prompt prompt{"prompt", {}, {}};
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].is_string()) {
      check_text_length(services, parts[i].get<std::string>(), "prompt");
      const std::vector<int32_t> ids = tokenizer_of(services).encode(
          parts[i].get<std::string>(), {.add_special = i == 0, .parse_special = true});
      prompt.ids.insert(prompt.ids.end(), ids.begin(), ids.end());
    } else {
      prompt.ids.push_back(token_id_of(parts[i], format("prompt[{}]", i), services.model.traits().vocab));
    }
  }
  if (services.model.tokenizer()) prompt.text = services.model.tokenizer()->decode(prompt.ids, false);
  return prompt;
}

bool is_mixed(const OrderedJson* prompt) {
  if (!prompt || !prompt->is_array()) return false;
  const bool numbers = std::ranges::any_of(*prompt, [](const OrderedJson& item) { return item.is_number(); });
  return numbers && std::ranges::any_of(*prompt, [](const OrderedJson& item) { return item.is_string(); });
}

ApiCall make_call(std::vector<Prompt> prompts, GenerationRequest request, std::optional<int64_t> max_tokens,
    NativeStyle style, const ApiServices& services, ApiCall call) {
  for (Prompt& prompt : prompts) {
    request.prompt = std::move(prompt.ids);
    fit_to_context(services, max_tokens, request, prompt.param, call.warnings);
    style.prompts.push_back(std::move(prompt.text));
    style.settings.push_back(dump_ordered(settings_json(request)));
    call.requests.push_back(request);
  }
  call.stream = style.stream.stream;
  call.writer = std::make_unique<NativeWriter>(std::move(style), call.requests);
  return call;
}

ApiCall completion(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  const OrderedJson json = parse_body(body);
  Fields fields(json, "");
  NativeStyle style;
  GenerationRequest request;
  read_request(fields, services, facts, style, request);
  const OrderedJson* given = fields.find("prompt");
  std::vector<Prompt> prompts;
  if (is_mixed(given))
    prompts.push_back(mixed_prompt(*given, services));
  else
    prompts = read_prompts(fields, services, {});
  const auto max_tokens = read_max_tokens(fields);
  ApiCall call;
  fields.finish(services.strict_fields, call.warnings);
  return make_call(
      std::move(prompts), std::move(request), max_tokens, std::move(style), services, std::move(call));
}

ApiCall infill(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  const OrderedJson json = parse_body(body);
  Fields fields(json, "");
  NativeStyle style;
  GenerationRequest request;
  read_request(fields, services, facts, style, request);
  MiddleGap gap{.prefix = fields.required_string("input_prefix", SIZE_MAX),
      .suffix = fields.required_string("input_suffix", SIZE_MAX)};
  gap.prefix += fields.string("prompt", SIZE_MAX).value_or("");
  if (const OrderedJson* extra = fields.array("input_extra"))
    for (size_t i = 0; i < extra->size(); ++i) {
      Fields file((*extra)[i], format("input_extra[{}]", i));
      gap.files.emplace_back(
          file.string("filename", 4096).value_or("file"), file.required_string("text", SIZE_MAX));
    }
  const auto max_tokens = read_max_tokens(fields);
  ApiCall call;
  fields.finish(services.strict_fields, call.warnings);
  std::vector<Prompt> prompts = {{"input_prefix", fill_in_middle(gap, services, "input_prefix"), gap.prefix}};
  return make_call(
      std::move(prompts), std::move(request), max_tokens, std::move(style), services, std::move(call));
}

ApiCall apply_template(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  const OrderedJson json = parse_body(body);
  Fields fields(json, "");
  check_model(fields, services, true);
  ChatPlan plan;
  const OrderedJson* messages = fields.find("messages");
  if (!messages) fields.missing("messages");
  plan.input.messages = read_messages(*messages, "messages");
  plan.tools = read_tools(fields);
  plan.tool_choice = read_tool_choice(fields, plan.tools.get());
  if (const OrderedJson* variables = fields.object("chat_template_kwargs")) plan.input.variables = *variables;
  plan.input.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
  ApiCall call;
  fields.finish(services.strict_fields, call.warnings);
  place_tools(plan, services);
  call.body = format("{{\"prompt\":{}}}", json_string(render_chat(plan.input, services, facts).text));
  return call;
}

}  // namespace

std::string llama_props(const ApiServices& services) {
  GenerationRequest request;
  const GenerationDefaults& defaults = services.defaults;
  request.max_tokens = -1;
  request.sampling = {.temperature = defaults.temperature.value_or(1),
      .top_k = defaults.top_k.value_or(0),
      .top_p = defaults.top_p.value_or(1),
      .min_p = defaults.min_p.value_or(0),
      .repetition_penalty = defaults.repetition_penalty.value_or(1)};
  const ChatTemplate* chat_template = services.model.chat_template();
  return dump_ordered(
      {{"default_generation_settings", {{"n_ctx", services.max_context}, {"params", settings_json(request)}}},
          {"total_slots", services.max_sequences}, {"model_path", services.model_name},
          {"model_alias", services.model_name}, {"modalities", {{"vision", false}, {"audio", false}}},
          {"chat_template", chat_template ? std::string(chat_template->source()) : std::string()},
          {"bos_token", services.model.bos_token()}, {"eos_token", services.model.eos_token()},
          {"build_info", services.system_fingerprint}});
}

std::string llama_slots(const ApiServices& services, int64_t running) {
  OrderedJson slots = OrderedJson::array();
  for (int64_t i = 0; i < services.max_sequences; ++i)
    slots.push_back({{"id", i}, {"n_ctx", services.max_context}, {"is_processing", i < running}});
  return dump_ordered(slots);
}

ApiResult parse_llama_completion(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  return guarded([&] { return completion(body, services, facts); });
}
ApiResult parse_llama_infill(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  return guarded([&] { return infill(body, services, facts); });
}
ApiResult parse_apply_template(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  return guarded([&] { return apply_template(body, services, facts); });
}

}  // namespace cheetah
