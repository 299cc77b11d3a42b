// SPDX-License-Identifier: MIT
#include "serve/api/response_writer.h"

#include <utility>

#include "base/format.h"
#include "serve/api/json_text.h"

namespace cheetah {
namespace {

using Kind = OutputDelta::Kind;

// One entry of "output": a thought, a message or a call.
struct Item {
  Kind kind = Kind::kContent;  // kReasoning, kContent or kToolCall
  std::string id, call_id, name;
  std::string text;  // or the arguments
  OrderedJson logprobs = OrderedJson::array();

  OrderedJson part() const {
    if (kind == Kind::kReasoning) return {{"type", "reasoning_text"}, {"text", text}};
    return {{"type", "output_text"}, {"annotations", OrderedJson::array()}, {"logprobs", logprobs},
        {"text", text}};
  }
  OrderedJson json(std::string_view status, bool with_text) const {
    if (kind == Kind::kToolCall)
      return {{"id", id}, {"type", "function_call"}, {"status", status}, {"call_id", call_id}, {"name", name},
          {"arguments", with_text ? text : ""}};
    const OrderedJson content = with_text ? OrderedJson::array({part()}) : OrderedJson::array();
    if (kind == Kind::kReasoning)
      return {{"id", id}, {"type", "reasoning"}, {"summary", OrderedJson::array()}, {"content", content}};
    return {{"id", id}, {"type", "message"}, {"status", status}, {"role", "assistant"}, {"content", content}};
  }
};

// As the client wrote it: 0.9, not the nearest float's 0.8999999761581421.
double shortest(float value) { return std::stod(format("{}", value)); }

class ResponsesWriter : public ResponseWriter {
 public:
  ResponsesWriter(const ChatPlan& plan, ResponseEcho echo)
      : style_(plan.style),
        echo_(std::move(echo)),
        sampling_(plan.request.sampling),
        parallel_(plan.tool_choice.parallel),
        usage_(std::ssize(plan.request.prompt), 1),
        choice_(plan.shape, parallel_),
        key_(plan.style.id.substr(plan.style.id.find('_') + 1)) {}

  std::string on_event(size_t index, const GenerationEvent& event) override {
    if (failed_) return "";
    if (is_failure(event)) {
      error_ = generation_error(event);
      return style_.stream.stream ? fail(*error_) : "";
    }
    const bool was_reasoning = choice_.parser.in_reasoning();
    const std::vector<OutputDelta> deltas = choice_.take(event, "call_" + key_);
    usage_.add(index, event, was_reasoning);
    std::string out = begin();
    if (style_.logprobs) take_logprobs(event);
    for (const OutputDelta& delta : deltas) add(delta, out);
    if (event.finish) close(out);
    return style_.stream.stream ? out : "";
  }

  std::string finish() override {
    if (failed_) return "";
    if (error_) return error_body(*error_, ApiStyle::kOpenAi);
    if (echo_.archive)
      echo_.archive->keep(echo_.tenant, {.id = style_.id,
                                            .previous = echo_.previous,
                                            .created = style_.created,
                                            .input = dump_ordered(echo_.input),
                                            .response = dump_ordered(response(status()))});
    if (!style_.stream.stream) return dump_ordered(response(status()));
    const std::string_view name = status() == "incomplete" ? "response.incomplete" : "response.completed";
    return event(name, {{"response", response(status())}});
  }

  std::string fail(const ApiError& error) override {
    if (std::exchange(failed_, true)) return "";
    std::string out = begin();
    OrderedJson failed = response("failed");
    failed["error"] = {{"code", error.code.value_or("server_error")}, {"message", error.message}};
    return out + event("response.failed", {{"response", failed}});
  }

 private:
  std::string_view status() const {
    const bool cut = choice_.finish == FinishReason::kLength || choice_.finish == FinishReason::kDeadline;
    return cut ? "incomplete" : "completed";
  }

  std::string event(std::string_view type, OrderedJson fields) {
    OrderedJson json = {{"type", type}, {"sequence_number", sequence_++}};
    json.update(fields);
    return sse_event(type, dump_ordered(json));
  }

  std::string begin() {
    if (std::exchange(begun_, true) || !style_.stream.stream) return "";
    std::string out = event("response.created", {{"response", response("in_progress")}});
    return out + event("response.in_progress", {{"response", response("in_progress")}});
  }

  // Tokens belong to the message that is open or about to be; those of calls and thoughts are not told.
  void take_logprobs(const GenerationEvent& event) {
    for (const GeneratedToken& token : event.tokens) {
      std::string text;
      append_logprob(text, token, style_.top_logprobs, *style_.tables);
      logprobs_.push_back(OrderedJson::parse(text));
    }
  }

  void add(const OutputDelta& delta, std::string& out) {
    const Kind kind = delta.kind == Kind::kToolArguments ? Kind::kToolCall : delta.kind;
    if (delta.kind == Kind::kToolCall || items_.empty() || !open_ || items_.back().kind != kind) {
      close(out);
      open(delta, kind, out);
    }
    if (delta.kind == Kind::kToolCall) return;
    Item& item = items_.back();
    item.text += delta.text;
    OrderedJson logprobs = OrderedJson::array();
    if (kind == Kind::kContent) {
      logprobs = std::exchange(logprobs_, OrderedJson::array());
      for (const OrderedJson& entry : logprobs) item.logprobs.push_back(entry);
    }
    if (style_.stream.stream) append_delta(delta, logprobs, out);
  }

