// SPDX-License-Identifier: MIT
// Numbers between two bounds, digit by digit.
#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "engine/grammar/json_text.h"

namespace cheetah {
namespace {

constexpr size_t kMaxDigits = 40;
constexpr int64_t kMaxFractionDigits = 16;
constexpr size_t kOpenEndedDigits = 18;  // how long a number without an upper bound may get

std::string without_leading_zeros(std::string digits) {
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  return digits.empty() ? "0" : digits;
}

int compare_whole(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  return a.compare(b);
}

std::string plus_one(std::string digits) {
  for (size_t i = digits.size(); i-- > 0;) {
    if (digits[i] != '9') {
      ++digits[i];
      return digits;
    }
    digits[i] = '0';
  }
  digits.insert(digits.begin(), '1');
  return digits;
}

std::string minus_one(std::string digits) {  // of a positive number
  for (size_t i = digits.size(); i-- > 0;) {
    if (digits[i] != '0') {
      --digits[i];
      break;
    }
    digits[i] = '9';
  }
  return without_leading_zeros(digits);
}

// Magnitudes as digit strings; a bound of a magnitude is a whole part and a fraction.
class RangeBuilder {
 public:
  RangeBuilder(GrammarTree& tree, JsonText& json) : tree_(tree), json_(json) {}

  // Whole numbers low to high, without leading zeros.
  ExprId whole(const std::string& low, const std::string& high) {
    std::vector<ExprId> ways;
    if (compare_whole(low, high) > 0) return tree_.never();
    for (size_t length = low.size(); length <= high.size(); ++length) {
      std::string first = low;
      if (length > low.size()) first.assign(length, '0')[0] = '1';
      const std::string last = length == high.size() ? high : std::string(length, '9');
      ways.push_back(same_length(first, last));
    }
    return tree_.choice(std::move(ways));
  }

  struct Bound {
    std::string whole, fraction;
    bool exclusive;
  };

  // Any decimal from low to high.
  ExprId decimal(const Bound& low, const Bound& high) {
    const int order = compare_whole(low.whole, high.whole);
    if (order > 0) return tree_.never();
    if (order == 0)
      return tree_.sequence({tree_.literal(low.whole),
          fraction(between(low.fraction, high.fraction, low.exclusive, high.exclusive))});
    const ExprId any_fraction = fraction({true, json_.digits(1, kMaxFractionDigits)});
    return tree_.choice(
        {tree_.sequence({tree_.literal(low.whole), fraction(at_least(low.fraction, low.exclusive))}),
            tree_.sequence({whole(plus_one(low.whole), minus_one(high.whole)), any_fraction}),
            tree_.sequence({tree_.literal(high.whole), fraction(at_most(high.fraction, high.exclusive))})});
  }

 private:
  // What may follow in a fraction: nothing at all, or at least one of these digits.
  struct Rest {
    bool may_end;
    ExprId digits;
  };

  ExprId digit(char low, char high) {
    return tree_.characters(CodepointSet({{static_cast<uint32_t>(low), static_cast<uint32_t>(high)}}));
  }
  ExprId join(ExprId first, const Rest& rest) {
    return tree_.sequence({first, rest.may_end ? tree_.optional(rest.digits) : rest.digits});
  }
  ExprId fraction(const Rest& rest) {
    const ExprId written = tree_.sequence({tree_.literal("."), rest.digits});
    return rest.may_end ? tree_.optional(written) : written;
  }
  Rest anything() { return {true, json_.digits(1, kMaxFractionDigits)}; }
  Rest zeros(bool exclusive) {
    if (exclusive) return {false, tree_.never()};
    return {true, tree_.repeat(digit('0', '0'), 1, kMaxFractionDigits)};
  }

  ExprId same_length(const std::string& low, const std::string& high) {
    if (low.empty()) return tree_.empty();
    const std::string low_rest = low.substr(1), high_rest = high.substr(1);
    if (low[0] == high[0]) return tree_.sequence({digit(low[0], low[0]), same_length(low_rest, high_rest)});
    const auto rest = static_cast<int64_t>(low_rest.size());
    const std::string nines(low_rest.size(), '9'), naughts(low_rest.size(), '0');
    std::vector<ExprId> ways;
    char first = low[0], last = high[0];
    if (low_rest != naughts) {
      ways.push_back(tree_.sequence({digit(first, first), same_length(low_rest, nines)}));
      ++first;
    }
    if (high_rest != nines) {
      ways.push_back(tree_.sequence({digit(last, last), same_length(naughts, high_rest)}));
      --last;
    }
    if (first <= last) ways.push_back(tree_.sequence({digit(first, last), json_.digits(rest, rest)}));
    return tree_.choice(std::move(ways));
  }

  Rest at_least(const std::string& low, bool exclusive) {
    if (low.empty()) {
      if (!exclusive) return anything();
      // Some digit is not 0.
      const ExprId leading = tree_.repeat(digit('0', '0'), 0, kMaxFractionDigits - 1);
      return {false, tree_.sequence({leading, join(digit('1', '9'), anything())})};
    }
    std::vector<ExprId> ways = {join(digit(low[0], low[0]), at_least(low.substr(1), exclusive))};
    if (low[0] < '9') ways.push_back(join(digit(static_cast<char>(low[0] + 1), '9'), anything()));
    return {false, tree_.choice(std::move(ways))};
  }

  Rest at_most(const std::string& high, bool exclusive) {
    if (high.empty()) return zeros(exclusive);
    std::vector<ExprId> ways = {join(digit(high[0], high[0]), at_most(high.substr(1), exclusive))};
    if (high[0] > '0') ways.push_back(join(digit('0', static_cast<char>(high[0] - 1)), anything()));
    return {true, tree_.choice(std::move(ways))};  // high does not end in 0: what stops early is below it
  }

