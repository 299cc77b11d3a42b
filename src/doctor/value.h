// SPDX-License-Identifier: MIT
#pragma once
// One fact: a value with the path it was read from, or the reason why there is none.
#include <optional>
#include <string>
#include <utility>

#include "doctor/source.h"

namespace cheetah::doctor {

template <class T>
class Value {
 public:
  Value() = default;
  Value(T value, std::string source) : value_(std::move(value)), source_(std::move(source)) {}

  static Value absent(std::string source, std::string reason, Absence absence = Absence::kMissing) {
    Value value;
    value.source_ = std::move(source);
    value.reason_ = std::move(reason);
    value.absence_ = absence;
    return value;
  }
  static Value absent(const Text& text) { return absent(text.path, text.reason, text.absence); }
  static Value unreadable(std::string source, std::string reason) {
    return absent(std::move(source), std::move(reason), Absence::kUnreadable);
  }

  bool known() const { return value_.has_value(); }
  explicit operator bool() const { return known(); }
  const T& operator*() const { return *value_; }
  const T* operator->() const { return &*value_; }
  T value_or(T fallback) const { return value_.value_or(std::move(fallback)); }
  bool is(const T& other) const { return value_ == other; }

  const std::string& source() const { return source_; }
  const std::string& reason() const { return reason_; }
  // There, but not to be read or understood: a check on it says "unknown", never "not applicable".
  bool is_unreadable() const { return !known() && absence_ == Absence::kUnreadable; }

 private:
  std::optional<T> value_;
  std::string source_;
  std::string reason_ = "not collected";
  Absence absence_ = Absence::kMissing;
};

}  // namespace cheetah::doctor
