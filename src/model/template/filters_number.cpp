// SPDX-License-Identifier: MIT
// Filters that make or change numbers, and lengths.
#include <cmath>

#include "base/format.h"
#include "model/template/builtins.h"
#include "model/template/runtime.h"
#include "model/template/text.h"

namespace cheetah::jinja {
namespace {

Value from_float(double number, const Value& fallback) {
  if (!std::isfinite(number)) return fallback;
  const double whole = std::trunc(number);
  if (std::abs(whole) >= 9.2e18) fail("integer overflow: the number does not fit in 64 bits");
  return Value::integer(static_cast<int64_t>(whole));
}

Value int_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("int", args, {"default", "base"});
  Value fallback = params.given(0) ? params[0] : Value::integer(0);
  if (value.is_undefined()) fail(value.undefined_message());
  if (value.is_integral()) return Value::integer(value.as_integer());
  if (value.is_float()) return from_float(value.as_double(), fallback);
  if (!value.is_string()) return fallback;
  in.budget().bytes(value.weight());
  if (const auto number = parse_integer(value.bytes(), params.integer(1, 10))) return Value::integer(*number);
  const auto number = parse_float(value.bytes());
  return number ? from_float(*number, fallback) : fallback;
}

Value float_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("float", args, {"default"});
  Value fallback = params.given(0) ? params[0] : Value::number(0);
  if (value.is_undefined()) fail(value.undefined_message());
  if (value.is_number()) return Value::number(value.as_double());
  if (!value.is_string()) return fallback;
  in.budget().bytes(value.weight());
  const auto number = parse_float(value.bytes());
  return number ? Value::number(*number) : fallback;
}

Value abs_filter(Runtime&, const Value& value, Args& args) {
  const Params params("abs", args, {});
  if (value.is_undefined()) fail(value.undefined_message());
  if (!value.is_number()) fail(format("bad operand type for abs(): '{}'", type_name(value)));
  if (value.is_float()) return Value::number(std::abs(value.as_double()));
  if (value.as_integer() == INT64_MIN) fail("integer overflow");
  return Value::integer(std::abs(value.as_integer()));
}

// Half goes to the even neighbour; the decimal form decides, as in Python.
double round_common(double value, int64_t digits) {
  if (!std::isfinite(value) || digits > 300) return value;
  if (digits < -300) return 0.0 * value;
  if (digits >= 0) return std::strtod(format("{:.{}f}", value, digits).c_str(), nullptr);
  const double scale = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(value / scale) * scale;
}

Value round_integer(int64_t value, int64_t digits) {
  if (digits >= 0) return Value::integer(value);
  if (digits < -18) return Value::integer(0);
  int64_t scale = 1;
  for (int64_t i = digits; i < 0; ++i) scale *= 10;
  const __int128 half = scale / 2;
  __int128 quotient = value / scale;
  const __int128 rest = value - quotient * scale;
  const __int128 size = rest < 0 ? -rest : rest;
  if (size > half || (size == half && quotient % 2 != 0)) quotient += value < 0 ? -1 : 1;
  return Value::integer(static_cast<int64_t>(quotient * scale));
}

Value round_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("round", args, {"precision", "method"});
  const std::string method = params.string(1, "common");
  const int64_t precision = params.integer(0, 0);
  if (method != "common" && method != "ceil" && method != "floor")
    fail("method must be common, ceil or floor");
  if (value.is_undefined()) fail(value.undefined_message());
  if (!value.is_number()) fail(format("type {} doesn't define __round__ method", type_name(value)));
  if (method == "common") {
    if (value.is_integral()) return round_integer(value.as_integer(), precision);
    return Value::number(round_common(value.as_double(), precision));
  }
  const Value scale = in.binary('p', Value::integer(10), Value::integer(precision));
  const double scaled = in.binary('*', value, scale).as_double();
  return Value::number((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale.as_double());
}

Value length_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("length", args, {});
  if (value.is_undefined()) return Value::integer(0);
  if (value.is_string()) {
    if (value.text().ascii) return Value::integer(static_cast<int64_t>(value.bytes().size()));
    in.budget().bytes(value.weight());
    return Value::integer(count_code_points(value.bytes()));
  }
  if (value.is_dict()) return Value::integer(static_cast<int64_t>(value.dict_of().size()));
  if (value.is_sequence() && !value.is_generator())
    return Value::integer(static_cast<int64_t>(value.items_of().items.size()));
  fail(format("object of type '{}' has no len()", type_name(value)));
}

constexpr Named<NativeFunction> kFilters[] = {
    {"int", int_filter},
    {"float", float_filter},
    {"abs", abs_filter},
    {"round", round_filter},
    {"length", length_filter},
    {"count", length_filter},
};

}  // namespace

FilterTable number_filters() { return {std::begin(kFilters), std::end(kFilters)}; }

}  // namespace cheetah::jinja
