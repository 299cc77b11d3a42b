// SPDX-License-Identifier: MIT
// Filters that change the shape of a list or a text: list, items, reverse, batch, slice, indent, center,
// truncate.
#include <algorithm>

#include "base/format.h"
#include "model/template/builtins.h"
#include "model/template/runtime.h"
#include "model/template/text.h"

namespace cheetah::jinja {
namespace {

Value list_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("list", args, {});
  return Value::list(in.iterate(value));
}

Value items_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("items", args, {});
  if (value.is_undefined()) return make_generator("do_items", {});
  if (!value.is_dict()) fail("Can only get item pairs from a mapping.");
  std::vector<Value> pairs;
  for (const auto& [key, entry] : value.dict_of().entries()) {
    in.budget().items(3);
    pairs.push_back(Value::tuple({key, entry}));
  }
  return make_generator("do_items", std::move(pairs));
}

Value reverse_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("reverse", args, {});
  if (value.is_string()) {
    const Value step = Value::integer(-1);
    return in.slice(value, nullptr, nullptr, &step);
  }
  std::vector<Value> items = in.iterate(value);
  std::reverse(items.begin(), items.end());
  return make_generator("reverse", std::move(items));
}

Value batch_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("batch", args, {"linecount", "fill_with"}, 1);
  const int64_t count = params.integer(0, 1);
  std::vector<Value> rows;
  std::vector<Value> row;
  for (Value& item : in.iterate(value)) {
    if (static_cast<int64_t>(row.size()) == count) {
      rows.push_back(in.list(std::move(row)));
      row = {};
    }
    row.push_back(std::move(item));
  }
  if (!row.empty()) {
    const auto size = static_cast<int64_t>(row.size());
    if (params.given_not_none(1) && size < count) {
      in.budget().items(count - size);
      row.resize(static_cast<size_t>(count), params[1]);
    }
    rows.push_back(in.list(std::move(row)));
  }
  return make_generator("do_batch", std::move(rows));
}

Value slice_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("slice", args, {"slices", "fill_with"}, 1);
  const std::vector<Value> items = in.iterate(value);
  const auto length = static_cast<int64_t>(items.size());
  const int64_t slices = params.integer(0, 1);
  if (slices == 0) fail("integer division or modulo by zero");
  in.budget().items(std::max<int64_t>(slices, 0));
  const int64_t per_slice = length / std::max<int64_t>(slices, 1);
  const int64_t with_extra = length % std::max<int64_t>(slices, 1);
  std::vector<Value> result;
  int64_t at = 0;
  for (int64_t number = 0; number < slices; ++number) {
    const int64_t size = per_slice + (number < with_extra ? 1 : 0);
    std::vector<Value> part(items.begin() + at, items.begin() + at + size);
    at += size;
    if (params.given_not_none(1) && number >= with_extra) part.push_back(params[1]);
    result.push_back(in.list(std::move(part)));
  }
  return make_generator("sync_do_slice", std::move(result));
}

Value indent_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("indent", args, {"width", "first", "blank"});
  if (value.is_undefined()) fail(value.undefined_message());
  if (!value.is_string())
    fail(format("unsupported operand type(s) for +=: '{}' and 'str'", type_name(value)));
  std::string indention(4, ' ');
  if (params.given(0) && params[0].is_string()) {
    indention = params[0].bytes();
  } else if (params.given(0)) {
    indention = in.binary('*', Value::string(" "), params[0]).bytes();
  }
  in.budget().bytes(2 * value.weight());
  const std::string source = value.bytes() + "\n";
  const std::vector<std::string_view> lines = split_lines(source);
  in.budget().items(static_cast<int64_t>(lines.size()));
  std::string out = params.boolean(1, false) ? indention : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i != 0) out += '\n';
    if (i != 0 && (params.boolean(2, false) || !lines[i].empty())) out += indention;
    out += lines[i];
    if (static_cast<int64_t>(out.size()) > in.max_text_bytes()) break;  // string() below says so
  }
  return in.string(std::move(out), value.text().safe);
}

Value center_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("center", args, {"width"});
  const Value text = value.is_string() ? value : in.string(in.str(value));
  Args width;
  width.positional.push_back(Value::integer(params.integer(0, 80)));
  return find_string_method("center")(in, text, width);
}

Value truncate_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("truncate", args, {"length", "killwords", "end", "leeway"});
  if (value.is_undefined()) return value;
  if (!value.is_string()) fail(format("truncate needs a text, not {}", type_name(value)));
  const int64_t length = params.integer(0, 255);
  const std::u32string end = decode(params.string(2, "..."));
  const int64_t leeway = params.given_not_none(3) ? params.integer(3, 5) : 5;
  const auto end_size = static_cast<int64_t>(end.size());
  if (length < end_size) fail(format("expected length >= {}, got {}", end_size, length));
  if (leeway < 0) fail(format("expected leeway >= 0, got {}", leeway));
  in.budget().bytes(4 * value.weight());
  const std::u32string text = decode(value.bytes());
  if (static_cast<int64_t>(text.size()) - length <= leeway) return value;
  std::u32string cut = text.substr(0, static_cast<size_t>(length - end_size));
  if (!params.boolean(1, false)) {
    const size_t space = cut.rfind(U' ');
    if (space != std::u32string::npos) cut.resize(space);
  }
  return in.string(encode(cut + end), value.text().safe);
}

constexpr Named<NativeFunction> kFilters[] = {
    {"list", list_filter},
    {"items", items_filter},
    {"reverse", reverse_filter},
    {"batch", batch_filter},
    {"slice", slice_filter},
    {"indent", indent_filter},
    {"center", center_filter},
    {"truncate", truncate_filter},
};

}  // namespace

FilterTable shape_filters() { return {std::begin(kFilters), std::end(kFilters)}; }

}  // namespace cheetah::jinja
