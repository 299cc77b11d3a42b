// SPDX-License-Identifier: MIT
#include "base/json.h"

#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/mapped_file.h"

namespace cheetah {
namespace {

// Builds the value while it watches depth and duplicate keys, which the library's own builder does not.
class LimitedBuilder : public nlohmann::json_sax<Json> {
 public:
  LimitedBuilder(std::string_view what, int max_depth) : what_(what), max_depth_(max_depth) {}
  Json take() { return std::move(root_); }

  bool null() override { return put(Json(nullptr)); }
  bool boolean(bool value) override { return put(Json(value)); }
  bool number_integer(int64_t value) override { return put(Json(value)); }
  bool number_unsigned(uint64_t value) override { return put(Json(value)); }
  bool number_float(double value, const std::string&) override { return put(Json(value)); }
  bool string(std::string& value) override { return put(Json(std::move(value))); }
  bool binary(Json::binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& value) override {
    if (open_.back()->contains(value))
      throw Error(format("{}: key \"{}\" stands twice in one object", what_, printable(value)));
    key_ = std::move(value);
    return true;
  }
  bool parse_error(size_t byte, const std::string&, const nlohmann::detail::exception& problem) override {
    std::string_view reason = problem.what();
    if (const size_t colon = reason.rfind(": "); colon != std::string_view::npos)
      reason.remove_prefix(colon + 2);
    throw Error(format("{}: invalid JSON at byte {}: {}", what_, byte, printable(reason, 120)));
  }

 private:
  bool put(Json&& value) { return place(std::move(value)) != nullptr; }
  Json* place(Json&& value) {
    if (open_.empty()) return &(root_ = std::move(value));
    Json& parent = *open_.back();
    if (parent.is_array()) return &parent.emplace_back(std::move(value));
    return &(parent[key_] = std::move(value));
  }
  bool open(Json&& container) {
    if (static_cast<int>(open_.size()) >= max_depth_)
      throw Error(format("{}: JSON is nested deeper than {} levels", what_, max_depth_));
    open_.push_back(place(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::string what_;
  int max_depth_;
  Json root_;
  std::vector<Json*> open_;  // stable: a container is only appended to while it is the innermost one
  std::string key_;
};

}  // namespace

Json parse_json(std::string_view text, std::string_view what, const JsonLimits& limits) {
  if (static_cast<int64_t>(text.size()) > limits.max_bytes)
    throw Error(
        format("{}: {} bytes of JSON, more than the limit of {}", what, text.size(), limits.max_bytes));
  LimitedBuilder builder(what, limits.max_depth);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

Json read_json_file(const std::string& path, const JsonLimits& limits) {
  const MappedFile file = MappedFile::open(path);
  return parse_json(file.text(), path, limits);
}

std::string dump_json(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

JsonFields::JsonFields(const Json& object, std::string what) : object_(object), what_(std::move(what)) {
  if (!object.is_object())
    throw Error(format("{}: expected a JSON object, found {}", what_, object.type_name()));
}

const Json* JsonFields::find(std::string_view name) const {
  const auto at = object_.find(name);
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

const Json& JsonFields::required(std::string_view name) const {
  const Json* value = find(name);
  if (!value) throw Error(format("{}: field \"{}\" is missing", what_, name));
  return *value;
}

void JsonFields::mismatch(std::string_view name, const Json& value, std::string_view expected) const {
  throw Error(
      format("{}: field \"{}\" is {}, expected {}", what_, name, printable(dump_json(value)), expected));
}

int64_t JsonFields::integer(std::string_view name, int64_t low, int64_t high) const {
  const Json& value = required(name);
  const std::string expected = format("a whole number from {} to {}", low, high);
  int64_t result = 0;
  if (value.is_number_unsigned()) {
    if (value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) mismatch(name, value, expected);
    result = static_cast<int64_t>(value.get<uint64_t>());
  } else if (value.is_number_integer()) {
    result = value.get<int64_t>();
  } else if (value.is_number_float() && std::abs(value.get<double>()) < 9e15 &&
             value.get<double>() == std::floor(value.get<double>())) {
    result = static_cast<int64_t>(value.get<double>());
  } else {
    mismatch(name, value, expected);
  }
  if (result < low || result > high) mismatch(name, value, expected);
  return result;
}

int64_t JsonFields::integer_or(std::string_view name, int64_t fallback, int64_t low, int64_t high) const {
  return has(name) ? integer(name, low, high) : fallback;
}

double JsonFields::number(std::string_view name) const {
  const Json& value = required(name);
  if (!value.is_number() || !std::isfinite(value.get<double>())) mismatch(name, value, "a finite number");
  return value.get<double>();
}

double JsonFields::number_or(std::string_view name, double fallback) const {
  return has(name) ? number(name) : fallback;
}

bool JsonFields::boolean_or(std::string_view name, bool fallback) const {
  const Json* value = find(name);
  if (!value) return fallback;
  if (!value->is_boolean()) mismatch(name, *value, "true or false");
  return value->get<bool>();
}

std::string JsonFields::string(std::string_view name) const {
  const Json& value = required(name);
  if (!value.is_string()) mismatch(name, value, "a string");
  return value.get<std::string>();
}

std::string JsonFields::string_or(std::string_view name, std::string fallback) const {
  return has(name) ? string(name) : fallback;
}

}  // namespace cheetah
