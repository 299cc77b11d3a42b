// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "cluster/queue/event_bus.h"

namespace cheetah::cluster {
namespace {

constexpr size_t kMostSubjectBytes = 256;

bool is_word(std::string_view word) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; };
  return !word.empty() && std::ranges::all_of(word, fits);
}

}  // namespace

bool matches(std::string_view pattern, std::string_view subject) {
  const auto wanted = split(pattern, '.'), words = split(subject, '.');
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (i >= words.size()) return false;
    if (wanted[i] == ">" && i + 1 == wanted.size()) return true;
    if (wanted[i] != "*" && wanted[i] != words[i]) return false;
  }
  return wanted.size() == words.size();
}

void check_subject(std::string_view subject) {
  if (subject.size() > kMostSubjectBytes || !std::ranges::all_of(split(subject, '.'), is_word))
    throw Error(
        format("event bus: subject \"{}\": expected words of letters, digits, '-' and '_' with dots "
               "between, as in kv.w1",
            printable(subject)));
}

void check_pattern(std::string_view pattern) {
  const auto words = split(pattern, '.');
  for (size_t i = 0; i < words.size(); ++i) {
    const bool wild = words[i] == "*" || (words[i] == ">" && i + 1 == words.size());
    if (pattern.size() > kMostSubjectBytes || (!wild && !is_word(words[i])))
      throw Error(
          format("event bus: pattern \"{}\": expected words, '*' for one of them or a last '>', as in "
                 "kv.*",
              printable(pattern)));
  }
}

}  // namespace cheetah::cluster
