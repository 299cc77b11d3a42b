// SPDX-License-Identifier: MIT
#pragma once
// Where in a stream its client is, as each of its events says in its SSE id. With the last id that it got and the same
// request a client gets the rest of the stream, byte for byte, from any server that answers it as the first did.
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cheetah {

// What an answer is beside its request. The server that goes on with it takes these over.
struct AnswerFacts {
  std::string id;         // of the request
  int64_t unix_time = 0;  // "created"
  uint64_t seed = 0;      // of a request that names none
  std::string model;      // that answers, where it is not the one that was asked; else ""

  bool operator==(const AnswerFacts&) const = default;
};

// Of one choice: events are counted from the token on that the last of them came with or after.
struct ChoicePlace {
  int64_t tokens = 0, events = 0;

  auto operator<=>(const ChoicePlace&) const = default;
};

struct StreamPlace {
  AnswerFacts facts;
  std::vector<ChoicePlace> choices;  // of one request of the call after the other
  int64_t closing = 0;               // events after the last of all choices: usage, [DONE] and the like

  std::string text() const;  // printable ASCII without blanks
  static std::optional<StreamPlace> parse(std::string_view text);
  bool operator==(const StreamPlace&) const = default;
};

// Gives each event of a stream its id and leaves out those that the client has. One thread.
class StreamNumbers {
 public:
  // `from`: where the client is; with as many choices.
  StreamNumbers(AnswerFacts facts, size_t num_choices, const std::optional<StreamPlace>& from);

  // Whole SSE events that a choice's next `num_tokens` tokens, or its end, have brought.
  std::string number(size_t choice, int64_t num_tokens, std::string_view events);
  std::string number_closing(std::string_view events);

 private:
  std::string with_id(std::string_view event) const;

  std::string head_;
  StreamPlace now_, from_;
  std::vector<int64_t> taken_;  // tokens of each choice, those of its last event included
};

}  // namespace cheetah
