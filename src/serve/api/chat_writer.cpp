// SPDX-License-Identifier: MIT
#include "serve/api/chat_writer.h"

#include "base/format.h"
#include "engine/grammar/model_tables.h"
#include "serve/api/json_text.h"

namespace cheetah {
namespace {

using Kind = OutputDelta::Kind;

class ChatWriter : public ResponseWriter {
 public:
  explicit ChatWriter(const ChatPlan& plan)
      : style_(plan.style),
        usage_(std::ssize(plan.request.prompt), 1, !plan.request.prediction.empty()),
        prompt_ids_(plan.style.token_ids ? plan.request.prompt : std::vector<int32_t>()),
        choices_(static_cast<size_t>(plan.request.n), ChatChoice(plan.shape, plan.tool_choice.parallel)),
        call_prefix_("call_" + plan.style.id.substr(plan.style.id.find('-') + 1)) {
    head_ = format(R"("id":{},"object":"chat.completion{}","created":{},"model":{},"system_fingerprint":{},)",
        json_string(style_.id), style_.stream.stream ? ".chunk" : "", style_.created,
        json_string(style_.model), json_string(style_.fingerprint));
    chunk_head_ = format(R"(data: {{{}"service_tier":"default","choices":[)", head_);
  }

  std::string on_event(size_t index, const GenerationEvent& event) override {
    if (failed_) return "";
    ChatChoice& choice = choices_[static_cast<size_t>(event.choice)];
    if (is_failure(event)) {
      error_ = generation_error(event);
      return style_.stream.stream ? fail(*error_) : "";
    }
    const bool was_reasoning = choice.parser.in_reasoning();
    const std::vector<OutputDelta> deltas = choice.take(event, call_prefix_);
    usage_.add(index, event, was_reasoning);
    if (style_.timings && style_.logprobs) token_times_.add(event);
    if (event.done) last_ = event;
    if (style_.prompt_logprobs && !event.prompt_logprobs.empty() && prompt_logprobs_.empty())
      prompt_logprobs_ = prompt_logprobs_json(event.prompt_logprobs, *style_.tables);
    if (style_.stream.stream) return frames(choice, event, deltas);
    if (style_.logprobs || style_.token_ids)
      choice.tokens.insert(choice.tokens.end(), event.tokens.begin(), event.tokens.end());
    return "";
  }

  std::string finish() override {
    if (failed_) return "";
    if (!style_.stream.stream) return error_ ? error_body(*error_, ApiStyle::kOpenAi) : body();
    std::string out;
    if (style_.stream.include_usage)
      out = format("{}],\"usage\":{}{}}}\n\n", chunk_head_, usage_.json(), timings());
    return out + "data: [DONE]\n\n";
  }

  std::string fail(const ApiError& error) override {
    if (std::exchange(failed_, true)) return "";
    return sse_data(error_body(error, ApiStyle::kOpenAi)) + "data: [DONE]\n\n";
  }

 private:
  std::string timings() const {
    return style_.timings ? ",\"timings\":" + timings_json(last_, style_.logprobs ? &token_times_ : nullptr)
                          : std::string();
  }

  // ---- streaming: a prebuilt head, the delta, a short tail ----

  std::string frames(
      ChatChoice& choice, const GenerationEvent& event, const std::vector<OutputDelta>& deltas) {
    std::string out;
    if (!std::exchange(choice.started, true))
      frame(out, event, R"({"role":"assistant","content":""})", R"("logprobs":null,"finish_reason":null)");
    std::string extras = token_extras(event);
    for (const OutputDelta& delta : deltas) {
      frame(out, event, delta_json(choice, delta), extras + R"("finish_reason":null)");
      extras = R"("logprobs":null,)";
    }
    // Tokens whose text is held back, or that have none, are still told when the client wants tokens.
    const bool wants_tokens = style_.logprobs || style_.token_ids || !style_.tables->vocabulary();
    if (deltas.empty() && !event.tokens.empty() && wants_tokens)
      frame(out, event, R"({"content":""})", extras + R"("finish_reason":null)");
    if (event.finish)
      frame(out, event, "{}", R"("logprobs":null,)" + finish_json(choice), event.done ? timings() : "");
    return out;
  }

  void frame(std::string& out, const GenerationEvent& event, std::string_view delta, std::string_view rest,
      const std::string& last = "") {
    out += chunk_head_;
    out += format(R"({{"index":{},"delta":{},{}}}])", event.choice, delta, rest);
    if (style_.stream.continuous_usage)
      out += ",\"usage\":" + usage_.json();
    else if (style_.stream.include_usage)
      out += ",\"usage\":null";
    if (!prompt_ids_.empty()) {
      out += ",\"prompt_token_ids\":";
      append_ids(out, std::exchange(prompt_ids_, {}));
    }
    out += last;
    out += "}\n\n";
  }

