// SPDX-License-Identifier: MIT
// Filters that pick items: map, select, reject and their attribute forms, first, last, random.
#include <algorithm>

#include "base/format.h"
#include "model/template/attribute_path.h"

namespace cheetah::jinja {
namespace {

// Python makes these lazily and never looks at the arguments when there is nothing to walk over.
bool nothing_to_walk(const Value& value) { return !truthy(value); }

Value map_filter(Runtime& in, const Value& value, Args& args) {
  if (nothing_to_walk(value)) return make_generator("sync_do_map", {});
  std::vector<Value> mapped;
  if (args.positional.empty() && !args.named.empty()) {
    const Params params("map", args, {"attribute", "default"});
    if (!params.given(0)) fail("map requires a filter argument");
    const AttributePath path(&params[0]);
    const Value* fallback = params.given_not_none(1) ? params.get(1) : nullptr;
    for (const Value& item : in.iterate(value)) mapped.push_back(path.get(in, item, fallback));
    return make_generator("sync_do_map", std::move(mapped));
  }
  if (args.positional.empty()) fail("map requires a filter argument");
  if (!args.positional[0].is_string()) fail("map requires the name of a filter");
  const std::string name = args.positional[0].bytes();
  Args rest;
  rest.positional.assign(args.positional.begin() + 1, args.positional.end());
  rest.named = args.named;
  for (const Value& item : in.iterate(value)) mapped.push_back(in.call_filter(name, item, rest));
  return make_generator("sync_do_map", std::move(mapped));
}

struct Selection {
  const char* name;
  bool keep_when;
  bool by_attribute;
};

Value select_items(Runtime& in, const Value& value, Args& args, const Selection& selection) {
  if (nothing_to_walk(value)) return make_generator("select_or_reject", {});
  size_t used = 0;
  AttributePath path(nullptr);
  if (selection.by_attribute) {
    if (args.positional.empty()) fail("Missing parameter for attribute name");
    path = AttributePath(&args.positional[used++]);
  }
  std::string test;
  if (used < args.positional.size()) {
    if (!args.positional[used].is_string()) fail(format("{} requires the name of a test", selection.name));
    test = args.positional[used++].bytes();
  }
  Args rest;
  rest.positional.assign(args.positional.begin() + static_cast<ptrdiff_t>(used), args.positional.end());
  rest.named = args.named;
  std::vector<Value> kept;
  for (const Value& item : in.iterate(value)) {
    const Value subject = path.get(in, item);
    const bool passes = test.empty() ? truthy(subject) : in.call_test(test, subject, rest);
    if (passes == selection.keep_when) kept.push_back(item);
  }
  return make_generator("select_or_reject", std::move(kept));
}

Value select_filter(Runtime& in, const Value& value, Args& args) {
  return select_items(in, value, args, {"select", true, false});
}
Value reject_filter(Runtime& in, const Value& value, Args& args) {
  return select_items(in, value, args, {"reject", false, false});
}
Value selectattr_filter(Runtime& in, const Value& value, Args& args) {
  return select_items(in, value, args, {"selectattr", true, true});
}
Value rejectattr_filter(Runtime& in, const Value& value, Args& args) {
  return select_items(in, value, args, {"rejectattr", false, true});
}

Value first_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("first", args, {});
  if (value.is_generator()) {  // takes one, leaves the rest
    Sequence& state = value.generator_state();
    if (state.consumed >= state.items.size()) return Value::undefined("No first item, sequence was empty.");
    return state.items[state.consumed++];
  }
  const std::vector<Value> items = in.iterate(value);
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items[0];
}

Value last_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("last", args, {});
  if (value.is_generator()) fail("'generator' object is not reversible");
  const std::vector<Value> items = in.iterate(value);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

// Rendering is a pure function of its input, so the choice follows from the time given and the length.
Value random_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("random", args, {});
  const std::vector<Value> items = in.iterate(value);
  if (items.empty()) return Value::undefined("No random item, sequence was empty.");
  const auto seed = static_cast<uint64_t>(in.now()) * 0x9e3779b97f4a7c15u;
  return items[(seed >> 32) % items.size()];
}

constexpr Named<NativeFunction> kFilters[] = {
    {"map", map_filter},
    {"select", select_filter},
    {"reject", reject_filter},
    {"selectattr", selectattr_filter},
    {"rejectattr", rejectattr_filter},
    {"first", first_filter},
    {"last", last_filter},
    {"random", random_filter},
};

}  // namespace

FilterTable selection_filters() { return {std::begin(kFilters), std::end(kFilters)}; }

}  // namespace cheetah::jinja
