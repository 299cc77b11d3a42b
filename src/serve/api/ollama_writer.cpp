// SPDX-License-Identifier: MIT
#include <ctime>

#include "base/format.h"
#include "serve/api/json_text.h"
#include "serve/api/ollama.h"

namespace cheetah {
namespace {

using Kind = OutputDelta::Kind;

int64_t ns_between(EngineTime from, EngineTime to) {
  if (from == EngineTime{} || to == EngineTime{}) return 0;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count();
}

// Arguments of a call as an object; those of a call cut short are none.
std::string arguments_object(const std::string& text) {
  const OrderedJson parsed = OrderedJson::parse(text, nullptr, false);
  return parsed.is_object() ? dump_ordered(parsed) : "{}";
}

class OllamaWriter : public ResponseWriter {
 public:
  OllamaWriter(const ChatPlan& plan, bool chat)
      : style_(plan.style),
        chat_(chat),
        choice_(plan.shape, plan.tool_choice.parallel),
        context_(chat ? std::vector<int32_t>() : plan.request.prompt),
        prompt_tokens_(std::ssize(plan.request.prompt)) {
    head_ = format(R"({{"model":{},"created_at":"{}",)", json_string(style_.model), rfc3339(style_.created));
  }

  std::string on_event(size_t, const GenerationEvent& event) override {
    if (failed_) return "";
    if (is_failure(event)) {
      error_ = generation_error(event);
      return style_.stream.stream ? fail(*error_) : "";
    }
    const std::vector<OutputDelta> deltas = choice_.take(event, "call");
    if (!chat_)
      for (const GeneratedToken& token : event.tokens) context_.push_back(token.id);
    if (event.done) last_ = event;
    if (!style_.stream.stream) return "";
    std::string out;
    for (const OutputDelta& delta : deltas)
      if (delta.kind == Kind::kContent)
        out += line(delta.text, "", "");
      else if (delta.kind == Kind::kReasoning)
        out += line("", delta.text, "");
    if (event.finish && !choice_.calls.empty()) out += line("", "", calls_json());
    return out;
  }

  std::string finish() override {
    if (failed_) return "";
    if (error_) return error_body(*error_, ApiStyle::kOllama);
    if (style_.stream.stream) return head_ + said("", "", "") + end();
    return head_ + said(choice_.content, choice_.reasoning, calls_json()) + end();
  }

  std::string fail(const ApiError& error) override {
    if (std::exchange(failed_, true)) return "";
    return error_body(error, ApiStyle::kOllama) + "\n";
  }

 private:
  std::string line(std::string_view content, std::string_view thinking, const std::string& calls) const {
    return head_ + said(content, thinking, calls) + ",\"done\":false}\n";
  }

  std::string said(std::string_view content, std::string_view thinking, const std::string& calls) const {
    std::string out = chat_ ? "\"message\":{\"role\":\"assistant\",\"content\":" : "\"response\":";
    append_quoted(out, content);
    if (!thinking.empty()) {
      out += ",\"thinking\":";
      append_quoted(out, thinking);
    }
    out += calls;
    return chat_ ? out + '}' : out;
  }

  std::string calls_json() const {
    std::string out;
    for (const ChatChoice::Call& call : choice_.calls)
      out += format(R"({}{{"id":{},"function":{{"index":{},"name":{},"arguments":{}}}}})",
          out.empty() ? ",\"tool_calls\":[" : ",", json_string(call.id), &call - choice_.calls.data(),
          json_string(call.name), arguments_object(call.arguments));
    return out.empty() ? out : out + ']';
  }

  std::string end() const {
    const bool cut = choice_.finish && choice_.finish != FinishReason::kStop;
    const RequestTimes& times = last_.times;
    std::string out = format(",\"done\":true,\"done_reason\":\"{}\"", cut ? "length" : "stop");
    if (!chat_) {
      out += ",\"context\":";
      append_ids(out, context_);
    }
    return out + format(
                     ",\"total_duration\":{},\"load_duration\":0,\"prompt_eval_count\":{},"
                     "\"prompt_eval_duration\":{},\"eval_count\":{},\"eval_duration\":{}}}\n",
                     ns_between(times.arrived, times.finished), prompt_tokens_,
                     ns_between(times.scheduled, times.first_token), last_.completion_tokens,
                     ns_between(times.first_token, times.finished));
  }

  AnswerStyle style_;
  bool chat_;
  ChatChoice choice_;
  std::vector<int32_t> context_;  // of the prompt and what was generated: clients send it back
  int64_t prompt_tokens_;
  std::string head_;
  GenerationEvent last_;
  std::optional<ApiError> error_;
  bool failed_ = false;
};

}  // namespace

std::string rfc3339(int64_t unix_time) {
  const std::time_t time = unix_time;
  std::tm parts = {};
  gmtime_r(&time, &parts);
  char text[32];
  const size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text, length};
}

std::unique_ptr<ResponseWriter> make_ollama_writer(const ChatPlan& plan, bool chat) {
  return std::make_unique<OllamaWriter>(plan, chat);
}

}  // namespace cheetah
