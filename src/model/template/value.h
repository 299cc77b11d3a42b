// SPDX-License-Identifier: MIT
#pragma once
// The values of a template: Python's, as far as chat templates can see them. Cheap to copy; containers are
// shared and never change, which is also what the immutable sandbox of the original promises.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "model/template/failure.h"

namespace cheetah::jinja {

class Runtime;
class Value;

// Deeper data could overflow the stack in the recursive walks (comparison, text, destruction).
inline constexpr int kMaxDataDepth = 200;

struct Text {
  std::string bytes;  // UTF-8
  bool safe = false;  // marked with |safe or made by |escape: joining it escapes the other side
  bool ascii = true;
};

struct UndefinedInfo {
  std::string message;  // what every use of it but printing, testing and looping says
};

enum class Flavor { kList, kTuple, kGenerator, kKeys, kValues, kItems, kRange };

struct Sequence {
  Flavor flavor = Flavor::kList;
  std::vector<Value> items;
  int depth = 1;
  int64_t weight = 16;
  size_t consumed = 0;                    // generators only: an item is seen once
  std::string made_by;                    // generators: the function in their text; group tuples: "group"
  int64_t start = 0, stop = 0, step = 1;  // ranges only
};

class Dict;
struct Args;

// Anything that is not plain data: functions, macros, namespaces, loops.
struct Object : std::enable_shared_from_this<Object> {
  virtual ~Object() = default;
  virtual std::string type_name() const = 0;
  virtual std::string repr() const;
  // nullopt: no such attribute.
  virtual std::optional<Value> attribute(std::string_view name) const;
  virtual bool callable() const { return false; }
  virtual Value call(Runtime& runtime, Args& args);
  virtual int depth() const { return 1; }
  virtual void release() {}  // drops what it holds, to break cycles at the end of a rendering
};

class Value {
 public:
  Value() = default;  // none
  static Value undefined(std::string message);
  static Value boolean(bool value) { return Value(Data(value)); }
  static Value integer(int64_t value) { return Value(Data(value)); }
  static Value number(double value) { return Value(Data(value)); }
  static Value string(std::string bytes, bool safe = false);
  static Value list(std::vector<Value> items) { return sequence(Flavor::kList, std::move(items)); }
  static Value tuple(std::vector<Value> items) { return sequence(Flavor::kTuple, std::move(items)); }
  static Value sequence(Flavor flavor, std::vector<Value> items);
  static Value dict(Dict dict);
  static Value object(std::shared_ptr<Object> object) { return Value(Data(std::move(object))); }

  bool is_none() const { return std::holds_alternative<std::monostate>(data_); }
  bool is_undefined() const { return std::holds_alternative<UndefinedPtr>(data_); }
  bool is_boolean() const { return std::holds_alternative<bool>(data_); }
  bool is_integer() const { return std::holds_alternative<int64_t>(data_); }  // not a boolean
  bool is_float() const { return std::holds_alternative<double>(data_); }
  bool is_integral() const { return is_integer() || is_boolean(); }
  bool is_number() const { return is_integral() || is_float(); }
  bool is_string() const { return std::holds_alternative<TextPtr>(data_); }
  bool is_sequence() const { return std::holds_alternative<SequencePtr>(data_); }
  bool is_flavor(Flavor flavor) const { return is_sequence() && items_of().flavor == flavor; }
  bool is_list() const { return is_flavor(Flavor::kList); }
  bool is_tuple() const { return is_flavor(Flavor::kTuple); }
  bool is_generator() const { return is_flavor(Flavor::kGenerator); }
  bool is_dict() const { return std::holds_alternative<DictPtr>(data_); }
  bool is_object() const { return std::holds_alternative<ObjectPtr>(data_); }

  int64_t as_integer() const;  // of an integer or a boolean
  double as_double() const;    // of any number
  const Text& text() const { return *std::get<TextPtr>(data_); }
  const std::string& bytes() const { return text().bytes; }
  const Sequence& items_of() const { return *std::get<SequencePtr>(data_); }
  Sequence& generator_state() const { return *std::get<SequencePtr>(data_); }
  const Dict& dict_of() const { return *std::get<DictPtr>(data_); }
  Object& object_of() const { return *std::get<ObjectPtr>(data_); }
  const std::shared_ptr<Object>& object_ptr() const { return std::get<ObjectPtr>(data_); }
  const std::string& undefined_message() const { return std::get<UndefinedPtr>(data_)->message; }

  int depth() const;
  int64_t weight() const;                  // bytes that a walk over it reads, shared parts counted each time
  bool same_as(const Value& other) const;  // Python's `is`

 private:
  using TextPtr = std::shared_ptr<const Text>;
  using SequencePtr = std::shared_ptr<Sequence>;
  using DictPtr = std::shared_ptr<const Dict>;
  using ObjectPtr = std::shared_ptr<Object>;
  using UndefinedPtr = std::shared_ptr<const UndefinedInfo>;
  // Every pointer is shared by the copies of the value alone.
  using Data = std::variant<std::monostate, bool, int64_t, double, TextPtr, SequencePtr, DictPtr, ObjectPtr,
      UndefinedPtr>;
  explicit Value(Data data) : data_(std::move(data)) {}
  Data data_;
};

// Sequences that are more than their items.
Value make_generator(std::string made_by, std::vector<Value> items);
Value make_range(int64_t start, int64_t stop, int64_t step);
Value make_group(Value key, Value members);  // of |groupby: a tuple with names

// A mapping that keeps the order in which keys came, as Python's does.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(const Value& key, Value value);  // replaces in place; fails on a key that cannot be hashed
  void set(std::string_view key, Value value) { set(Value::string(std::string(key)), std::move(value)); }
  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  int depth() const { return depth_; }
  int64_t weight() const { return weight_; }

 private:
  std::optional<size_t> position(const Value& key, size_t hash) const;
  std::vector<Entry> entries_;
  std::unordered_multimap<size_t, size_t> index_;  // hash → position
  int depth_ = 1;
  int64_t weight_ = 16;
};

// The arguments of a call, as written.
struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Python's rules.
bool truthy(const Value& value);
bool equal(const Value& a, const Value& b);
bool less(const Value& a, const Value& b, const char* op = "<");  // fails on types that have no order
size_t hash_of(const Value& value);                               // fails on lists and dicts
std::string type_name(const Value& value);                        // "str", "NoneType" …
std::string to_str(const Value& value);
std::string repr(const Value& value);
std::string float_repr(double value);
std::string string_repr(std::string_view bytes);

}  // namespace cheetah::jinja
