// SPDX-License-Identifier: MIT
#include "serve/api/anthropic_writer.h"

#include <utility>

#include "base/format.h"
#include "serve/api/json_text.h"

namespace cheetah {
namespace {

using Kind = OutputDelta::Kind;

struct Block {
  Kind kind = Kind::kContent;  // kReasoning, kContent or kToolCall
  std::string id, name;
  std::string text;  // or the input as JSON

  OrderedJson json() const {
    if (kind == Kind::kReasoning) return {{"type", "thinking"}, {"thinking", text}, {"signature", ""}};
    if (kind == Kind::kContent) return {{"type", "text"}, {"text", text}};
    const OrderedJson input = OrderedJson::parse(text.empty() ? "{}" : text, nullptr, false);
    return {{"type", "tool_use"}, {"id", id}, {"name", name},
        {"input", input.is_object() ? input : OrderedJson::object()}};  // a call cut short has none
  }
};

class MessageWriter : public ResponseWriter {
 public:
  explicit MessageWriter(const ChatPlan& plan)
      : style_(plan.style),
        usage_(std::ssize(plan.request.prompt), 1),
        choice_(plan.shape, plan.tool_choice.parallel),
        call_prefix_("toolu_" + plan.style.id.substr(plan.style.id.find('_') + 1)) {}

  std::string on_event(size_t index, const GenerationEvent& event) override {
    if (failed_) return "";
    if (is_failure(event)) {
      error_ = generation_error(event);
      return style_.stream.stream ? fail(*error_) : "";
    }
    const bool was_reasoning = choice_.parser.in_reasoning();
    const std::vector<OutputDelta> deltas = choice_.take(event, call_prefix_);
    usage_.add(index, event, was_reasoning);
    std::string out = begin();
    for (const OutputDelta& delta : deltas) add(delta, out);
    if (event.finish) close(out);
    return style_.stream.stream ? out : "";
  }

  std::string finish() override {
    if (failed_) return "";
    if (!style_.stream.stream) return error_ ? error_body(*error_, ApiStyle::kAnthropic) : whole();
    const OrderedJson delta = {{"type", "message_delta"},
        {"delta", {{"stop_reason", stop_reason()}, {"stop_sequence", stop_sequence()}}}, {"usage", usage()}};
    return sse_event("message_delta", dump_ordered(delta)) +
           sse_event("message_stop", R"({"type":"message_stop"})");
  }

  std::string fail(const ApiError& error) override {
    if (std::exchange(failed_, true)) return "";
    return sse_event("error", error_body(error, ApiStyle::kAnthropic));
  }

 private:
  std::string begin() {
    if (std::exchange(begun_, true) || !style_.stream.stream) return "";
    return sse_event(
        "message_start", dump_ordered({{"type", "message_start"}, {"message", message(nullptr, nullptr)}}));
  }

  void add(const OutputDelta& delta, std::string& out) {
    const Kind kind = delta.kind == Kind::kToolArguments ? Kind::kToolCall : delta.kind;
    if (delta.kind == Kind::kToolCall || !open_ || blocks_.back().kind != kind) {
      close(out);
      open(delta, kind, out);
    }
    if (delta.kind == Kind::kToolCall) return;
    blocks_.back().text += delta.text;
    if (!style_.stream.stream) return;
    const std::string_view type = kind == Kind::kContent     ? "text_delta\",\"text"
                                  : kind == Kind::kReasoning ? "thinking_delta\",\"thinking"
                                                             : "input_json_delta\",\"partial_json";
    out += format(
        "event: content_block_delta\ndata: "
        "{{\"type\":\"content_block_delta\",\"index\":{},\"delta\":{{\"type\":\"{}\":",
        blocks_.size() - 1, type);
    append_quoted(out, delta.text);
    out += "}}\n\n";
  }

  void open(const OutputDelta& delta, Kind kind, std::string& out) {
    Block block;
    block.kind = kind;
    if (kind == Kind::kToolCall) {
      block.id = choice_.calls[static_cast<size_t>(delta.call)].id;
      block.name = delta.text;
    }
    blocks_.push_back(std::move(block));
    open_ = true;
    if (style_.stream.stream)
      out += sse_event(
          "content_block_start", dump_ordered({{"type", "content_block_start"}, {"index", blocks_.size() - 1},
                                     {"content_block", blocks_.back().json()}}));
  }

  void close(std::string& out) {
    if (std::exchange(open_, false) && style_.stream.stream)
      out += sse_event(
          "content_block_stop", format(R"({{"type":"content_block_stop","index":{}}})", blocks_.size() - 1));
  }

  std::string stop_reason() const {
    if (choice_.finish == FinishReason::kLength || choice_.finish == FinishReason::kDeadline)
      return "max_tokens";
    if (!choice_.calls.empty()) return "tool_use";
    return choice_.stop_string.empty() ? "end_turn" : "stop_sequence";
  }

  OrderedJson stop_sequence() const {
    return choice_.stop_string.empty() ? OrderedJson(nullptr) : OrderedJson(choice_.stop_string);
  }

  // Tokens found in the cache are counted apart from the others here.
  OrderedJson usage() const {
    return {{"input_tokens", usage_.prompt_tokens() - usage_.cached_tokens()},
        {"cache_creation_input_tokens", 0}, {"cache_read_input_tokens", usage_.cached_tokens()},
        {"output_tokens", usage_.completion_tokens()}, {"service_tier", "standard"}};
  }

  OrderedJson message(const OrderedJson& reason, const OrderedJson& sequence) const {
    OrderedJson content = OrderedJson::array();
    for (const Block& block : blocks_) content.push_back(block.json());
    return {{"id", style_.id}, {"type", "message"}, {"role", "assistant"}, {"model", style_.model},
        {"content", content}, {"stop_reason", reason}, {"stop_sequence", sequence}, {"usage", usage()}};
  }

  std::string whole() const { return dump_ordered(message(stop_reason(), stop_sequence())); }

  AnswerStyle style_;
  UsageCount usage_;
  ChatChoice choice_;
  std::string call_prefix_;
  std::vector<Block> blocks_;
  bool open_ = false, begun_ = false, failed_ = false;
  std::optional<ApiError> error_;
};

}  // namespace

std::unique_ptr<ResponseWriter> make_anthropic_writer(const ChatPlan& plan) {
  return std::make_unique<MessageWriter>(plan);
}

}  // namespace cheetah
