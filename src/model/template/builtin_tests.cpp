// SPDX-License-Identifier: MIT
// The tests: what may follow `is`.
#include <algorithm>

#include "base/format.h"
#include "model/template/builtins.h"
#include "model/template/runtime.h"
#include "model/template/text.h"

namespace cheetah::jinja {
namespace {

const Value& operand(const char* test, const Args& args) {
  const Params params(test, args, {"other"}, 1);
  return params[0];
}

Value modulo(Runtime& in, const Value& value, const Value& divisor) { return in.binary('%', value, divisor); }

bool is_odd(Runtime& in, const Value& value, Args&) {
  return equal(modulo(in, value, Value::integer(2)), Value::integer(1));
}
bool is_even(Runtime& in, const Value& value, Args&) {
  return equal(modulo(in, value, Value::integer(2)), Value::integer(0));
}
bool is_divisible(Runtime& in, const Value& value, Args& args) {
  return equal(modulo(in, value, operand("divisibleby", args)), Value::integer(0));
}
bool is_defined(Runtime&, const Value& value, Args&) { return !value.is_undefined(); }
bool is_undefined(Runtime&, const Value& value, Args&) { return value.is_undefined(); }
bool is_none(Runtime&, const Value& value, Args&) { return value.is_none(); }
bool is_boolean(Runtime&, const Value& value, Args&) { return value.is_boolean(); }
bool is_true(Runtime&, const Value& value, Args&) { return value.is_boolean() && truthy(value); }
bool is_false(Runtime&, const Value& value, Args&) { return value.is_boolean() && !truthy(value); }
bool is_integer(Runtime&, const Value& value, Args&) { return value.is_integer(); }
bool is_float(Runtime&, const Value& value, Args&) { return value.is_float(); }
bool is_number(Runtime&, const Value& value, Args&) { return value.is_number(); }
bool is_string(Runtime&, const Value& value, Args&) { return value.is_string(); }
bool is_mapping(Runtime&, const Value& value, Args&) { return value.is_dict(); }

// Has a length and elements: an undefined value has both.
bool is_sequence(Runtime&, const Value& value, Args&) {
  return value.is_string() || value.is_dict() || value.is_list() || value.is_tuple() ||
         value.is_flavor(Flavor::kRange) || value.is_undefined();
}
bool is_iterable(Runtime&, const Value& value, Args&) {
  return value.is_string() || value.is_dict() || value.is_sequence() || value.is_undefined();
}
bool is_callable(Runtime&, const Value& value, Args&) {
  return (value.is_object() && value.object_of().callable()) || value.is_undefined();
}
bool is_escaped(Runtime&, const Value& value, Args&) { return value.is_string() && value.text().safe; }

bool has_case(Runtime& in, const Value& value, bool upper_case) {
  Args none;
  const Value text = Value::string(in.str(value));
  return truthy(find_string_method(upper_case ? "isupper" : "islower")(in, text, none));
}
bool is_lower_text(Runtime& in, const Value& value, Args&) { return has_case(in, value, false); }
bool is_upper_text(Runtime& in, const Value& value, Args&) { return has_case(in, value, true); }

bool is_filter(Runtime&, const Value& value, Args&) {
  return value.is_string() && find_filter(value.bytes());
}
bool is_test(Runtime&, const Value& value, Args&) { return value.is_string() && find_test(value.bytes()); }
bool is_same(Runtime&, const Value& value, Args& args) { return value.same_as(operand("sameas", args)); }
bool is_in(Runtime& in, const Value& value, Args& args) { return in.contains(operand("in", args), value); }

bool is_equal(Runtime& in, const Value& value, Args& args) { return in.equals(value, operand("eq", args)); }
bool is_unequal(Runtime& in, const Value& value, Args& args) {
  return !in.equals(value, operand("ne", args));
}
bool is_below(Runtime& in, const Value& value, Args& args) {
  return in.is_less(value, operand("lt", args), "<");
}
bool is_above(Runtime& in, const Value& value, Args& args) {
  return in.is_less(operand("gt", args), value, ">");
}
bool is_at_least(Runtime& in, const Value& value, Args& args) {
  const Value& other = operand("ge", args);
  return in.is_less(other, value, ">=") || in.equals(value, other);
}
bool is_at_most(Runtime& in, const Value& value, Args& args) {
  const Value& other = operand("le", args);
  return in.is_less(value, other, "<=") || in.equals(value, other);
}

constexpr Named<TestFunction> kTests[] = {
    {"odd", is_odd},
    {"even", is_even},
    {"divisibleby", is_divisible},
    {"defined", is_defined},
    {"undefined", is_undefined},
    {"filter", is_filter},
    {"test", is_test},
    {"none", is_none},
    {"boolean", is_boolean},
    {"false", is_false},
    {"true", is_true},
    {"integer", is_integer},
    {"float", is_float},
    {"lower", is_lower_text},
    {"upper", is_upper_text},
    {"string", is_string},
    {"mapping", is_mapping},
    {"number", is_number},
    {"sequence", is_sequence},
    {"iterable", is_iterable},
    {"callable", is_callable},
    {"sameas", is_same},
    {"escaped", is_escaped},
    {"in", is_in},
    {"==", is_equal},
    {"eq", is_equal},
    {"equalto", is_equal},
    {"!=", is_unequal},
    {"ne", is_unequal},
    {">", is_above},
    {"gt", is_above},
    {"greaterthan", is_above},
    {"ge", is_at_least},
    {">=", is_at_least},
    {"<", is_below},
    {"lt", is_below},
    {"lessthan", is_below},
    {"<=", is_at_most},
    {"le", is_at_most},
};

}  // namespace

TestFunction find_test(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kTests), std::end(kTests), [&](auto& test) { return test.name == name; });
  return found == std::end(kTests) ? nullptr : found->function;
}

}  // namespace cheetah::jinja
