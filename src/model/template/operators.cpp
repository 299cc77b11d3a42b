// SPDX-License-Identifier: MIT
// Arithmetic, comparison and membership with Python's rules and our limits.
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "model/template/runtime.h"
#include "model/template/text.h"

namespace cheetah::jinja {
namespace {

const char* symbol_of(char op) {
  switch (op) {
    case '+':
      return "+";
    case '-':
      return "-";
    case '*':
      return "*";
    case '/':
      return "/";
    case 'f':
      return "//";
    case '%':
      return "%";
    default:
      return "** or pow()";
  }
}

[[noreturn]] void unsupported(char op, const Value& a, const Value& b) {
  fail(
      format("unsupported operand type(s) for {}: '{}' and '{}'", symbol_of(op), type_name(a), type_name(b)));
}

int64_t floor_div(int64_t a, int64_t b) {
  if (b == -1) {
    int64_t result = 0;
    if (__builtin_sub_overflow(int64_t{0}, a, &result)) fail("integer overflow");
    return result;
  }
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

double float_mod(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  return rest == 0 ? std::copysign(0.0, b) : rest;
}

Value power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) fail("0.0 cannot be raised to a negative power");
    return Value::number(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) fail("integer overflow");
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) fail("integer overflow");
  }
  return Value::integer(result);
}

Value integer_arithmetic(char op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case '+':
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case '-':
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case '*':
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case 'p':
      return power(a, b);
    default:
      if (b == 0) fail(op == '/' ? "division by zero" : "integer division or modulo by zero");
      if (op == '/') return Value::number(static_cast<double>(a) / static_cast<double>(b));
      if (op == 'f') return Value::integer(floor_div(a, b));
      return Value::integer(b == -1 ? 0 : a - floor_div(a, b) * b);
  }
  if (overflow) fail("integer overflow: the result does not fit in 64 bits");
  return Value::integer(result);
}

Value float_arithmetic(char op, double a, double b) {
  if (b == 0 && (op == '/' || op == 'f' || op == '%'))
    fail(op == '/' ? "float division by zero" : op == 'f' ? "float floor division by zero" : "float modulo");
  switch (op) {
    case '+':
      return Value::number(a + b);
    case '-':
      return Value::number(a - b);
    case '*':
      return Value::number(a * b);
    case '/':
      return Value::number(a / b);
    case 'f': {
      const double rest = float_mod(a, b);
      return Value::number(std::round((a - rest) / b));
    }
    case '%':
      return Value::number(float_mod(a, b));
    default:
      break;
  }
  const double result = std::pow(a, b);
  if (a == 0 && b < 0) fail("0.0 cannot be raised to a negative power");
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) fail("Numerical result out of range");
  if (std::isnan(result) && !std::isnan(a) && !std::isnan(b)) fail("complex numbers are not supported");
  return Value::number(result);
}

}  // namespace

Value Runtime::binary(char op, const Value& a, const Value& b) {
  if (a.is_undefined() && !(a.is_string() && op == '%')) fail(a.undefined_message());
  if (op == '%' && a.is_string())
    return string(percent_format(*this, a.bytes(), b, a.text().safe), a.text().safe);
  if (b.is_undefined()) fail(b.undefined_message());
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return integer_arithmetic(op, a.as_integer(), b.as_integer());
    return float_arithmetic(op, a.as_double(), b.as_double());
  }
  if (op == '+') return add(a, b);
  if (op == '*') return multiply(a, b);
  unsupported(op, a, b);
}

Value Runtime::add(const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) {
    const bool safe = a.text().safe || b.text().safe;
    const auto part = [&](const Value& value) {
      return safe && !value.text().safe ? escape_html(value.bytes()) : value.bytes();
    };
    budget_.bytes(static_cast<int64_t>(a.bytes().size() + b.bytes().size()));
    return safe ? string(part(a) + part(b), true) : string(a.bytes() + b.bytes());
  }
  if (a.is_string()) fail(format("can only concatenate str (not \"{}\") to str", type_name(b)));
  if ((a.is_list() && b.is_list()) || (a.is_tuple() && b.is_tuple())) {
    const auto& tail = b.items_of().items;
    budget_.items(static_cast<int64_t>(a.items_of().items.size() + tail.size()));
    std::vector<Value> items = a.items_of().items;
    items.insert(items.end(), tail.begin(), tail.end());
    return a.is_list() ? Value::list(std::move(items)) : Value::tuple(std::move(items));
  }
  if (a.is_list() || a.is_tuple()) {
    const std::string kind = type_name(a);
    fail(format("can only concatenate {} (not \"{}\") to {}", kind, type_name(b), kind));
  }
  unsupported('+', a, b);
}

