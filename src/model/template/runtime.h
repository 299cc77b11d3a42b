// SPDX-License-Identifier: MIT
#pragma once
// What filters, tests, methods and expressions do with values in one rendering: Python's operations, charged to
// the rendering's budget.
#include <memory>
#include <string>
#include <vector>

#include "model/template/ast.h"
#include "model/template/builtins.h"
#include "model/template/value.h"

namespace cheetah::jinja {

class Runtime {
 public:
  Runtime(const TemplateLimits& limits, int64_t now);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  Budget& budget() { return budget_; }
  int64_t now() const { return now_; }
  int64_t max_text_bytes() const { return max_text_bytes_; }

  Value call(const Value& callee, Args& args);
  Value call_filter(const std::string& name, const Value& value, Args& args);
  bool call_test(const std::string& name, const Value& value, Args& args);

  Value attribute(const Value& object, const std::string& name);
  Value item(const Value& object, const Value& key);
  Value slice(const Value& object, const Value* start, const Value* stop, const Value* step);
  std::vector<Value> iterate(const Value& value);  // fails on what has no items; empties a generator

  bool equals(const Value& a, const Value& b);
  bool is_less(const Value& a, const Value& b, const char* op = "<");
  bool contains(const Value& container, const Value& item);
  bool compare(const std::string& op, const Value& a, const Value& b);
  Value binary(char op, const Value& a, const Value& b);
  Value sign(bool negative, const Value& value);

  std::string str(const Value& value);
  Value string(std::string bytes, bool safe = false);
  Value list(std::vector<Value> items);
  // Its release() is called when the rendering ends.
  void keep(std::shared_ptr<Object> object) { kept_objects_.push_back(std::move(object)); }

 private:
  Value add(const Value& a, const Value& b);
  Value multiply(const Value& a, const Value& b);
  Value repeat(const Value& sequence, int64_t count);
  std::optional<Value> known_attribute(const Value& object, const std::string& name);

  const int64_t max_text_bytes_;
  const int64_t now_;
  Budget budget_;
  std::vector<std::shared_ptr<Object>> kept_objects_;
};

// What an undefined attribute or element says when it is used.
std::string missing_attribute(const Value& object, const Value& name);

}  // namespace cheetah::jinja
