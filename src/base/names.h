// SPDX-License-Identifier: MIT
#pragma once
// Names of enumerators and types, checked by the compiler: an enumerator without a name does not build.
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace cheetah {
namespace names_detail {

// T or kValue as the compiler spells it in this function's name.
template <class T>
constexpr std::string_view written_type() {
  return __PRETTY_FUNCTION__;
}
template <class E, E kValue>
constexpr std::string_view written_value() {
  return __PRETTY_FUNCTION__;
}

// The text between the mark and the next ';' or ']'.
constexpr std::string_view after(std::string_view text, std::string_view mark) {
  text.remove_prefix(text.rfind(mark) + mark.size());
  return text.substr(0, text.find_first_of(";]"));
}

// Compilers spell a value without an enumerator as a cast: "(Color)7".
template <class E, size_t kIndex>
constexpr bool is_enumerator() {
  return after(written_value<E, static_cast<E>(kIndex)>(), "kValue = ").front() != '(';
}

}  // namespace names_detail

// The name of a class without its namespace. Not for templates.
template <class T>
constexpr std::string_view type_name() {
  const std::string_view full = names_detail::after(names_detail::written_type<T>(), "T = ");
  const size_t colon = full.rfind(':');
  return colon == std::string_view::npos ? full : full.substr(colon + 1);
}

// The class names of a variant's alternatives, in order.
template <class Variant>
inline constexpr auto kAlternativeNames = []<size_t... kIndex>(std::index_sequence<kIndex...>) {
  return std::array<std::string_view, sizeof...(kIndex)>{
      type_name<std::variant_alternative_t<kIndex, Variant>>()...};
}
(std::make_index_sequence<std::variant_size_v<Variant>>());

template <class Variant>
std::string_view alternative_name(const Variant& value) {
  return kAlternativeNames<Variant>[value.index()];
}

// The names of an enum whose enumerators count up from 0. A missing, surplus or misplaced name does not compile:
//   constexpr auto kColors = enum_names<Color>({{Color::kRed, "red"}, {Color::kBlue, "blue"}});
template <class E, size_t kCount>
class EnumNames {
 public:
  using Entry = std::pair<E, std::string_view>;

  consteval EnumNames(const Entry (&entries)[kCount]) {
    static_assert(names_detail::is_enumerator<E, kCount - 1>(), "more names than enumerators");
    static_assert(!names_detail::is_enumerator<E, kCount>(), "an enumerator has no name");
    for (size_t i = 0; i < kCount; ++i) {
      if (static_cast<size_t>(entries[i].first) != i)
        throw "the names are not in the order of the enumerators";
      names_[i] = entries[i].second;
    }
  }

  static constexpr size_t size() { return kCount; }
  constexpr const std::array<std::string_view, kCount>& all() const { return names_; }
  // "?" for a number that is not an enumerator.
  constexpr std::string_view operator[](E value) const {
    const auto index = static_cast<size_t>(value);
    return index < kCount ? names_[index] : "?";
  }
  constexpr std::optional<E> find(std::string_view name) const {
    for (size_t i = 0; i < kCount; ++i)
      if (names_[i] == name) return static_cast<E>(i);
    return std::nullopt;
  }

 private:
  std::array<std::string_view, kCount> names_{};
};

template <class E, size_t kCount>
consteval EnumNames<E, kCount> enum_names(const std::pair<E, std::string_view> (&entries)[kCount]) {
  return EnumNames<E, kCount>(entries);
}

}  // namespace cheetah
