// POST /v1/completions
#include "base/format.h"
#include "model/model.h"
#include "model/tokenizer/tokenizer.h"
#include "serve/api/completion_writer.h"
#include "serve/api/constraint.h"
#include "serve/api/failure.h"

namespace cheetah {
namespace {

constexpr size_t kMaxPrompts = 128;

struct Prompt {
  std::string param;
  std::vector<int32_t> ids;
  std::string text;  // for echo
};

// "prompt" in its four forms: a text, texts, token ids, lists of token ids.
class PromptReader {
 public:
  PromptReader(Fields& fields, const ApiServices& services)
      : services_(services), add_special_(fields.boolean("add_special_tokens").value_or(true)) {
    const OrderedJson* value = fields.find("prompt");
    if (!value) fields.missing("prompt");
    if (value->is_string()) {
      add_text(*value, "prompt");
      return;
    }
    if (!value->is_array() || value->empty())
      fields.wrong_type("prompt", *value, "a string, strings, token ids or lists of token ids");
    if (value->front().is_number())
      add_ids(*value, "prompt");
    else
      read_many(*value);
  }
  std::vector<Prompt> prompts;

 private:
  void read_many(const OrderedJson& list) {
    if (list.size() > kMaxPrompts)
      refuse("invalid_value", "prompt",
             format("prompt has {} items, more than the limit of {}", list.size(), kMaxPrompts));
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string param = format("prompt[{}]", i);
      if (list[i].type() != list.front().type() || (!list[i].is_string() && !list[i].is_array()))
        refuse("invalid_type", param,
               format("{} must be of the same kind as the items before it, text or token ids, got {}", param,
                      shown(list[i])));
      if (list[i].is_string())
        add_text(list[i], param);
      else
        add_ids(list[i], param);
    }
  }

  void add_text(const OrderedJson& value, const std::string& param) {
    const auto& text = value.get_ref<const std::string&>();
    const Tokenizer& tokenizer = tokenizer_of(services_);
    check_text_length(services_, text, param);
    Prompt prompt{param, tokenizer.encode(text, {.add_special = add_special_, .parse_special = true}), text};
    add(std::move(prompt));
  }

  void add_ids(const OrderedJson& values, const std::string& param) {
    Prompt prompt{param, {}, {}};
    if (std::ssize(values) > services_.max_context)
      context_exceeded(services_, param, format("{} tokens", values.size()));
    for (size_t i = 0; i < values.size(); ++i)
      prompt.ids.push_back(
          token_id_of(values[i], format("{}[{}]", param, i), services_.model.traits().vocab));
    if (const Tokenizer* tokenizer = services_.model.tokenizer())
      prompt.text = tokenizer->decode(prompt.ids, false);
    add(std::move(prompt));
  }

  void add(Prompt&& prompt) {
    if (prompt.ids.empty() && services_.model.traits().bos_id >= 0)
      prompt.ids.push_back(services_.model.traits().bos_id);
    if (prompt.ids.empty())
      refuse("empty_prompt", prompt.param,
             format("{} has no tokens and the model has no token to begin with", prompt.param));
    prompts.push_back(std::move(prompt));
  }

  const ApiServices& services_;
  bool add_special_;
};

void read_logprobs(Fields& fields, CompletionStyle& style, GenerationRequest& request) {
  const auto top = fields.integer("logprobs", 0, 20);
  if (!top) return;
  style.logprobs = true;
  style.top_logprobs = static_cast<int>(*top);
  request.top_logprobs = style.top_logprobs;
  request.prompt_logprobs = style.echo;
  if (style.echo && style.stream.stream)
    refuse("conflicting_parameters", "logprobs", "echo with logprobs cannot be streamed");
}

void read_fields(Fields& fields, const ApiServices& services, const CallFacts& facts, CompletionStyle& style,
                 GenerationRequest& request) {
  static_cast<AnswerStyle&>(style) = make_style(services, facts, "cmpl-");
  style.stream = read_stream(fields);
  style.echo = fields.boolean("echo").value_or(false);
  read_sampling(fields, services, facts, request);
  read_logprobs(fields, style, request);
  if (style.stream.stream && request.best_of > request.n)
    refuse("conflicting_parameters", "best_of", "best_of cannot be used with \"stream\": true");
  if (const auto suffix = fields.string("suffix", SIZE_MAX); suffix && !suffix->empty())
    refuse("unsupported_parameter", "suffix", "suffix is not supported; put the text into the prompt");
  request.grammar = read_constraint(fields, services);
  style.token_ids = fields.boolean("return_token_ids").value_or(false);
  style.timings = fields.boolean("timings").value_or(false) || facts.timings;
  style.n = request.n;
  fields.ignore({"request_id", "session_id", "cache_prompt", "metadata", "store"});
}

ApiCall parse(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  const OrderedJson json = parse_body(body);
  Fields fields(json, "");
  check_model(fields, services);
  PromptReader reader(fields, services);
  ApiCall call;
  CompletionStyle style;
  GenerationRequest request;
  read_fields(fields, services, facts, style, request);
  const auto max_tokens = fields.integer("max_tokens", style.echo ? 0 : 1, INT32_MAX);
  const auto truncate_to = fields.integer("truncate_prompt_tokens", 1, services.max_context);
  fields.finish(services.strict_fields, call.warnings);
  for (Prompt& prompt : reader.prompts) {
    if (truncate_to && std::ssize(prompt.ids) > *truncate_to)
      prompt.ids.erase(prompt.ids.begin(), prompt.ids.end() - static_cast<std::ptrdiff_t>(*truncate_to));
    request.prompt = std::move(prompt.ids);
    fit_to_context(services, max_tokens.value_or(16), request, prompt.param, call.warnings);
    call.requests.push_back(request);
    if (style.echo) style.echoed.push_back(std::move(prompt.text));
  }
  call.stream = style.stream.stream;
  call.wants_timings = style.timings;
  call.writer = make_completion_writer(std::move(style), call.requests);
  return call;
}

}  // namespace

ApiResult parse_completion(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  return guarded([&] { return parse(body, services, facts); });
}

}  // namespace cheetah