  Rest between(const std::string& low, const std::string& high, bool low_exclusive, bool high_exclusive) {
    if (low.empty() && high.empty()) return zeros(low_exclusive || high_exclusive);
    const char first = low.empty() ? '0' : low[0], last = high.empty() ? '0' : high[0];
    const std::string low_rest = low.empty() ? "" : low.substr(1),
                      high_rest = high.empty() ? "" : high.substr(1);
    const bool may_end = low.empty() && !low_exclusive;
    if (first > last) return {false, tree_.never()};
    if (first == last)
      return {
          may_end, join(digit(first, first), between(low_rest, high_rest, low_exclusive, high_exclusive))};
    std::vector<ExprId> ways = {join(digit(first, first), at_least(low_rest, low_exclusive)),
        join(digit(last, last), at_most(high_rest, high_exclusive))};
    if (last - first > 1)
      ways.push_back(join(digit(static_cast<char>(first + 1), static_cast<char>(last - 1)), anything()));
    return {may_end, tree_.choice(std::move(ways))};
  }

  GrammarTree& tree_;
  JsonText& json_;
};

RangeBuilder::Bound magnitude(const std::optional<NumberBound>& bound, bool open_is_zero) {
  if (bound) return {bound->value.whole, bound->value.fraction, bound->exclusive};
  if (open_is_zero) return {"0", "", false};
  return {std::string(kOpenEndedDigits, '9'), std::string(kMaxFractionDigits, '9'), false};
}

// The part of a range on one side of zero, as magnitudes: nullopt bounds are open.
struct Side {
  bool empty = false;
  std::optional<NumberBound> near, far;
};

Side side_of(const NumberRange& range, bool negative) {
  const std::optional<NumberBound>& toward = negative ? range.high : range.low;
  const std::optional<NumberBound>& away = negative ? range.low : range.high;
  Side side;
  if (away && away->value.negative != negative && !away->value.is_zero()) side.empty = true;
  if (toward && (toward->value.negative == negative || toward->value.is_zero())) side.near = toward;
  side.far = away;
  return side;
}

// The smallest and largest whole magnitudes inside.
std::string whole_from(const std::optional<NumberBound>& near, bool negative) {
  if (!near) return negative ? "1" : "0";
  const bool step = near->exclusive || !near->value.is_whole();
  const std::string low = step ? plus_one(near->value.whole) : near->value.whole;
  return negative && low == "0" ? "1" : low;
}

}  // namespace

std::optional<Decimal> parse_decimal(std::string_view text) {
  Decimal result;
  size_t at = 0;
  if (at < text.size() && text[at] == '-') result.negative = ++at > 0;
  std::string digits;
  int64_t point = -1, exponent = 0;
  for (; at < text.size() && text[at] != 'e' && text[at] != 'E'; ++at) {
    if (text[at] == '.')
      point = static_cast<int64_t>(digits.size());
    else
      digits.push_back(text[at]);
  }
  if (at < text.size()) exponent = std::strtoll(std::string(text.substr(at + 1)).c_str(), nullptr, 10);
  if (point < 0) point = static_cast<int64_t>(digits.size());
  if (std::abs(exponent) > 400) return std::nullopt;
  point += exponent;
  if (point < 0) digits.insert(0, static_cast<size_t>(-point), '0');
  if (point < 0) point = 0;
  if (point > static_cast<int64_t>(digits.size()))
    digits.append(static_cast<size_t>(point) - digits.size(), '0');
  result.whole = without_leading_zeros(digits.substr(0, static_cast<size_t>(point)));
  result.fraction = digits.substr(static_cast<size_t>(point));
  result.fraction.erase(result.fraction.find_last_not_of('0') + 1);
  if (result.whole.size() > kMaxDigits || result.fraction.size() > kMaxDigits) return std::nullopt;
  if (result.is_zero()) result.negative = false;
  return result;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  int order = compare_whole(a.whole, b.whole);
  if (order == 0) order = a.fraction.compare(b.fraction);  // no trailing zeros: a prefix is smaller
  return a.negative ? -order : order;
}

ExprId JsonText::integer_in(const NumberRange& range) {
  RangeBuilder build(tree_, *this);
  std::vector<ExprId> ways;
  for (const bool negative : {false, true}) {
    const Side side = side_of(range, negative);
    if (side.empty) continue;
    const std::string low = whole_from(side.near, negative);
    std::string high = std::string(std::max(kOpenEndedDigits, low.size()), '9');
    if (side.far) {
      const bool on_bound = side.far->value.is_whole() && side.far->exclusive;
      if (on_bound && side.far->value.whole == "0") continue;
      high = on_bound ? minus_one(side.far->value.whole) : side.far->value.whole;
    }
    const ExprId digits_in = build.whole(low, high);
    ways.push_back(negative ? tree_.sequence({tree_.literal("-"), digits_in}) : digits_in);
  }
  return tree_.choice(std::move(ways));
}

ExprId JsonText::number_in(const NumberRange& range) {
  RangeBuilder build(tree_, *this);
  std::vector<ExprId> ways;
  for (const bool negative : {false, true}) {
    const Side side = side_of(range, negative);
    if (side.empty) continue;
    RangeBuilder::Bound low = magnitude(side.near, true), high = magnitude(side.far, false);
    if (!side.far) high.whole = std::string(std::max(kOpenEndedDigits, low.whole.size()), '9');
    const ExprId digits_in = build.decimal(low, high);
    ways.push_back(negative ? tree_.sequence({tree_.literal("-"), digits_in}) : digits_in);
  }
  return tree_.choice(std::move(ways));
}

}  // namespace cheetah
