// SPDX-License-Identifier: MIT
// Filters over lists: order, extremes, grouping, joining.
#include <algorithm>

#include "base/format.h"
#include "model/template/attribute_path.h"
#include "model/template/text.h"

namespace cheetah::jinja {
namespace {

std::vector<std::string> split_on(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

// Sorts by keys that are compared with Python's rules, keeping equal items in order.
std::vector<size_t> sorted_order(Runtime& in, const std::vector<Value>& keys, bool reverse) {
  std::vector<size_t> order(keys.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return reverse ? in.is_less(keys[b], keys[a]) : in.is_less(keys[a], keys[b]);
  });
  return order;
}

Value sort_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("sort", args, {"reverse", "case_sensitive", "attribute"});
  const std::vector<AttributePath> paths = attribute_paths(params.get(2));
  const bool case_sensitive = params.boolean(1, false);
  const std::vector<Value> items = in.iterate(value);
  std::vector<Value> keys;
  for (const Value& item : items) {
    std::vector<Value> key;
    for (const AttributePath& path : paths) {
      const Value part = path.get(in, item);
      key.push_back(case_sensitive ? part : ignore_case(part));
    }
    keys.push_back(in.list(std::move(key)));  // a list, as lists compare equal parts without ordering them
  }
  std::vector<Value> sorted;
  for (const size_t at : sorted_order(in, keys, params.boolean(0, false))) sorted.push_back(items[at]);
  return in.list(std::move(sorted));
}

Value dictsort_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("dictsort", args, {"case_sensitive", "by", "reverse"});
  const std::string by = params.string(1, "key");
  if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
  if (value.is_undefined()) fail(value.undefined_message());
  if (!value.is_dict()) fail(missing_attribute(value, Value::string("items")));
  std::vector<Value> keys;
  for (const auto& [key, entry] : value.dict_of().entries()) {
    const Value& part = by == "key" ? key : entry;
    keys.push_back(params.boolean(0, false) ? part : ignore_case(part));
  }
  std::vector<Value> sorted;
  for (const size_t at : sorted_order(in, keys, params.boolean(2, false))) {
    const auto& [key, entry] = value.dict_of().entries()[at];
    in.budget().items(2);
    sorted.push_back(Value::tuple({key, entry}));
  }
  return in.list(std::move(sorted));
}

Value unique_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("unique", args, {"case_sensitive", "attribute"});
  const AttributePath path(params.get(1));
  Dict seen;
  std::vector<Value> kept;
  for (const Value& item : in.iterate(value)) {
    const Value part = path.get(in, item);
    const Value key = params.boolean(0, false) ? part : ignore_case(part);
    in.budget().bytes(key.weight());
    if (seen.find(key)) continue;
    seen.set(key, Value());
    kept.push_back(item);
  }
  return make_generator("sync_do_unique", std::move(kept));
}

Value extreme(Runtime& in, const Value& value, const Params& params, bool largest) {
  const AttributePath path(params.get(1));
  const std::vector<Value> items = in.iterate(value);
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  const auto key_of = [&](const Value& item) {
    const Value part = path.get(in, item);
    return params.boolean(0, false) ? part : ignore_case(part);
  };
  size_t best = 0;
  Value best_key = key_of(items[0]);
  for (size_t i = 1; i < items.size(); ++i) {
    const Value key = key_of(items[i]);
    if (!(largest ? in.is_less(best_key, key, ">") : in.is_less(key, best_key))) continue;
    best = i;
    best_key = key;
  }
  return items[best];
}

Value min_filter(Runtime& in, const Value& value, Args& args) {
  return extreme(in, value, Params("min", args, {"case_sensitive", "attribute"}), false);
}

Value max_filter(Runtime& in, const Value& value, Args& args) {
  return extreme(in, value, Params("max", args, {"case_sensitive", "attribute"}), true);
}

Value sum_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("sum", args, {"attribute", "start"});
  const AttributePath path(params.get(0));
  Value total = params.given(1) ? params[1] : Value::integer(0);
  if (total.is_string()) fail("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& item : in.iterate(value)) total = in.binary('+', total, path.get(in, item));
  return total;
}

Value join_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("join", args, {"d", "attribute"});
  const AttributePath path(params.get(1));
  const std::string separator = params.text_of(0, "");
  std::string out;
  bool first = true;
  for (const Value& item : in.iterate(value)) {
    if (!first) out += separator;
    first = false;
    out += in.str(path.get(in, item));
    in.budget().bytes(static_cast<int64_t>(separator.size()));
    if (static_cast<int64_t>(out.size()) > in.max_text_bytes()) break;  // string() below says so
  }
  return in.string(std::move(out));
}

Value groupby_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("groupby", args, {"attribute", "default", "case_sensitive"}, 1);
  const AttributePath path(&params[0]);
  const Value* fallback = params.given_not_none(1) ? params.get(1) : nullptr;
  const bool case_sensitive = params.boolean(2, false);
  const std::vector<Value> items = in.iterate(value);
  std::vector<Value> keys;
  for (const Value& item : items) {
    const Value key = path.get(in, item, fallback);
    keys.push_back(case_sensitive ? key : ignore_case(key));
  }
  std::vector<Value> groups;
  std::vector<Value> members;
  const std::vector<size_t> order = sorted_order(in, keys, false);
  for (size_t i = 0; i < order.size(); ++i) {
    members.push_back(items[order[i]]);
    if (i + 1 < order.size() && in.equals(keys[order[i]], keys[order[i + 1]])) continue;
    const Value key = path.get(in, members[0], fallback);
    groups.push_back(make_group(key, in.list(std::move(members))));
    members = {};
  }
  return in.list(std::move(groups));
}

constexpr Named<NativeFunction> kFilters[] = {
    {"sort", sort_filter},
    {"dictsort", dictsort_filter},
    {"unique", unique_filter},
    {"min", min_filter},
    {"max", max_filter},
    {"sum", sum_filter},
    {"join", join_filter},
    {"groupby", groupby_filter},
};

}  // namespace

AttributePath::AttributePath(const Value* attribute) {
  if (!attribute || attribute->is_none()) return;
  if (!attribute->is_string()) {
    parts_.push_back(*attribute);
    return;
  }
  for (std::string& part : split_on(attribute->bytes(), '.')) {
    const bool digits =
        !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    const auto number = digits ? parse_integer(part) : std::nullopt;
    parts_.push_back(number ? Value::integer(*number) : Value::string(std::move(part)));
  }
}

Value AttributePath::get(Runtime& in, Value item, const Value* fallback) const {
  for (const Value& part : parts_) {
    item = in.item(item, part);
    if (fallback && item.is_undefined()) item = *fallback;
  }
  return item;
}

std::vector<AttributePath> attribute_paths(const Value* attributes) {
  std::vector<AttributePath> paths;
  if (!attributes || !attributes->is_string()) {
    paths.emplace_back(attributes);
    return paths;
  }
  for (const std::string& part : split_on(attributes->bytes(), ',')) {
    const Value path = Value::string(part);
    paths.emplace_back(&path);
  }
  return paths;
}

Value ignore_case(const Value& value) {
  return value.is_string() ? Value::string(lower(value.bytes())) : value;
}

FilterTable sequence_filters() { return {std::begin(kFilters), std::end(kFilters)}; }

}  // namespace cheetah::jinja
