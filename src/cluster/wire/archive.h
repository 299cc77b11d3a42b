// SPDX-License-Identifier: MIT
#pragma once
// The two ends of the wire. message_fields.h names the fields of each struct once; a Writer appends them and a Reader
// takes them off again.
#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"

namespace cheetah::cluster {

inline constexpr size_t kMaxStringBytes = size_t{8} << 20;
inline constexpr size_t kMaxListItems = size_t{4} << 20;
// No wait in a cluster is longer, and a clock plus this does not overflow.
inline constexpr std::chrono::microseconds kMaxSpan = std::chrono::hours(24 * 365);

template <class M, class T>
concept MaybeConst = std::same_as<std::remove_cvref_t<M>, T>;

class Writer {
 public:
  static constexpr bool kReads = false;
  explicit Writer(uint16_t version) : version_(version) {}
  uint16_t version() const { return version_; }

  template <class T>
  requires std::integral<T> || std::is_enum_v<T>
  void number(const T& value) {
    using U = std::make_unsigned_t<decltype(underlying(value))>;
    auto bits = static_cast<U>(underlying(value));
    std::array<char, sizeof(U)> bytes;
    for (char& byte : bytes) {
      byte = static_cast<char>(bits & 0xff);
      if constexpr (sizeof(U) > 1) bits >>= 8;
    }
    out_.append(bytes.data(), bytes.size());
  }
  void number(const bool& value) { out_.push_back(value ? 1 : 0); }
  void number(const float& value) { number(std::bit_cast<uint32_t>(value)); }
  void number(const double& value) { number(std::bit_cast<uint64_t>(value)); }
  void finite(const float& value) { number(value); }
  void finite(const double& value) { number(value); }
  void text(const std::string& value) {
    count(value.size());
    out_.append(value);
  }
  void span(const std::chrono::microseconds& value) { number(static_cast<int64_t>(value.count())); }
  template <class T>
  void choice(const T& value, T last) {
    CHEETAH_ASSERT(value <= last, "an enum outside its range");
    number(value);
  }
  template <class T>
  void between(const T& value, T, T) {
    number(value);
  }
  // Lists: `item` writes one.
  template <class T, class Item>
  void list(const std::vector<T>& values, size_t, size_t, Item&& item) {
    count(values.size());
    for (const T& value : values) item(value);
  }
  void expect(bool, const char*) {}

  std::string take() { return std::move(out_); }

 private:
  template <class T>
  static auto underlying(T value) {
    if constexpr (std::is_enum_v<T>)
      return static_cast<std::underlying_type_t<T>>(value);
    else
      return value;
  }
  void count(size_t value) { number(static_cast<uint32_t>(value)); }
  uint16_t version_;
  std::string out_;
};

class Reader {
 public:
  static constexpr bool kReads = true;
  explicit Reader(std::string_view bytes) : left_(bytes) {}
  uint16_t version() const { return version_; }  // of what is read
  void set_version(uint16_t version) { version_ = version; }

  template <class T>
  requires std::integral<T> || std::is_enum_v<T>
  void number(T& value) {
    const std::string_view bytes = take(sizeof(T));
    uint64_t bits = 0;
    for (size_t i = bytes.size(); i-- > 0;) bits = (bits << 8) | static_cast<unsigned char>(bytes[i]);
    value = static_cast<T>(bits);
  }
  void number(bool& value) {
    const char byte = take(1)[0];
    expect(byte == 0 || byte == 1, "a flag is 0 or 1");
    value = byte == 1;
  }
  void number(float& value) {
    uint32_t bits = 0;
    number(bits);
    value = std::bit_cast<float>(bits);
  }
  void number(double& value) {
    uint64_t bits = 0;
    number(bits);
    value = std::bit_cast<double>(bits);
  }
  template <std::floating_point T>
  void finite(T& value) {
    number(value);
    expect(std::isfinite(value), "a number is finite");
  }
  void text(std::string& value) {
    const size_t size = count(kMaxStringBytes, 1);
    value.assign(take(size));
  }
  void span(std::chrono::microseconds& value) {
    int64_t microseconds = 0;
    number(microseconds);
    expect(microseconds >= 0 && microseconds <= kMaxSpan.count(), "a time is between 0 and a year");
    value = std::chrono::microseconds(microseconds);
  }
  template <class T>
  void choice(T& value, T last) {
    number(value);
    expect(value >= T{} && value <= last, "an enum has one of its values");
  }
  template <class T>
  void between(T& value, T least, T most) {
    number(value);
    expect(value >= least && value <= most, "a number is within its limits");
  }
  // At most `most` items of at least `item_bytes` each: both are checked before anything is allocated.
  template <class T, class Item>
  void list(std::vector<T>& values, size_t most, size_t item_bytes, Item&& item) {
    values.resize(count(most, item_bytes));
    for (T& value : values) item(value);
  }
  void expect(bool holds, const char* what) const {
    if (!holds) throw Error(format("message: a field is out of range: expected that {}", what));
  }
  void finish() const {
    if (!left_.empty()) throw Error(format("message: {} bytes after its end", left_.size()));
  }

 private:
  size_t count(size_t most, size_t item_bytes) {
    uint32_t value = 0;
    number(value);
    if (value > most) throw Error(format("message: a list of {} items: at most {} are allowed", value, most));
    if (value > left_.size() / item_bytes)
      throw Error(format("message: cut short: {} items declared, {} bytes left", value, left_.size()));
    return value;
  }
  std::string_view take(size_t size) {
    if (size > left_.size())
      throw Error(format("message: cut short: {} bytes wanted, {} left", size, left_.size()));
    const std::string_view bytes = left_.substr(0, size);
    left_.remove_prefix(size);
    return bytes;
  }
  std::string_view left_;
  uint16_t version_ = 0;
};

// Something that may be absent: a flag, then the value.
template <class Archive, class Value, class Fields>
void maybe(Archive& archive, Value& value, Fields&& fields) {
  bool present = static_cast<bool>(value);
  archive.number(present);
  if (!present) return;
  if constexpr (Archive::kReads) value.emplace();
  fields(*value);
}

}  // namespace cheetah::cluster
