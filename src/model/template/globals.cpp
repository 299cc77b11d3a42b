// SPDX-License-Identifier: MIT
// The functions every template has: range, dict, namespace, cycler, joiner, raise_exception, strftime_now.
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "model/template/builtins.h"
#include "model/template/runtime.h"
#include "model/template/scope.h"

namespace cheetah::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;  // the sandbox's own limit

Value range_function(Runtime& in, const Value&, Args& args) {
  const Params params("range", args, {"start", "stop", "step"}, 1);
  const bool one = !params.given(1);
  const int64_t start = one ? 0 : params.integer(0, 0);
  const int64_t stop = one ? params.integer(0, 0) : params.integer(1, 0);
  const int64_t step = params.integer(2, 1);
  if (step == 0) fail("range() arg 3 must not be zero");
  const __int128 distance =
      step > 0 ? static_cast<__int128>(stop) - start : static_cast<__int128>(start) - stop;
  const __int128 stride = step > 0 ? static_cast<__int128>(step) : -static_cast<__int128>(step);
  const __int128 length = distance <= 0 ? 0 : (distance + stride - 1) / stride;
  if (length > kMaxRange)
    fail(format("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", kMaxRange));
  in.budget().items(static_cast<int64_t>(length));
  return make_range(start, stop, step);
}

Dict dict_from(Runtime& in, const char* function, const Args& args) {
  Dict dict;
  if (args.positional.size() > 1)
    fail(format("{} expected at most 1 argument, got {}", function, args.positional.size()));
  if (!args.positional.empty()) {
    const Value& source = args.positional[0];
    if (source.is_dict()) {
      in.budget().items(2 * static_cast<int64_t>(source.dict_of().size()));
      dict = source.dict_of();
    } else {
      for (const Value& pair : in.iterate(source)) {
        const std::vector<Value> parts = in.iterate(pair);
        if (parts.size() != 2)
          fail(format("dictionary update sequence element has length {}; 2 is required", parts.size()));
        dict.set(parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : args.named) dict.set(name, value);
  return dict;
}

Value dict_function(Runtime& in, const Value&, Args& args) {
  return Value::dict(dict_from(in, "dict", args));
}

Value namespace_function(Runtime& in, const Value&, Args& args) {
  auto space = std::make_shared<Namespace>();
  space->attributes = dict_from(in, "namespace", args);
  in.budget().items(4);
  in.keep(space);
  return Value::object(std::move(space));
}

Value cycler_next(Runtime&, const Value& self, Args& args);
Value cycler_reset(Runtime&, const Value& self, Args& args);

struct Cycler : Object {
  std::string type_name() const override { return "Cycler"; }
  std::optional<Value> attribute(std::string_view name) const override {
    const auto method = [&](NativeFunction function) {
      auto self = Value::object(std::const_pointer_cast<Object>(shared_from_this()));
      return Value::object(std::make_shared<Method>(std::move(self), function, std::string(name)));
    };
    if (name == "current") return items[at];
    if (name == "items") return Value::tuple(items);
    if (name == "pos") return Value::integer(static_cast<int64_t>(at));
    if (name == "next") return method(cycler_next);
    if (name == "reset") return method(cycler_reset);
    return std::nullopt;
  }
  int depth() const override { return data_depth + 1; }
  std::vector<Value> items;
  int data_depth = 0;
  size_t at = 0;
};

Value cycler_next(Runtime&, const Value& self, Args&) {
  auto& cycler = dynamic_cast<Cycler&>(self.object_of());
  Value value = cycler.items[cycler.at];
  cycler.at = (cycler.at + 1) % cycler.items.size();
  return value;
}

Value cycler_reset(Runtime&, const Value& self, Args&) {
  dynamic_cast<Cycler&>(self.object_of()).at = 0;
  return Value();
}

Value cycler_function(Runtime&, const Value&, Args& args) {
  if (args.positional.empty()) fail("at least one item has to be provided");
  auto cycler = std::make_shared<Cycler>();
  for (const Value& item : args.positional) cycler->data_depth = std::max(cycler->data_depth, item.depth());
  cycler->items = args.positional;
  Value result = Value::object(std::move(cycler));
  if (result.depth() > kMaxDataDepth) fail("data is nested too deeply");
  return result;
}

struct Joiner : Object {
  std::string type_name() const override { return "Joiner"; }
  bool callable() const override { return true; }
  Value call(Runtime&, Args&) override {
    if (std::exchange(used, true)) return separator;
    return Value::string("");
  }
  Value separator;
  bool used = false;
};

Value joiner_function(Runtime&, const Value&, Args& args) {
  const Params params("joiner", args, {"sep"});
  auto joiner = std::make_shared<Joiner>();
  joiner->separator = Value::string(params.text_of(0, ", "));
  return Value::object(std::move(joiner));
}

Value raise_exception(Runtime& in, const Value&, Args& args) {
  const Params params("raise_exception", args, {"message"}, 1);
  constexpr size_t kMaxMessage = 2000;
  fail(printable(in.str(params[0]), kMaxMessage));
}

Value strftime_now(Runtime& in, const Value&, Args& args) {
  const Params params("strftime_now", args, {"format"}, 1);
  const std::string pattern = params.string(0, "");
  in.budget().bytes(32 * static_cast<int64_t>(pattern.size()));
  return in.string(strftime(pattern, in.now()));
}

constexpr Named<NativeFunction> kGlobals[] = {
    {"range", range_function},
    {"dict", dict_function},
    {"namespace", namespace_function},
    {"cycler", cycler_function},
    {"joiner", joiner_function},
    {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
};

}  // namespace

std::optional<Value> find_global(const std::string& name) {
  const auto* found =
      std::find_if(std::begin(kGlobals), std::end(kGlobals), [&](auto& g) { return g.name == name; });
  if (found == std::end(kGlobals)) return std::nullopt;
  return Value::object(std::make_shared<Method>(Value(), found->function, name));
}

}  // namespace cheetah::jinja
