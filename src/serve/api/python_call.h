// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <string_view>

namespace cheetah {

// Follows the text of one call, name(key=value, …), byte by byte. One thread.
class PythonCall {
 public:
  enum class Status {
    kMore,
    kName,      // name() is complete
    kArgument,  // key() and value() are; with done(), it was the last
    kDone,
    kBroken,
  };
  Status feed(char c);

  const std::string& name() const { return name_; }
  const std::string& key() const { return key_; }
  const std::string& value() const { return value_; }  // as it was written
  bool done() const { return done_; }

 private:
  enum class State { kName, kKey, kValue };
  Status feed_key(char c);
  Status feed_value(char c);
  bool in_string(char c);

  State state_ = State::kName;
  std::string name_, key_, value_;
  bool key_ended_ = false;      // white space follows it
  bool took_argument_ = false;  // the caller has read key() and value()
  bool done_ = false;
  int nest_ = 0;    // brackets open within the value
  char quote_ = 0;  // of the string that is open
  bool triple_ = false;
  bool escaped_ = false;
  int quotes_ = 0;  // in a row, at the beginning or the end of a string
  bool opening_ = false;
};

// The JSON of a Python literal: numbers, strings, True, False, None, lists, tuples and dicts. Anything else
// becomes a string of its own text.
std::string json_of_python(std::string_view text);

}  // namespace cheetah