Value Runtime::multiply(const Value& a, const Value& b) {
  const auto repeats = [](const Value& value) {
    return value.is_string() || value.is_list() || value.is_tuple();
  };
  if (repeats(a) && b.is_integral()) return repeat(a, b.as_integer());
  if (repeats(b) && a.is_integral()) return repeat(b, a.as_integer());
  if (repeats(a) || repeats(b))
    fail(format("can't multiply sequence by non-int of type '{}'", type_name(repeats(a) ? b : a)));
  unsupported('*', a, b);
}

Value Runtime::repeat(const Value& sequence, int64_t count) {
  count = std::max<int64_t>(count, 0);
  const auto size =
      static_cast<int64_t>(sequence.is_string() ? sequence.bytes().size() : sequence.items_of().items.size());
  if (size == 0) count = 0;
  if (count > 0 && size > max_text_bytes() / count)
    fail(format("memory limit exceeded: repeating {} items {} times", size, count));
  if (sequence.is_string()) {
    budget_.bytes(size * count);
    std::string text;
    text.reserve(static_cast<size_t>(size * count));
    for (int64_t i = 0; i < count; ++i) text += sequence.bytes();
    return string(std::move(text), sequence.text().safe);
  }
  budget_.items(size * count);
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(size * count));
  for (int64_t i = 0; i < count; ++i)
    items.insert(items.end(), sequence.items_of().items.begin(), sequence.items_of().items.end());
  return sequence.is_list() ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

bool Runtime::equals(const Value& a, const Value& b) {
  budget_.bytes(std::min(a.weight(), b.weight()));
  return equal(a, b);
}

bool Runtime::is_less(const Value& a, const Value& b, const char* op) {
  budget_.bytes(std::min(a.weight(), b.weight()) + 64);
  return less(a, b, op);
}

bool Runtime::contains(const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string())
      fail(format("'in <string>' requires string as left operand, not {}", type_name(item)));
    budget_.bytes(static_cast<int64_t>(container.bytes().size()));
    return container.bytes().find(item.bytes()) != std::string::npos;
  }
  if (container.is_dict()) {
    budget_.bytes(item.weight());
    return container.dict_of().find(item) != nullptr;
  }
  if (container.is_undefined()) return false;
  if (!container.is_sequence()) fail(format("argument of type '{}' is not iterable", type_name(container)));
  if (container.is_generator()) {
    for (const Value& candidate : iterate(container))
      if (equals(candidate, item)) return true;
    return false;
  }
  for (const Value& candidate : container.items_of().items)
    if (equals(candidate, item)) return true;
  return false;
}

bool Runtime::compare(const std::string& op, const Value& a, const Value& b) {
  if (op == "==") return equals(a, b);
  if (op == "!=") return !equals(a, b);
  if (op == "in") return contains(b, a);
  if (op == "not in") return !contains(b, a);
  if (op == "<") return is_less(a, b, "<");
  if (op == ">") {
    // Only the message tells the operator; the order of the operands is what the person wrote.
    if (a.is_number() && b.is_number()) return is_less(b, a);
    return !is_less(a, b, ">") && !equals(a, b);
  }
  const bool nan =
      (a.is_float() && a.as_double() != a.as_double()) || (b.is_float() && b.as_double() != b.as_double());
  if (nan) return false;
  if (op == "<=") return is_less(a, b, "<=") || equals(a, b);
  return !is_less(a, b, ">=");
}

Value Runtime::sign(bool negative, const Value& value) {
  if (value.is_undefined()) fail(value.undefined_message());
  if (!value.is_number())
    fail(format("bad operand type for unary {}: '{}'", negative ? '-' : '+', type_name(value)));
  if (value.is_float()) return negative ? Value::number(-value.as_double()) : value;
  int64_t result = value.as_integer();
  if (negative && __builtin_sub_overflow(int64_t{0}, result, &result)) fail("integer overflow");
  return Value::integer(result);
}

}  // namespace cheetah::jinja
