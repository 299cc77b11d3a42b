// SPDX-License-Identifier: MIT
// Attributes, elements, slices and iteration: what a template may reach of a value.
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "model/template/runtime.h"
#include "model/template/text.h"

namespace cheetah::jinja {
namespace {

std::string object_name(const Value& object) {
  if (object.is_none()) return "None";
  if (object.is_object()) return format("jinja2 {} object", type_name(object));
  return type_name(object) + " object";
}

const Value* element_at(const std::vector<Value>& items, int64_t index) {
  const auto size = static_cast<int64_t>(items.size());
  if (index < 0) index += size;
  return index >= 0 && index < size ? &items[static_cast<size_t>(index)] : nullptr;
}

// The bounds Python's slice.indices() gives for a length.
struct SliceBounds {
  int64_t start = 0, stop = 0, step = 1;
};

std::optional<int64_t> slice_part(const Value* part) {
  if (!part || part->is_none()) return std::nullopt;
  if (part->is_undefined()) fail(part->undefined_message());
  if (!part->is_integral()) fail("slice indices must be integers or None or have an __index__ method");
  return part->as_integer();
}

SliceBounds slice_bounds(const Value* start, const Value* stop, const Value* step, int64_t length) {
  SliceBounds bounds;
  bounds.step = slice_part(step).value_or(1);
  if (bounds.step == 0) fail("slice step cannot be zero");
  if (bounds.step == INT64_MIN) bounds.step = -INT64_MAX;
  const int64_t low = bounds.step < 0 ? -1 : 0;
  const int64_t high = bounds.step < 0 ? length - 1 : length;
  const auto clamp = [&](int64_t at) { return at < 0 ? std::max(at + length, low) : std::min(at, high); };
  const auto first = slice_part(start);
  const auto last = slice_part(stop);
  bounds.start = first ? clamp(*first) : bounds.step < 0 ? high : low;
  bounds.stop = last ? clamp(*last) : bounds.step < 0 ? low : high;
  return bounds;
}

template <class Take>
void for_slice(const SliceBounds& bounds, Take take) {
  int64_t at = bounds.start;
  while (bounds.step > 0 ? at < bounds.stop : at > bounds.stop) {
    take(static_cast<size_t>(at));
    if (__builtin_add_overflow(at, bounds.step, &at)) break;
  }
}

std::string sliced_text(const Text& text, const Value* start, const Value* stop, const Value* step) {
  std::string out;
  if (text.ascii) {
    const SliceBounds bounds = slice_bounds(start, stop, step, static_cast<int64_t>(text.bytes.size()));
    if (bounds.step == 1)
      return bounds.start < bounds.stop ? text.bytes.substr(static_cast<size_t>(bounds.start),
                                              static_cast<size_t>(bounds.stop - bounds.start))
                                        : "";
    for_slice(bounds, [&](size_t at) { out += text.bytes[at]; });
    return out;
  }
  const std::u32string wide = decode(text.bytes);
  const SliceBounds bounds = slice_bounds(start, stop, step, static_cast<int64_t>(wide.size()));
  for_slice(bounds, [&](size_t at) { append_utf8(out, wide[at]); });
  return out;
}

}  // namespace

std::string missing_attribute(const Value& object, const Value& name) {
  if (name.is_string())
    return format("'{}' has no attribute {}", object_name(object), string_repr(printable(name.bytes())));
  return format("{} has no element {}", object_name(object), printable(repr(name)));
}

std::optional<Value> Runtime::known_attribute(const Value& object, const std::string& name) {
  if (name.starts_with("__")) fail(format("attribute \"{}\" is not allowed", printable(name)));
  if (is_mutating_method(object, name))
    return Value::undefined(
        format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(object)));
  if (object.is_object()) return object.object_of().attribute(name);
  if (const NativeFunction function = find_method(object, name))
    return Value::object(std::make_shared<Method>(object, function, name));
  if (object.is_tuple() && object.items_of().made_by == "group") {
    if (name == "grouper") return object.items_of().items[0];
    if (name == "list") return object.items_of().items[1];
  }
  if (object.is_number() && (name == "real" || name == "numerator")) return object;
  if (object.is_number() && name == "imag") return Value::integer(0);
  if (object.is_integral() && name == "denominator") return Value::integer(1);
  return std::nullopt;
}

