// SPDX-License-Identifier: MIT
#include "serve/stream_place.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/random.h"

namespace cheetah {
namespace {

const AnswerFacts kFacts{.id = "req_1", .unix_time = 1700000000, .seed = UINT64_MAX, .model = ""};

// The id in front of an event, taken off it.
std::string take_id(std::string& event) {
  const size_t end = event.find('\n');
  std::string id = event.substr(4, end - 4);
  event.erase(0, end + 1);
  return id;
}

std::vector<std::string> events_in(std::string_view text) {
  std::vector<std::string> events;
  while (!text.empty()) {
    const size_t end = text.find("\n\n") + 2;
    events.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return events;
}

// A stream of three choices: what each event of the engine brings, in an order that differs from run to run, since
// choices run side by side.
std::string stream(StreamNumbers& numbers, uint64_t order) {
  Philox random(order);
  std::vector<int> said(3);
  std::string out;
  for (int left = 30; left > 0;) {
    const size_t choice = random.next_u32() % 3;
    if (said[choice] == 10) continue;
    --left;
    const int token = said[choice]++;
    std::string events;
    if (token == 0) events += "data: role of " + std::to_string(choice) + "\n\n";
    if (token % 3 != 1) events += "data: " + std::to_string(choice) + ":" + std::to_string(token) + "\n\n";
    if (token == 9) events += "data: end of " + std::to_string(choice) + "\n\n";
    out += numbers.number(choice, token == 9 ? 0 : 1, events);
  }
  return out + numbers.number_closing("data: usage\n\ndata: [DONE]\n\n");
}

TEST(StreamPlace, AnIdSaysWhatItWasMadeOf) {
  const StreamPlace place{.facts = {.id = "abc\"~", .unix_time = -5, .seed = 7, .model = "other/model:Q8"},
      .choices = {{0, 1}, {17, 2}},
      .closing = 1};
  EXPECT_EQ(StreamPlace::parse(place.text()), place);
  EXPECT_EQ(place.text().find_first_of(" \n\t"), std::string::npos);
}

TEST(StreamPlace, OtherTextsAreNone) {
  const std::string good = StreamPlace{.facts = kFacts, .choices = {{1, 2}}}.text();
  ASSERT_TRUE(StreamPlace::parse(good));
  for (const std::string& bad : {std::string(), std::string("17"), "x" + good, good + "_", good + "!x",
           good + "x", good.substr(0, good.size() - 2), std::string("c1.AAAA.1-1"), good + "_" + good,
           good.substr(0, good.size() - 3) + "-1-1", std::string(1 << 20, 'c')})
    EXPECT_FALSE(StreamPlace::parse(bad)) << bad.substr(0, 100);
}

TEST(StreamPlace, WhereverAStreamIsCutTheRestIsWhatWasMissing) {
  StreamNumbers whole_numbers(kFacts, 3, std::nullopt);
  const std::vector<std::string> whole = events_in(stream(whole_numbers, 1));
  for (size_t cut = 1; cut <= whole.size(); ++cut) {
    std::multiset<std::string> got;
    std::string last;
    for (size_t i = 0; i < cut; ++i) {
      std::string event = whole[i];
      last = take_id(event);
      got.insert(event);
    }
    const auto place = StreamPlace::parse(last);
    ASSERT_TRUE(place);
    EXPECT_EQ(place->facts, kFacts);
    StreamNumbers rest_numbers(kFacts, 3, place);
    for (std::string event : events_in(stream(rest_numbers, 100 + cut))) {
      last = take_id(event);
      got.insert(event);
    }
    std::multiset<std::string> expected;
    std::string id;
    for (std::string event : whole) {
      id = take_id(event);
      expected.insert(event);
    }
    EXPECT_EQ(last, id) << "the end is the same place";
    EXPECT_EQ(got, expected) << "cut after " << cut;
  }
}

// A stream that goes on is cut before the beginnings of all choices were said again.
TEST(StreamPlace, HoweverOftenAStreamIsCutNothingComesTwice) {
  for (uint64_t step = 1; step <= 7; ++step) {
    std::multiset<std::string> got, expected;
    std::optional<StreamPlace> place;
    for (uint64_t turn = 0; turn < 100; ++turn) {
      StreamNumbers numbers(kFacts, 3, place);
      std::vector<std::string> rest = events_in(stream(numbers, turn * 17 + step));
      if (rest.empty()) break;
      for (size_t i = 0; i < std::min<size_t>(step, rest.size()); ++i) {
        place = StreamPlace::parse(take_id(rest[i]));
        got.insert(rest[i]);
      }
    }
    StreamNumbers whole(kFacts, 3, std::nullopt);
    for (std::string event : events_in(stream(whole, 1))) {
      take_id(event);
      expected.insert(event);
    }
    EXPECT_EQ(got, expected) << step << " events a turn";
  }
}

TEST(StreamPlace, ACutStreamCanBeCutAgain) {
  StreamNumbers numbers(kFacts, 1, std::nullopt);
  std::string first = numbers.number(0, 1, "data: a\n\ndata: b\n\n");
  std::string a = events_in(first)[0];
  StreamNumbers second(kFacts, 1, StreamPlace::parse(take_id(a)));
  std::string b = second.number(0, 1, "data: a\n\ndata: b\n\n");
  const auto place = StreamPlace::parse(take_id(b));
  EXPECT_EQ(b, "data: b\n\n");
  EXPECT_EQ(place->choices, (std::vector<ChoicePlace>{{0, 2}}));
  StreamNumbers third(kFacts, 1, place);
  EXPECT_EQ(third.number(0, 1, "data: a\n\ndata: b\n\n"), "");
  std::string c = third.number(0, 1, "data: c\n\n");
  EXPECT_EQ(StreamPlace::parse(take_id(c))->choices, (std::vector<ChoicePlace>{{1, 1}}));
}

}  // namespace
}  // namespace cheetah
