// SPDX-License-Identifier: MIT
#include "model/template/value.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/format.h"

namespace cheetah::jinja {
namespace {

int checked_depth(int depth) {
  if (depth > kMaxDataDepth) fail(format("data is nested deeper than {} levels", kMaxDataDepth));
  return depth;
}

// Shared parts count each time they are reached, so sums can explode: they stop at a number no budget has.
int64_t add_weight(int64_t a, int64_t b) { return std::min(a + b, int64_t{1} << 60); }

}  // namespace

std::string Object::repr() const { return format("<{} object>", type_name()); }

std::optional<Value> Object::attribute(std::string_view) const { return std::nullopt; }

Value Object::call(Runtime&, Args&) { fail(format("'{}' object is not callable", type_name())); }

Value Value::undefined(std::string message) {
  return Value(Data(std::make_shared<const UndefinedInfo>(UndefinedInfo{std::move(message)})));
}

Value Value::string(std::string bytes, bool safe) {
  const bool ascii = std::all_of(bytes.begin(), bytes.end(), [](char c) { return (c & 0x80) == 0; });
  return Value(Data(std::make_shared<const Text>(Text{std::move(bytes), safe, ascii})));
}

Value Value::sequence(Flavor flavor, std::vector<Value> items) {
  auto sequence = std::make_shared<Sequence>();
  sequence->flavor = flavor;
  for (const Value& item : items) {
    sequence->depth = std::max(sequence->depth, item.depth() + 1);
    sequence->weight = add_weight(sequence->weight, item.weight());
  }
  checked_depth(sequence->depth);
  sequence->items = std::move(items);
  return Value(Data(std::move(sequence)));
}

Value make_generator(std::string made_by, std::vector<Value> items) {
  Value result = Value::sequence(Flavor::kGenerator, std::move(items));
  result.generator_state().made_by = std::move(made_by);
  return result;
}

Value make_range(int64_t start, int64_t stop, int64_t step) {
  std::vector<Value> items;
  for (int64_t at = start; step > 0 ? at < stop : at > stop;) {
    items.push_back(Value::integer(at));
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  Value result = Value::sequence(Flavor::kRange, std::move(items));
  Sequence& state = result.generator_state();
  state.start = start;
  state.stop = stop;
  state.step = step;
  return result;
}

Value make_group(Value key, Value members) {
  Value result = Value::tuple({std::move(key), std::move(members)});
  result.generator_state().made_by = "group";
  return result;
}

Value Value::dict(Dict dict) {
  checked_depth(dict.depth());
  return Value(Data(std::make_shared<const Dict>(std::move(dict))));
}

int64_t Value::as_integer() const {
  if (const bool* flag = std::get_if<bool>(&data_)) return *flag ? 1 : 0;
  return std::get<int64_t>(data_);
}

double Value::as_double() const {
  return is_float() ? std::get<double>(data_) : static_cast<double>(as_integer());
}

int Value::depth() const {
  if (is_sequence()) return items_of().depth;
  if (is_dict()) return dict_of().depth();
  if (is_object()) return object_of().depth();
  return 0;
}

int64_t Value::weight() const {
  if (is_string()) return 8 + static_cast<int64_t>(bytes().size());
  if (is_sequence()) return items_of().weight;
  if (is_dict()) return dict_of().weight();
  return 8;
}

bool Value::same_as(const Value& other) const {
  if (data_.index() != other.data_.index()) return false;
  if (is_none() || is_boolean() || is_integer() || is_string()) return equal(*this, other);
  if (is_float()) return as_double() == other.as_double();
  if (is_sequence()) return &items_of() == &other.items_of();
  if (is_dict()) return &dict_of() == &other.dict_of();
  if (is_object()) return &object_of() == &other.object_of();
  return std::get<UndefinedPtr>(data_) == std::get<UndefinedPtr>(other.data_);
}

std::optional<size_t> Dict::position(const Value& key, size_t hash) const {
  constexpr size_t kScan = 8;  // up to here a walk over the keys beats the index
  if (entries_.size() <= kScan) {
    for (size_t i = 0; i < entries_.size(); ++i)
      if (equal(entries_[i].first, key)) return i;
    return std::nullopt;
  }
  const auto [first, last] = index_.equal_range(hash);
  for (auto at = first; at != last; ++at)
    if (equal(entries_[at->second].first, key)) return at->second;
  return std::nullopt;
}

const Value* Dict::find(const Value& key) const {
  const auto at = position(key, hash_of(key));
  return at ? &entries_[*at].second : nullptr;
}

const Value* Dict::find(std::string_view key) const { return find(Value::string(std::string(key))); }

void Dict::set(const Value& key, Value value) {
  const size_t hash = hash_of(key);
  depth_ = std::max({depth_, key.depth() + 1, value.depth() + 1});
  weight_ = add_weight(weight_, add_weight(key.weight(), value.weight()));
  if (const auto at = position(key, hash)) {
    entries_[*at].second = std::move(value);
    return;
  }
  index_.emplace(hash, entries_.size());
  entries_.emplace_back(key, std::move(value));
}

}  // namespace cheetah::jinja