// `a.b`: a method first, then the key, as the original does; a key with the name of a method needs a['b'].
Value Runtime::attribute(const Value& object, const std::string& name) {
  if (object.is_undefined()) fail(object.undefined_message());
  const Value* key = object.is_dict() ? object.dict_of().find(name) : nullptr;
  if (key && name.starts_with("__")) return *key;
  if (auto value = known_attribute(object, name)) return *value;
  if (key) return *key;
  return Value::undefined(missing_attribute(object, Value::string(name)));
}

Value Runtime::item(const Value& object, const Value& key) {
  if (object.is_undefined()) fail(object.undefined_message());
  if (object.is_dict()) {
    budget_.bytes(key.weight());
    const bool hashable = !key.is_list() && !key.is_dict();
    if (const Value* value = hashable ? object.dict_of().find(key) : nullptr) return *value;
  } else if (object.is_string() && key.is_integral()) {
    const int64_t index = key.as_integer();
    const Value next = Value::integer(index + 1);
    budget_.bytes(object.text().ascii ? 1 : object.weight());
    std::string character = sliced_text(object.text(), &key, index == -1 ? nullptr : &next, nullptr);
    if (!character.empty()) return string(std::move(character), object.text().safe);
  } else if (object.is_sequence() && key.is_integral()) {
    const Flavor flavor = object.items_of().flavor;
    const bool indexed = flavor == Flavor::kList || flavor == Flavor::kTuple || flavor == Flavor::kRange;
    const Value* value = indexed ? element_at(object.items_of().items, key.as_integer()) : nullptr;
    if (value) return *value;
  }
  if (key.is_string())
    if (auto value = known_attribute(object, key.bytes())) return *value;
  return Value::undefined(missing_attribute(object, key));
}

Value Runtime::slice(const Value& object, const Value* start, const Value* stop, const Value* step) {
  if (object.is_undefined()) fail(object.undefined_message());
  if (object.is_string()) {
    budget_.bytes(object.text().ascii ? 1 : object.weight());
    return string(sliced_text(object.text(), start, stop, step), object.text().safe);
  }
  if (object.is_dict()) fail("unhashable type: 'slice'");
  const bool sliceable = object.is_list() || object.is_tuple() || object.is_flavor(Flavor::kRange);
  if (!sliceable) fail(format("'{}' object is not subscriptable", type_name(object)));
  const std::vector<Value>& all = object.items_of().items;
  std::vector<Value> items;
  const SliceBounds bounds = slice_bounds(start, stop, step, static_cast<int64_t>(all.size()));
  for_slice(bounds, [&](size_t at) { items.push_back(all[at]); });
  budget_.items(static_cast<int64_t>(items.size()));
  if (object.is_flavor(Flavor::kRange)) {
    const Sequence& range = object.items_of();
    const auto at = [&](__int128 index) {
      const __int128 value = range.start + index * range.step;
      return static_cast<int64_t>(std::clamp<__int128>(value, INT64_MIN, INT64_MAX));
    };
    const __int128 stride = static_cast<__int128>(range.step) * bounds.step;
    return make_range(at(bounds.start), at(bounds.stop),
        static_cast<int64_t>(std::clamp<__int128>(stride, -INT64_MAX, INT64_MAX)));
  }
  return object.is_tuple() ? Value::tuple(std::move(items)) : Value::list(std::move(items));
}

std::vector<Value> Runtime::iterate(const Value& value) {
  std::vector<Value> items;
  if (value.is_undefined()) return items;
  if (value.is_string()) {
    budget_.items(static_cast<int64_t>(value.bytes().size()));
    for (size_t at = 0; at < value.bytes().size();) {
      const size_t start = at;
      next_code_point(value.bytes(), at);
      items.push_back(Value::string(value.bytes().substr(start, at - start)));
    }
  } else if (value.is_dict()) {
    budget_.items(static_cast<int64_t>(value.dict_of().size()));
    for (const auto& [key, unused] : value.dict_of().entries()) items.push_back(key);
  } else if (value.is_generator()) {
    Sequence& state = value.generator_state();
    budget_.items(static_cast<int64_t>(state.items.size()));
    items.assign(state.items.begin() + static_cast<ptrdiff_t>(state.consumed), state.items.end());
    state.consumed = state.items.size();
  } else if (value.is_sequence()) {
    budget_.items(static_cast<int64_t>(value.items_of().items.size()));
    items = value.items_of().items;
  } else {
    fail(format("'{}' object is not iterable", type_name(value)));
  }
  return items;
}

}  // namespace cheetah::jinja