  static std::string delta_json(const ChatChoice& choice, const OutputDelta& delta) {
    std::string out;
    switch (delta.kind) {
      case Kind::kContent:
        out = "{\"content\":";
        append_quoted(out, delta.text);
        return out + '}';
      case Kind::kReasoning:
        out = "{\"reasoning_content\":";
        append_quoted(out, delta.text);
        return out + '}';
      case Kind::kToolCall: {
        const ChatChoice::Call& call = choice.calls[static_cast<size_t>(delta.call)];
        return format(
            R"({{"tool_calls":[{{"index":{},"id":{},"type":"function","function":{{"name":{},"arguments":""}}}}]}})",
            delta.call, json_string(call.id), json_string(delta.text));
      }
      case Kind::kToolArguments:
        break;
    }
    return format(R"({{"tool_calls":[{{"index":{},"function":{{"arguments":{}}}}}]}})", delta.call,
        json_string(delta.text));
  }

  std::string token_extras(const GenerationEvent& event) const {
    std::string out = logprobs_json(event.tokens);
    if (style_.token_ids) out += ids_json(event.tokens);
    return out;
  }

  // ---- parts of both forms ----

  static std::string ids_json(const std::vector<GeneratedToken>& tokens) {
    std::vector<int32_t> ids;
    for (const GeneratedToken& token : tokens) ids.push_back(token.id);
    std::string out = "\"token_ids\":";
    append_ids(out, ids);
    return out + ',';
  }

  std::string logprobs_json(const std::vector<GeneratedToken>& tokens) const {
    if (!style_.logprobs) return "\"logprobs\":null,";
    std::string out = "\"logprobs\":{\"content\":[";
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0) out += ',';
      append_logprob(out, tokens[i], style_.top_logprobs, *style_.tables);
    }
    return out + "],\"refusal\":null},";
  }

  static std::string finish_json(const ChatChoice& choice) {
    std::string out = format("\"finish_reason\":\"{}\"", finish_name(*choice.finish, !choice.calls.empty()));
    if (!choice.stop_string.empty()) out += ",\"stop_reason\":" + json_string(choice.stop_string);
    return out;
  }

  // ---- the whole answer ----

  std::string body() {
    std::string out = format("{{{}\"service_tier\":\"default\",\"choices\":[", head_);
    for (size_t i = 0; i < choices_.size(); ++i) {
      if (i > 0) out += ',';
      out += format(
          "{{\"index\":{},\"message\":{},{}", i, message(choices_[i]), logprobs_json(choices_[i].tokens));
      if (style_.token_ids) out += ids_json(choices_[i].tokens);
      out += choices_[i].finish ? finish_json(choices_[i]) : R"("finish_reason":"stop")";
      out += '}';
    }
    out += "],\"usage\":" + usage_.json() + timings();
    if (style_.token_ids) {
      out += ",\"prompt_token_ids\":";
      append_ids(out, prompt_ids_);
    }
    if (style_.prompt_logprobs) out += ",\"prompt_logprobs\":" + prompt_logprobs_;
    return out + "}";
  }

  static std::string message(const ChatChoice& choice) {
    std::string out = "{\"role\":\"assistant\",\"content\":";
    if (choice.content.empty() && !choice.calls.empty())
      out += "null";
    else
      append_quoted(out, choice.content);
    out += ",\"refusal\":null";
    if (!choice.reasoning.empty()) out += ",\"reasoning_content\":" + json_string(choice.reasoning);
    for (size_t i = 0; i < choice.calls.size(); ++i) {
      const ChatChoice::Call& call = choice.calls[i];
      out += i == 0 ? ",\"tool_calls\":[" : ",";
      out += format(R"({{"id":{},"type":"function","function":{{"name":{},"arguments":{}}}}})",
          json_string(call.id), json_string(call.name), json_string(call.arguments));
    }
    return out + (choice.calls.empty() ? "}" : "]}");
  }

  AnswerStyle style_;
  UsageCount usage_;
  std::vector<int32_t> prompt_ids_;
  std::vector<ChatChoice> choices_;
  std::string call_prefix_;
  std::string prompt_logprobs_;
  std::string head_, chunk_head_;
  GenerationEvent last_;
  TokenTimes token_times_;
  std::optional<ApiError> error_;
  bool failed_ = false;
};

}  // namespace

std::unique_ptr<ResponseWriter> make_chat_writer(const ChatPlan& plan) {
  return std::make_unique<ChatWriter>(plan);
}

}  // namespace cheetah
