// SPDX-License-Identifier: MIT
#include "serve/stream_place.h"

#include <algorithm>
#include <charconv>

#include "base/base64.h"
#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

constexpr std::string_view kKind = "c1";
constexpr size_t kMaxText = 16384, kMaxChoices = 4096;

std::string head_of(const AnswerFacts& facts) {
  const std::string words = format("{}\n{}\n{}\n{}", facts.id, facts.unix_time, facts.seed, facts.model);
  return format("{}.{}.", kKind, base64_of(words));
}

void append(std::string& text, const ChoicePlace& choice, bool first) {
  text += format("{}{}-{}", first ? "" : "_", choice.tokens, choice.events);
}

std::string closing_of(int64_t closing) { return closing > 0 ? format("!{}", closing) : ""; }

// Up to the mark, which is taken off too; the rest where there is none.
std::string_view take_until(std::string_view& text, char mark) {
  const size_t end = std::min(text.find(mark), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

template <class Number>
bool read(std::string_view word, Number& value) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc() && end == word.data() + word.size() && !word.empty();
}

bool read_count(std::string_view word, int64_t& value) {
  return read(word, value) && value >= 0 && value <= int64_t{1} << 40;
}

std::optional<AnswerFacts> facts_in(std::string_view words) {
  AnswerFacts facts;
  facts.id = take_until(words, '\n');
  const bool good =
      read(take_until(words, '\n'), facts.unix_time) && read(take_until(words, '\n'), facts.seed);
  facts.model = words;
  if (!good || facts.id.empty()) return std::nullopt;
  return facts;
}

}  // namespace

std::string StreamPlace::text() const {
  std::string text = head_of(facts);
  for (const ChoicePlace& choice : choices) append(text, choice, &choice == choices.data());
  return text + closing_of(closing);
}

std::optional<StreamPlace> StreamPlace::parse(std::string_view text) {
  if (text.size() > kMaxText || take_until(text, '.') != kKind) return std::nullopt;
  const auto words = from_base64(take_until(text, '.'));
  const auto facts = words ? facts_in(*words) : std::nullopt;
  if (!facts) return std::nullopt;
  StreamPlace place{.facts = *facts, .choices = {}};
  std::string_view choices = take_until(text, '!');
  if (!text.empty() && !read_count(text, place.closing)) return std::nullopt;
  if (choices.ends_with('_')) return std::nullopt;
  while (!choices.empty() && place.choices.size() < kMaxChoices) {
    std::string_view one = take_until(choices, '_');
    ChoicePlace& choice = place.choices.emplace_back();
    if (!read_count(take_until(one, '-'), choice.tokens) || !read_count(one, choice.events))
      return std::nullopt;
  }
  if (!choices.empty() || place.choices.empty()) return std::nullopt;
  return place;
}

StreamNumbers::StreamNumbers(AnswerFacts facts, size_t num_choices, const std::optional<StreamPlace>& from)
    : head_(head_of(facts)), now_{.facts = std::move(facts), .choices = {}}, taken_(num_choices) {
  now_.choices.resize(num_choices);
  from_ = from.value_or(now_);
  CHEETAH_ASSERT(from_.choices.size() == num_choices, "a place is one in the same stream");
}

// Of a choice whose beginning is not said again yet, the client is still where it was.
std::string StreamNumbers::with_id(std::string_view event) const {
  std::string out = "id: " + head_;
  for (size_t i = 0; i < now_.choices.size(); ++i)
    append(out, std::max(now_.choices[i], from_.choices[i]), i == 0);
  out += closing_of(now_.closing);
  out += '\n';
  out += event;
  return out;
}

std::string StreamNumbers::number(size_t choice, int64_t num_tokens, std::string_view events) {
  ChoicePlace& now = now_.choices.at(choice);
  const ChoicePlace& has = from_.choices[choice];
  if (num_tokens > 0 && now.tokens != taken_[choice]) now = {.tokens = taken_[choice], .events = 0};
  taken_[choice] += num_tokens;
  std::string out;
  while (!events.empty()) {
    const size_t end = std::min(events.find("\n\n"), events.size() - 2) + 2;
    ++now.events;
    if (now > has) out += with_id(events.substr(0, end));
    events.remove_prefix(end);
  }
  return out;
}

std::string StreamNumbers::number_closing(std::string_view events) {
  std::string out;
  while (!events.empty()) {
    const size_t end = std::min(events.find("\n\n"), events.size() - 2) + 2;
    if (++now_.closing > from_.closing) out += with_id(events.substr(0, end));
    events.remove_prefix(end);
  }
  return out;
}

}  // namespace cheetah
