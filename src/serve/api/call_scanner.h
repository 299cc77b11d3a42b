// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <string_view>
#include <utility>

namespace cheetah {

// Follows the text of one call object, {"name": …, "arguments": {…}}, byte by byte. One thread.
class CallScanner {
 public:
  enum class Status { kMore, kDone, kBroken };
  Status feed(char c);

  bool has_name() const { return has_name_; }
  const std::string& name() const { return name_; }
  // Raw text of the arguments since the last call.
  std::string take_arguments() { return std::exchange(arguments_, {}); }

 private:
  enum class State { kOpen, kKey, kInKey, kColon, kValue, kString, kNested, kScalar };
  enum class Role { kName, kArguments, kOther };
  bool begin_value(char c);
  void take(char c);
  bool end_value();
  Status feed_key(char c);
  Status feed_value(char c);

  State state_ = State::kOpen;
  Role role_ = Role::kOther;
  int level_ = 0;  // objects open whose keys we read: the call's, and that of its "function"
  int nest_ = 0;   // brackets open within a value
  bool in_string_ = false, escaped_ = false;
  std::string key_, value_, name_, arguments_;
  bool has_name_ = false;
};

// Follows one JSON value that begins with a bracket, to its end. One thread.
class ValueScanner {
 public:
  // True with the byte that closes it.
  bool feed(char c);

 private:
  int nest_ = 0;
  bool in_string_ = false, escaped_ = false;
};

}  // namespace cheetah