  // Sent for every token: written straight, without a tree.
  void append_delta(const OutputDelta& delta, const OrderedJson& logprobs, std::string& out) {
    const std::string_view type = delta.kind == Kind::kContent     ? "response.output_text.delta"
                                  : delta.kind == Kind::kReasoning ? "response.reasoning_text.delta"
                                                                   : "response.function_call_arguments.delta";
    out += format(
        "event: {}\ndata: {{\"type\":\"{}\",\"sequence_number\":{},\"item_id\":{},\"output_index\":{},", type,
        type, sequence_++, json_string(items_.back().id), items_.size() - 1);
    if (delta.kind != Kind::kToolArguments) out += "\"content_index\":0,";
    out += "\"delta\":";
    append_quoted(out, delta.text);
    if (delta.kind == Kind::kContent) out += ",\"logprobs\":" + dump_ordered(logprobs);
    out += "}\n\n";
  }

  OrderedJson place(bool with_content_index) const {
    OrderedJson result = {{"item_id", items_.back().id}, {"output_index", items_.size() - 1}};
    if (with_content_index) result["content_index"] = 0;
    return result;
  }

  void open(const OutputDelta& delta, Kind kind, std::string& out) {
    const std::string_view prefix = kind == Kind::kContent ? "msg" : kind == Kind::kReasoning ? "rs" : "fc";
    Item item;
    item.kind = kind;
    item.id = format("{}_{}_{}", prefix, key_, items_.size());
    if (kind == Kind::kToolCall) {
      item.call_id = choice_.calls[static_cast<size_t>(delta.call)].id;
      item.name = delta.text;
    }
    items_.push_back(std::move(item));
    open_ = true;
    if (!style_.stream.stream) return;
    out += event("response.output_item.added",
        {{"output_index", items_.size() - 1}, {"item", items_.back().json("in_progress", false)}});
    if (kind == Kind::kToolCall) return;
    OrderedJson fields = place(true);
    fields["part"] = items_.back().part();
    out += event("response.content_part.added", std::move(fields));
  }

  void close(std::string& out) {
    if (!std::exchange(open_, false) || !style_.stream.stream) return;
    const Item& item = items_.back();
    OrderedJson fields = place(item.kind != Kind::kToolCall);
    if (item.kind == Kind::kToolCall) {
      fields["name"] = item.name;
      fields["arguments"] = item.text;
      out += event("response.function_call_arguments.done", std::move(fields));
    } else {
      fields["text"] = item.text;
      if (item.kind == Kind::kContent) fields["logprobs"] = item.logprobs;
      out += event(item.kind == Kind::kContent ? "response.output_text.done" : "response.reasoning_text.done",
          std::move(fields));
      OrderedJson part = place(true);
      part["part"] = item.part();
      out += event("response.content_part.done", std::move(part));
    }
    out += event("response.output_item.done",
        {{"output_index", items_.size() - 1}, {"item", item.json(status(), true)}});
  }

  OrderedJson usage() const {
    return {{"input_tokens", usage_.prompt_tokens()},
        {"input_tokens_details", {{"cached_tokens", usage_.cached_tokens()}}},
        {"output_tokens", usage_.completion_tokens()},
        {"output_tokens_details", {{"reasoning_tokens", usage_.reasoning_tokens()}}},
        {"total_tokens", usage_.prompt_tokens() + usage_.completion_tokens()}};
  }

  OrderedJson response(std::string_view status) const {
    const auto or_null = [](const auto& value) { return value ? OrderedJson(*value) : OrderedJson(nullptr); };
    const bool done = status == "completed" || status == "incomplete";
    OrderedJson output = OrderedJson::array();
    if (done)
      for (const Item& item : items_) output.push_back(item.json(status, true));
    OrderedJson incomplete = nullptr;
    if (status == "incomplete") incomplete = {{"reason", "max_output_tokens"}};
    return {{"id", style_.id}, {"object", "response"}, {"created_at", style_.created}, {"status", status},
        {"background", false}, {"error", nullptr}, {"incomplete_details", incomplete},
        {"instructions", or_null(echo_.instructions)},
        {"max_output_tokens", or_null(echo_.max_output_tokens)}, {"model", style_.model}, {"output", output},
        {"parallel_tool_calls", parallel_},
        {"previous_response_id", echo_.previous.empty() ? OrderedJson(nullptr) : OrderedJson(echo_.previous)},
        {"reasoning", {{"effort", or_null(echo_.reasoning_effort)}, {"summary", nullptr}}},
        {"service_tier", "default"}, {"store", echo_.archive != nullptr},
        {"temperature", shortest(sampling_.temperature)}, {"text", {{"format", echo_.text_format}}},
        {"tool_choice", echo_.tool_choice}, {"tools", echo_.tools}, {"top_p", shortest(sampling_.top_p)},
        {"truncation", "disabled"}, {"usage", done ? usage() : OrderedJson(nullptr)}, {"user", nullptr},
        {"metadata", echo_.metadata}};
  }

  AnswerStyle style_;
  ResponseEcho echo_;
  SamplingParams sampling_;
  bool parallel_;
  UsageCount usage_;
  ChatChoice choice_;
  std::string key_;
  std::vector<Item> items_;
  OrderedJson logprobs_ = OrderedJson::array();  // of tokens whose text has not come yet
  bool open_ = false, begun_ = false, failed_ = false;
  int64_t sequence_ = 0;
  std::optional<ApiError> error_;
};

}  // namespace

std::unique_ptr<ResponseWriter> make_response_writer(const ChatPlan& plan, ResponseEcho echo) {
  return std::make_unique<ResponsesWriter>(plan, std::move(echo));
}

}  // namespace cheetah
