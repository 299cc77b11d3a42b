// SPDX-License-Identifier: MIT
#include "serve/api/body.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "serve/api/failure.h"

namespace cheetah {
namespace {

constexpr int kNumberOverflow = 406;  // nlohmann's id of "number overflow parsing"

std::string place_of(std::string_view body, size_t byte) {
  const std::string_view before = body.substr(0, std::min(byte == 0 ? 0 : byte - 1, body.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t newline = before.rfind('\n');
  const size_t column = newline == std::string_view::npos ? before.size() + 1 : before.size() - newline;
  return format("line {} column {}", line, column);
}

// The library's sentence without its own prefix and position.
std::string reason_of(std::string_view text) {
  if (const size_t column = text.find("column "); column != std::string_view::npos)
    if (const size_t colon = text.find(": ", column); colon != std::string_view::npos)
      text.remove_prefix(colon + 2);
  return printable(text, 160);
}

class BodyBuilder : public nlohmann::json_sax<OrderedJson> {
 public:
  BodyBuilder(std::string_view body, const BodyLimits& limits) : body_(body), limits_(limits) {}
  OrderedJson take() { return std::move(root_); }

  bool null() override { return put(OrderedJson(nullptr)); }
  bool boolean(bool value) override { return put(OrderedJson(value)); }
  bool number_integer(int64_t value) override { return put(OrderedJson(value)); }
  bool number_unsigned(uint64_t value) override { return put(OrderedJson(value)); }
  bool number_float(double value, const std::string&) override { return put(OrderedJson(value)); }
  bool string(std::string& value) override {
    check_length(value);
    return put(OrderedJson(std::move(value)));
  }
  bool binary(OrderedJson::binary_t&) override { return false; }
  bool start_object(size_t) override { return open(OrderedJson::object()); }
  bool start_array(size_t) override { return open(OrderedJson::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& value) override {
    check_length(value);
    if (!open_.back().keys.insert(value).second)
      refuse("duplicate_key", printable(value),
          format("the key \"{}\" stands twice in one object", printable(value)));
    key_ = std::move(value);
    return true;
  }
  bool parse_error(size_t byte, const std::string&, const nlohmann::detail::exception& problem) override {
    if (problem.id == kNumberOverflow)
      refuse("invalid_value", open_.size() == 1 ? printable(key_) : "",
          format("{} must be a finite number: {} overflows", key_.empty() ? "every number" : printable(key_),
              place_of(body_, byte)));
    const std::string reason = reason_of(problem.what());
    const bool unicode =
        reason.find("UTF-8") != std::string::npos || reason.find("surrogate") != std::string::npos;
    refuse(unicode ? "invalid_unicode" : "invalid_json", "",
        format("the body is not valid JSON at {} (byte {}): {}", place_of(body_, byte), byte, reason));
  }

 private:
  struct Container {
    OrderedJson* value;
    std::unordered_set<std::string> keys;
  };

  void check_length(const std::string& text) const {
    if (static_cast<int64_t>(text.size()) > limits_.max_string_bytes)
      refuse("json_too_large", "",
          format("a string of the body has {} bytes, more than the limit of {}", text.size(),
              limits_.max_string_bytes),
          413);
  }
  bool put(OrderedJson&& value) { return place(std::move(value)) != nullptr; }
  OrderedJson* place(OrderedJson&& value) {
    if (++values_ > limits_.max_values)
      refuse("json_too_large", "", format("the body has more than {} values", limits_.max_values), 413);
    if (open_.empty()) return &(root_ = std::move(value));
    OrderedJson& parent = *open_.back().value;
    if (parent.is_array()) return &parent.emplace_back(std::move(value));
    // Straight into the vector behind an ordered object: its own insertion searches all keys each time.
    auto& members = parent.get_ref<OrderedJson::object_t&>();
    members.emplace_back(key_, std::move(value));
    return &members.back().second;
  }
  bool open(OrderedJson&& container) {
    if (static_cast<int>(open_.size()) >= limits_.max_depth)
      refuse("json_too_deep", "", format("the body is nested deeper than {} levels", limits_.max_depth));
    open_.push_back({place(std::move(container)), {}});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view body_;
  BodyLimits limits_;
  OrderedJson root_;
  std::vector<Container> open_;  // stable: a container grows only while it is the innermost one
  std::string key_;
  int64_t values_ = 0;
};

}  // namespace

void refuse(std::string code, std::string param, std::string message, int status) {
  ApiError error;
  error.status = status;
  error.message = std::move(message);
  if (!param.empty()) error.param = std::move(param);
  error.code = std::move(code);
  throw ApiFailure(std::move(error));
}

OrderedJson parse_body(std::string_view body, const BodyLimits& limits) {
  if (body.empty()) refuse("invalid_json", "", "the body is empty; expected a JSON object");
  if (body.starts_with("\xEF\xBB\xBF"))
    refuse("invalid_json", "",
        "the body is not valid JSON at line 1 column 1: it begins with a byte order mark");
  BodyBuilder builder(body, limits);
  OrderedJson::sax_parse(body.begin(), body.end(), &builder);
  OrderedJson value = builder.take();
  if (!value.is_object())
    refuse("invalid_json", "", format("the body must be a JSON object, got {}", shown(value)));
  return value;
}

std::string dump_ordered(const OrderedJson& value) {
  return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

std::string shown(const OrderedJson& value) {
  // Large values are named by kind: printing them to cut them would cost more than the message is worth.
  if (value.is_array()) return format("an array of {} items", value.size());
  if (value.is_object()) return "an object";
  return printable(dump_ordered(value), 64);
}

}  // namespace cheetah
