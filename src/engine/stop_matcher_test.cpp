// SPDX-License-Identifier: MIT
#include "engine/stop_matcher.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace cheetah {
namespace {

std::string shown(StopMatcher& matcher, const std::vector<std::string>& pieces) {
  std::string text;
  for (const std::string& piece : pieces) text += matcher.push(piece);
  return text + matcher.finish();
}

TEST(StopMatcher, FindsAStopAcrossPieces) {
  StopMatcher matcher({"END"}, false);
  EXPECT_EQ(shown(matcher, {"abcE", "N", "Dxyz"}), "abc");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.matched(), "END");
}

TEST(StopMatcher, HoldsBackOnlyWhatMayBecomeAStop) {
  StopMatcher matcher({"\n\nUser:"}, false);
  EXPECT_EQ(matcher.push("hello\n"), "hello");
  EXPECT_EQ(matcher.push("world"), "\nworld");
  EXPECT_EQ(matcher.push("\n\nUse"), "");
  EXPECT_EQ(matcher.finish(), "\n\nUse");
}

TEST(StopMatcher, KeepsTheStopWhenAskedTo) {
  StopMatcher matcher({"."}, true);
  EXPECT_EQ(shown(matcher, {"One", ". Two."}), "One.");
}

TEST(StopMatcher, TheStopThatIsCompleteFirstWins) {
  StopMatcher matcher({"abcd", "bc"}, false);
  EXPECT_EQ(shown(matcher, {"xabcd"}), "xa");
  EXPECT_EQ(matcher.matched(), "bc");
}

TEST(StopMatcher, WithoutStopsEverythingPasses) {
  StopMatcher matcher({""}, false);
  EXPECT_EQ(shown(matcher, {"a", "", "b"}), "ab");
}

RC_GTEST_PROP(StopMatcher, ShowsTheSameTextForEveryCutting, ()) {
  const auto letters = rc::gen::container<std::string>(rc::gen::element('a', 'b', 'c'));
  const auto text = *letters;
  const auto stops = *rc::gen::container<std::vector<std::string>>(2, letters);
  StopMatcher whole(stops, false), cut(stops, false);
  std::vector<std::string> letters_of_text;
  for (const char c : text) letters_of_text.emplace_back(1, c);
  std::vector<std::string> pieces;
  for (size_t at = 0; at < text.size();) {
    const size_t length = *rc::gen::inRange<size_t>(1, 5);
    pieces.push_back(text.substr(at, length));
    at += length;
  }
  RC_ASSERT(shown(whole, letters_of_text) == shown(cut, pieces));
  RC_ASSERT(whole.matched() == cut.matched());
}

}  // namespace
}  // namespace cheetah
