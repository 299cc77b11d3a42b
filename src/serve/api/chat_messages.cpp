// SPDX-License-Identifier: MIT
// The messages of a chat request, checked one by one.
#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/error.h"
#include "base/format.h"
#include "serve/api/chat_input.h"
#include "serve/api/failure.h"

namespace cheetah {
namespace {

constexpr size_t kMaxMessages = 4096;
constexpr std::array<std::string_view, 6> kRoles = {
    "system", "developer", "user", "assistant", "tool", "function"};

std::string part_text(const OrderedJson& part, const std::string& param) {
  Fields fields(part, param);
  const std::string type = fields.required_string("type", 64);
  if (type != "text" && type != "input_text" && type != "output_text" && type != "refusal") {
    constexpr std::array<std::string_view, 6> kMedia = {
        "image_url", "input_audio", "file", "input_image", "input_file", "video_url"};
    const bool media = std::ranges::find(kMedia, type) != kMedia.end();
    refuse(media ? "unsupported_content_part" : "invalid_type", param,
        format("{} has type \"{}\"; this model reads text parts only", param, printable(type)));
  }
  const std::string_view key = type == "refusal" ? "refusal" : "text";
  const OrderedJson* text = fields.find(key);
  if (!text) fields.missing(key);
  if (!text->is_string()) fields.wrong_type(key, *text, "a string");
  return text->get<std::string>();
}

class MessageReader {
 public:
  OrderedJson read(const OrderedJson& message, const std::string& path) {
    Fields fields(message, path);
    const std::string role = read_role(fields);
    OrderedJson result = {{"role", role == "function" ? "tool" : role}};
    const bool calls = role == "assistant" && (fields.has("tool_calls") || fields.has("function_call"));
    const OrderedJson* content = fields.find("content");
    if (!content && !calls && !(role == "assistant" && fields.has("refusal")))
      refuse("invalid_type", fields.param("content"),
          format("{} must be a string or an array of parts", fields.param("content")));
    result["content"] = content ? content_text(*content, fields.param("content")) : std::string();
    if (const auto name = fields.string("name", 256)) result["name"] = *name;
    if (role == "assistant") read_assistant(fields, result);
    if (role == "tool") read_result(fields, result);
    return result;
  }

 private:
  static std::string read_role(Fields& fields) {
    const OrderedJson* value = fields.find("role");
    std::string role = value && value->is_string() ? value->get<std::string>() : "";
    if (std::ranges::find(kRoles, role) == kRoles.end())
      refuse("invalid_value", fields.param("role"),
          format("{} must be one of {}, got {}", fields.param("role"), fmt::join(kRoles, ", "),
              value ? shown(*value) : "nothing"));
    return role;
  }

  void read_assistant(Fields& fields, OrderedJson& result) {
    for (const std::string_view name : {"reasoning_content", "reasoning"})
      if (const OrderedJson* value = fields.find(name)) {
        if (!value->is_string()) fields.wrong_type(name, *value, "a string");
        result["reasoning_content"] = *value;
      }
    if (const OrderedJson* calls = fields.array("tool_calls"))
      for (size_t i = 0; i < calls->size(); ++i)
        result["tool_calls"].push_back(
            read_call((*calls)[i], format("{}[{}]", fields.param("tool_calls"), i)));
  }

  OrderedJson read_call(const OrderedJson& call, const std::string& path) {
    Fields fields(call, path);
    const std::string id = fields.string("id", 256).value_or("");
    const OrderedJson* function = fields.object("function");
    if (!function) fields.missing("function");
    Fields inner(*function, fields.param("function"));
    const std::string name = inner.required_string("name", 256);
    OrderedJson arguments = OrderedJson::object();
    if (const OrderedJson* value = inner.find("arguments")) arguments = parsed_arguments(*value);
    if (!id.empty()) names_[id] = name;
    return {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}};
  }

  // Templates print the arguments as an object; text that is none is left as it is.
  static OrderedJson parsed_arguments(const OrderedJson& value) {
    if (!value.is_string()) return value;
    const std::string& text = value.get_ref<const std::string&>();
    if (text.empty()) return OrderedJson::object();
    OrderedJson parsed = OrderedJson::parse(text, nullptr, false);
    return parsed.is_object() ? parsed : value;
  }

  void read_result(Fields& fields, OrderedJson& result) {
    const OrderedJson* id = fields.find("tool_call_id");
    const auto known = id && id->is_string() ? names_.find(id->get<std::string>()) : names_.end();
    if (known == names_.end())
      refuse("invalid_value", fields.param("tool_call_id"),
          format("{} must be the id of a tool call in an earlier assistant message, got {}",
              fields.param("tool_call_id"), id ? shown(*id) : "nothing"));
    result["tool_call_id"] = *id;
    if (!result.contains("name")) result["name"] = known->second;
  }

  std::unordered_map<std::string, std::string> names_;  // of the tools, by the ids of their calls
};

}  // namespace

std::string content_text(const OrderedJson& content, const std::string& param) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array())
    refuse("invalid_type", param,
        format("{} must be a string or an array of parts, got {}", param, shown(content)));
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    if (i > 0) text += '\n';
    text += part_text(content[i], format("{}[{}]", param, i));
  }
  return text;
}

OrderedJson read_messages(const OrderedJson& messages, const std::string& path) {
  if (!messages.is_array() || messages.empty())
    refuse(messages.is_array() ? "invalid_value" : "invalid_type", path,
        format("{} must be a non-empty array, got {}", path, shown(messages)));
  if (messages.size() > kMaxMessages)
    refuse("too_many_messages", path,
        format("{} has {} items, more than the limit of {}", path, messages.size(), kMaxMessages));
  MessageReader reader;
  OrderedJson result = OrderedJson::array();
  for (size_t i = 0; i < messages.size(); ++i)
    result.push_back(reader.read(messages[i], format("{}[{}]", path, i)));
  return result;
}

}  // namespace cheetah
