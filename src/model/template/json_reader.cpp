// SPDX-License-Identifier: MIT
// Reads the variables of a rendering from JSON, with the order of keys.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/format.h"
#include "model/template/builtins.h"

namespace cheetah::jinja {
namespace {

using Json = nlohmann::json;

class Builder : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(std::string_view what) : what_(what) {}
  Value take() { return std::move(root_); }

  bool null() override { return put(Value()); }
  bool boolean(bool value) override { return put(Value::boolean(value)); }
  bool number_integer(int64_t value) override { return put(Value::integer(value)); }
  bool number_unsigned(uint64_t value) override {
    if (value > static_cast<uint64_t>(INT64_MAX)) return put(Value::number(static_cast<double>(value)));
    return put(Value::integer(static_cast<int64_t>(value)));
  }
  bool number_float(double value, const std::string&) override { return put(Value::number(value)); }
  bool string(std::string& value) override { return put(Value::string(std::move(value))); }
  bool binary(Json::binary_t&) override { return false; }
  bool start_object(size_t) override { return open(true); }
  bool start_array(size_t) override { return open(false); }
  bool key(std::string& value) override {
    open_.back().key = std::move(value);
    return true;
  }
  bool end_object() override {
    Value value = Value::dict(std::move(open_.back().dict));
    open_.pop_back();
    return put(std::move(value));
  }
  bool end_array() override {
    Value value = Value::list(std::move(open_.back().items));
    open_.pop_back();
    return put(std::move(value));
  }
  bool parse_error(size_t byte, const std::string&, const nlohmann::detail::exception& problem) override {
    std::string_view reason = problem.what();
    if (const size_t colon = reason.rfind(": "); colon != std::string_view::npos)
      reason.remove_prefix(colon + 2);
    throw Error(format("{}: invalid JSON at byte {}: {}", what_, byte, printable(reason, 120)));
  }

 private:
  struct Level {
    bool is_object = false;
    std::string key;
    Dict dict;
    std::vector<Value> items;
  };

  bool open(bool is_object) {
    constexpr size_t kMaxDepth = 128;
    if (open_.size() >= kMaxDepth)
      throw Error(format("{}: JSON is nested deeper than {} levels", what_, kMaxDepth));
    open_.emplace_back().is_object = is_object;
    return true;
  }
  bool put(Value value) {
    if (open_.empty())
      root_ = std::move(value);
    else if (open_.back().is_object)
      open_.back().dict.set(open_.back().key, std::move(value));
    else
      open_.back().items.push_back(std::move(value));
    return true;
  }

  std::string what_;
  Value root_;
  std::vector<Level> open_;
};

}  // namespace

Value read_json(std::string_view text, std::string_view what) {
  Builder builder(what);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

}  // namespace cheetah::jinja
