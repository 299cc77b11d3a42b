// SPDX-License-Identifier: MIT
#include "load/completion_stream.h"

#include "base/error.h"
#include "base/json.h"

namespace cheetah {
namespace {

constexpr size_t kMostEventBytes = size_t{16} << 20;
constexpr size_t kMostDetailBytes = 200;

bool has_text(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() && !found->get_ref<const std::string&>().empty();
}

// Text, thoughts and tool calls are all tokens to the person who waits.
bool carries_tokens(const Json& choice) {
  if (has_text(choice, "text")) return true;
  const auto delta = choice.find("delta");
  if (delta == choice.end() || !delta->is_object()) return false;
  for (const char* name : {"content", "reasoning_content", "reasoning", "refusal"})
    if (has_text(*delta, name)) return true;
  const auto calls = delta->find("tool_calls");
  return calls != delta->end() && calls->is_array() && !calls->empty();
}

std::optional<int64_t> count_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int64_t>();
}

void read_usage(const Json& usage, RequestRecord& record) {
  if (const auto tokens = count_in(usage, "prompt_tokens")) record.prompt_tokens = tokens;
  if (const auto tokens = count_in(usage, "completion_tokens")) record.output_tokens = tokens;
  const auto details = usage.find("prompt_tokens_details");
  if (details != usage.end() && details->is_object())
    record.cached_tokens = count_in(*details, "cached_tokens").value_or(0);
}

std::string message_in(const Json& error) {
  if (error.is_string()) return error.get<std::string>();
  if (error.is_object() && has_text(error, "message")) return error["message"].get<std::string>();
  return dump_json(error);
}

}  // namespace

void EventLines::add(char byte) {
  if (line_.size() + data_.size() >= kMostEventBytes) throw Error("an event of more than 16 MiB");
  line_ += byte;
}

bool EventLines::end_line() {
  if (line_.empty()) return std::exchange(has_data_, false);
  if (line_.starts_with("data:")) {
    if (has_data_) data_ += '\n';
    has_data_ = true;
    data_.append(line_, line_.starts_with("data: ") ? 6 : 5);
  }
  line_.clear();
  return false;
}

void CompletionStream::feed(std::string_view bytes, double now_s) {
  if (!record_.ok()) return;
  try {
    lines_.feed(bytes, [&](std::string_view data) { on_event(data, now_s); });
  } catch (const Error& error) {
    fail(RequestFailure::kNotAStream, error.what());
  }
}

void CompletionStream::on_event(std::string_view data, double now_s) {
  if (!record_.ok() || said_done_) return;
  if (data == "[DONE]") {
    said_done_ = true;
    return;
  }
  const Json event = parse_json(data, "an event of the stream");
  if (!event.is_object()) return fail(RequestFailure::kNotAStream, "an event that is not a JSON object");
  if (const auto error = event.find("error"); error != event.end() && !error->is_null())
    return fail(RequestFailure::kServerError, message_in(*error));
  if (const auto usage = event.find("usage"); usage != event.end() && usage->is_object())
    read_usage(*usage, record_);
  const auto choices = event.find("choices");
  if (choices == event.end() || !choices->is_array()) return;
  bool text = false;
  for (const Json& choice : *choices) {
    if (!choice.is_object()) continue;
    text = text || empty_counts_ || carries_tokens(choice);
    said_reason_ = said_reason_ || has_text(choice, "finish_reason");
  }
  if (text) on_text(now_s);
}

void CompletionStream::on_text(double now_s) {
  if (record_.events == 0)
    record_.first_s = now_s;
  else
    record_.gaps_s.push_back(static_cast<float>(now_s - record_.last_s));
  record_.last_s = now_s;
  ++record_.events;
}

void CompletionStream::finish() {
  if (!record_.ok()) return;
  if (!said_done_ && !said_reason_)
    return fail(RequestFailure::kCut, "the stream ended without a finish_reason or [DONE]");
  if (record_.events == 0) fail(RequestFailure::kEmptyAnswer, "no event carried text");
}

void CompletionStream::fail(RequestFailure failure, std::string detail) {
  record_.failure = failure;
  record_.detail = printable(detail, kMostDetailBytes);
}

std::string error_message_of(std::string_view body) {
  try {
    const Json json = parse_json(body, "the error");
    if (json.is_object() && json.contains("error"))
      return printable(message_in(json["error"]), kMostDetailBytes);
    if (json.is_object() && has_text(json, "message")) return printable(message_in(json), kMostDetailBytes);
  } catch (const Error&) {
    // Not JSON: proxies answer with plain text or HTML, shown as it is.
  }
  return printable(body, kMostDetailBytes);
}

}  // namespace cheetah
