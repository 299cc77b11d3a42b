// SPDX-License-Identifier: MIT
// The parts that turn bytes into records: event stream, completion.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "load/completion_stream.h"

namespace cheetah {
namespace {

std::vector<std::string> events_in(const std::string& bytes, const std::vector<size_t>& sizes) {
  EventLines lines;
  std::vector<std::string> events;
  size_t at = 0;
  for (size_t i = 0; at < bytes.size(); ++i) {
    const size_t size =
        std::min(sizes.empty() ? bytes.size() : 1 + sizes[i % sizes.size()] % 9, bytes.size() - at);
    lines.feed(
        std::string_view(bytes).substr(at, size), [&](std::string_view data) { events.emplace_back(data); });
    at += size;
  }
  return events;
}

RC_GTEST_PROP(EventLines, AreTheSameInAnyPiecesAndLineEnds, (const std::vector<size_t>& sizes)) {
  const std::vector<std::string> expected = {"one", "two\nlines", "", "last"};
  for (const std::string end : {"\n", "\r\n", "\r"}) {
    std::string text;
    for (const char* line : {": comment", "data: one", "", "event: x", "data:two", "data: lines", "",
             "data:", "", "id: 4", "", "data: last", ""})
      text += line + end;
    RC_ASSERT(events_in(text, sizes) == expected);
  }
}

RequestRecord stream(const std::vector<std::pair<double, std::string>>& pieces) {
  RequestRecord record;
  CompletionStream completion(record);
  for (const auto& [time, bytes] : pieces) completion.feed(bytes, time);
  completion.finish();
  return record;
}

TEST(CompletionStream, TimesTextAndCountsWhatTheServerCounted) {
  const RequestRecord record = stream({
      {1.0, "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"},
      {1.5, "data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\nda"},
      {1.7, "ta: {\"choices\":[{\"delta\":{\"content\":\"lo\"}}]}\n\n"},
      {1.8, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"},
      {1.9,
          "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":3,"
          "\"prompt_tokens_details\":{\"cached_tokens\":8}}}\n\ndata: [DONE]\n\n"},
  });
  ASSERT_TRUE(record.ok()) << record.detail;
  EXPECT_EQ(record.first_s, 1.5);
  EXPECT_EQ(record.last_s, 1.7);
  ASSERT_EQ(record.gaps_s.size(), 1u);
  EXPECT_NEAR(record.gaps_s[0], 0.2, 1e-6);
  EXPECT_EQ(record.events, 2);
  EXPECT_EQ(record.tokens(), 3);
  EXPECT_EQ(record.prompt_tokens, 12);
  EXPECT_EQ(record.cached_tokens, 8);
  EXPECT_NEAR(*record.tpot_s(), 0.1, 1e-9);
}

TEST(CompletionStream, TextOfEveryKindIsTokens) {
  for (const char* choice : {R"({"text":"x"})", R"({"delta":{"reasoning_content":"x"}})",
           R"({"delta":{"reasoning":"x"}})", R"({"delta":{"content":null,"tool_calls":[{"index":0}]}})"}) {
    const RequestRecord record =
        stream({{1, "data: {\"choices\":[" + std::string(choice) + "]}\n\ndata: [DONE]\n\n"}});
    EXPECT_TRUE(record.ok()) << choice;
    EXPECT_EQ(record.events, 1) << choice;
  }
}

TEST(CompletionStream, EventsWithoutTextCountWhereThereIsNoTokenizer) {
  RequestRecord record;
  CompletionStream completion(record, true);
  completion.feed("data: {\"choices\":[{\"text\":\"\"}]}\n\n", 1);
  completion.feed("data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n", 2);
  completion.feed("data: {\"choices\":[],\"usage\":{\"completion_tokens\":2}}\n\ndata: [DONE]\n\n", 3);
  completion.finish();
  EXPECT_TRUE(record.ok()) << record.detail;
  EXPECT_EQ(record.events, 2);
  EXPECT_EQ(*record.tpot_s(), 1);
}

TEST(CompletionStream, TellsFailuresApart) {
  const std::string text = "data: {\"choices\":[{\"text\":\"x\"}]}\n\n";
  EXPECT_EQ(stream({{1, text}}).failure, RequestFailure::kCut);
  EXPECT_EQ(stream({}).failure, RequestFailure::kCut);
  EXPECT_EQ(stream({{1, "data: [DONE]\n\n"}}).failure, RequestFailure::kEmptyAnswer);
  EXPECT_EQ(stream({{1, text + "data: {oops\n\n"}}).failure, RequestFailure::kNotAStream);
  EXPECT_EQ(stream({{1, text + "data: 3\n\n"}}).failure, RequestFailure::kNotAStream);
  const RequestRecord error =
      stream({{1, text + "data: {\"error\":{\"message\":\"out of pages\"}}\n\ndata: [DONE]\n\n"}});
  EXPECT_EQ(error.failure, RequestFailure::kServerError);
  EXPECT_EQ(error.detail, "out of pages");
}

TEST(CompletionStream, FindsTheMessageOfAnErrorBody) {
  EXPECT_EQ(error_message_of(R"({"error":{"message":"no"}})"), "no");
  EXPECT_EQ(error_message_of(R"({"error":"no"})"), "no");
  EXPECT_EQ(error_message_of(R"({"message":"no"})"), "no");
  EXPECT_EQ(error_message_of("<html>"), "<html>");
  EXPECT_EQ(error_message_of(""), "");
}

}  // namespace
}  // namespace cheetah
