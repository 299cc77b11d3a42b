// SPDX-License-Identifier: MIT
#pragma once
// The filters, tests, methods and global functions a template can name, and how they read their arguments.
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/template/value.h"

namespace cheetah::jinja {

// self is the filtered value, the tested value or the object whose method it is.
using NativeFunction = Value (*)(Runtime& runtime, const Value& self, Args& args);
using TestFunction = bool (*)(Runtime& runtime, const Value& value, Args& args);

NativeFunction find_filter(std::string_view name);  // nullptr: there is none
TestFunction find_test(std::string_view name);
NativeFunction find_method(const Value& self, std::string_view name);
std::optional<Value> find_global(const std::string& name);
bool is_mutating_method(const Value& self, std::string_view name);

template <class Function>
struct Named {
  std::string_view name;
  Function function;
};

// One file's filters; find_filter looks through them all.
struct FilterTable {
  const Named<NativeFunction>* begin;
  const Named<NativeFunction>* end;
};
FilterTable text_filters();
FilterTable shape_filters();
FilterTable sequence_filters();
FilterTable selection_filters();
FilterTable number_filters();

NativeFunction find_string_method(std::string_view name);
NativeFunction find_split_method(std::string_view name);
NativeFunction find_container_method(const Value& self, std::string_view name);

// A function with its first argument: a method of a value, a global.
struct Method : Object {
  Method(Value the_self, NativeFunction the_function, std::string the_name)
      : self(std::move(the_self)), function(the_function), name(std::move(the_name)) {}
  std::string type_name() const override { return "builtin_function_or_method"; }
  std::string repr() const override;
  bool callable() const override { return true; }
  Value call(Runtime& runtime, Args& args) override { return function(runtime, self, args); }
  int depth() const override { return self.depth() + 1; }
  Value self;
  NativeFunction function;
  std::string name;
};

// Binds the arguments of a call to named parameters, positional ones first. Too many, unknown and missing
// ones are errors, as in Python.
class Params {
 public:
  Params(std::string_view function, const Args& args, std::initializer_list<std::string_view> names,
      size_t required = 0);
  const Value* get(size_t index) const { return values_[index]; }  // nullptr: not given
  const Value& operator[](size_t index) const { return *values_[index]; }
  bool given(size_t index) const { return values_[index] != nullptr; }
  bool given_not_none(size_t index) const { return given(index) && !values_[index]->is_none(); }

  int64_t integer(size_t index, int64_t fallback) const;
  bool boolean(size_t index, bool fallback) const;
  std::string string(size_t index, std::string fallback) const;   // must be a string
  std::string text_of(size_t index, std::string fallback) const;  // str() of anything

 private:
  std::string function_;
  std::vector<const Value*> values_;
};

// Python's int() and float() of a string; nullopt when it is not a number.
std::optional<int64_t> parse_integer(std::string_view text, int64_t base = 10);
std::optional<double> parse_float(std::string_view text);

// "%d items" % values.
std::string percent_format(Runtime& runtime, const std::string& format, const Value& values, bool safe);
// "{} {name:>8}".format(...).
std::string str_format(Runtime& runtime, const Value& format, const Args& args);
// One value by a format specification like ">10.3f".
std::string format_value(Runtime& runtime, const Value& value, std::string_view spec);
std::string format_float(double value, char type, int precision, bool alternate);

Value tojson(Runtime& runtime, const Value& value, Args& args);
std::string strftime(std::string_view format, int64_t now);

// JSON text → values, key order kept; the last of equal keys wins. what is named in errors.
Value read_json(std::string_view text, std::string_view what);

}  // namespace cheetah::jinja
