// SPDX-License-Identifier: MIT
// Methods of list, tuple, dict and numbers; those that would change a container are known but refused.
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "model/template/builtins.h"
#include "model/template/runtime.h"

namespace cheetah::jinja {
namespace {

Value count_method(Runtime& in, const Value& self, Args& args) {
  const Params params("count", args, {"value"}, 1);
  int64_t count = 0;
  for (const Value& item : self.items_of().items) count += in.equals(item, params[0]) ? 1 : 0;
  return Value::integer(count);
}

Value index_method(Runtime& in, const Value& self, Args& args) {
  const Params params("index", args, {"value", "start", "stop"}, 1);
  const auto& items = self.items_of().items;
  const auto size = static_cast<int64_t>(items.size());
  const auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size); };
  for (int64_t i = clamp(params.integer(1, 0)); i < clamp(params.integer(2, size)); ++i)
    if (in.equals(items[static_cast<size_t>(i)], params[0])) return Value::integer(i);
  fail(format("{} is not in {}", repr(params[0]), type_name(self)));
}

Value copy_method(Runtime&, const Value& self, Args& args) {
  const Params params("copy", args, {});
  return self;  // containers never change, so a copy is the same
}

Value keys_method(Runtime& in, const Value& self, Args& args) {
  const Params params("keys", args, {});
  return Value::sequence(Flavor::kKeys, in.iterate(self));
}

Value values_method(Runtime& in, const Value& self, Args& args) {
  const Params params("values", args, {});
  std::vector<Value> values;
  in.budget().items(static_cast<int64_t>(self.dict_of().size()));
  for (const auto& [key, value] : self.dict_of().entries()) values.push_back(value);
  return Value::sequence(Flavor::kValues, std::move(values));
}

Value items_method(Runtime& in, const Value& self, Args& args) {
  const Params params("items", args, {});
  std::vector<Value> pairs;
  in.budget().items(3 * static_cast<int64_t>(self.dict_of().size()));
  for (const auto& [key, value] : self.dict_of().entries()) pairs.push_back(Value::tuple({key, value}));
  return Value::sequence(Flavor::kItems, std::move(pairs));
}

Value get_method(Runtime& in, const Value& self, Args& args) {
  const Params params("get", args, {"key", "default"}, 1);
  in.budget().bytes(params[0].weight());
  if (const Value* value = self.dict_of().find(params[0])) return *value;
  return params.given(1) ? params[1] : Value();
}

Value fromkeys_method(Runtime& in, const Value&, Args& args) {
  const Params params("fromkeys", args, {"iterable", "value"}, 1);
  Dict dict;
  for (const Value& key : in.iterate(params[0])) dict.set(key, params.given(1) ? params[1] : Value());
  return Value::dict(std::move(dict));
}

Value is_integer_method(Runtime&, const Value& self, Args&) {
  return Value::boolean(std::floor(self.as_double()) == self.as_double() && std::isfinite(self.as_double()));
}

Value conjugate_method(Runtime&, const Value& self, Args&) { return self; }

Value bit_length_method(Runtime&, const Value& self, Args&) {
  const int64_t value = self.as_integer();
  const uint64_t size = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  return Value::integer(size == 0 ? 0 : 64 - __builtin_clzll(size));
}

constexpr Named<NativeFunction> kListMethods[] = {
    {"count", count_method}, {"index", index_method}, {"copy", copy_method}};
constexpr Named<NativeFunction> kDictMethods[] = {{"keys", keys_method}, {"values", values_method},
    {"items", items_method}, {"get", get_method}, {"copy", copy_method}, {"fromkeys", fromkeys_method}};
constexpr std::string_view kListMutators[] = {
    "append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"};
constexpr std::string_view kDictMutators[] = {"clear", "pop", "popitem", "setdefault", "update"};

template <size_t count>
NativeFunction find_in(const Named<NativeFunction> (&methods)[count], std::string_view name) {
  const auto* found =
      std::find_if(std::begin(methods), std::end(methods), [&](auto& m) { return m.name == name; });
  return found == std::end(methods) ? nullptr : found->function;
}

}  // namespace

NativeFunction find_container_method(const Value& self, std::string_view name) {
  if (self.is_dict()) return find_in(kDictMethods, name);
  if (self.is_list()) return find_in(kListMethods, name);
  if ((self.is_tuple() || self.is_flavor(Flavor::kRange)) && name != "copy")
    return find_in(kListMethods, name);
  if (self.is_number() && name == "conjugate") return conjugate_method;
  if (self.is_float() && name == "is_integer") return is_integer_method;
  if (self.is_integral() && name == "bit_length") return bit_length_method;
  return nullptr;
}

NativeFunction find_method(const Value& self, std::string_view name) {
  return self.is_string() ? find_string_method(name) : find_container_method(self, name);
}

bool is_mutating_method(const Value& self, std::string_view name) {
  const auto has = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  return (self.is_list() && has(kListMutators)) || (self.is_dict() && has(kDictMutators));
}

}  // namespace cheetah::jinja
