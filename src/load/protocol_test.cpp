// The parts that turn bytes into records: URL, HTTP response, event stream.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/error.h"
#include "load/completion_stream.h"
#include "load/response_parser.h"
#include "load/url.h"

namespace cheetah {
namespace {

TEST(ServerUrl, IsMadeWhole) {
  EXPECT_EQ(parse_server_url("http://127.0.0.1:8080").text(), "http://127.0.0.1:8080/v1");
  EXPECT_EQ(parse_server_url("localhost:9/").text(), "http://localhost:9/v1");
  EXPECT_EQ(parse_server_url("https://api.example.com/openai/v1/").text(),
            "https://api.example.com/openai/v1");
  EXPECT_EQ(parse_server_url("https://api.example.com").port, "443");
  EXPECT_EQ(parse_server_url("http://[::1]:80/x").host, "::1");
  EXPECT_EQ(parse_server_url("http://[::1]:81").host_header(), "[::1]:81");
}

TEST(ServerUrl, RefusesWhatItCannotUse) {
  for (const char* bad : {"", "http://", "ftp://host", "http://host:0", "http://host:99999", "http://host:x",
                          "http://:80", "http://[::1", "http://[::1]x", "http://user:pw@host",
                          "http://host/?q", "http://host/#f", "http://a b", "http://host:"})
    EXPECT_THROW(parse_server_url(bad), UsageError) << bad;
}

struct Seen {
  std::string body;
  int status = 0;
  bool done = false, keep_alive = false;
};

// Feeds the bytes in pieces of the given sizes, then the end of the connection where asked.
Seen read_in_pieces(const std::string& bytes, const std::vector<size_t>& sizes, bool eof = false) {
  Seen seen;
  ResponseParser response([&](std::string_view piece) { seen.body += piece; });
  size_t at = 0;
  for (size_t i = 0; at < bytes.size(); ++i) {
    const size_t size =
        std::min(sizes.empty() ? bytes.size() : 1 + sizes[i % sizes.size()] % 40, bytes.size() - at);
    response.feed(std::string_view(bytes).substr(at, size));
    at += size;
  }
  if (eof) response.feed_eof();
  seen.status = response.status();
  seen.done = response.done();
  seen.keep_alive = response.keep_alive();
  return seen;
}

const std::string kChunked =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    "6\r\nhello \r\n5;name=value\r\nworld\r\n0\r\nTrailer: x\r\n\r\n";

RC_GTEST_PROP(ResponseParser, IsTheSameInAnyPieces, (const std::vector<size_t>& sizes)) {
  const Seen seen = read_in_pieces(kChunked, sizes);
  RC_ASSERT(seen.body == "hello world");
  RC_ASSERT(seen.done && seen.keep_alive && seen.status == 200);
}

TEST(ResponseParser, EndsByLengthByChunksOrByClosing) {
  EXPECT_TRUE(read_in_pieces("HTTP/1.1 429 Slow\r\nContent-Length: 3\r\n\r\nabc", {}).done);
  EXPECT_FALSE(
      read_in_pieces("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc", {}).keep_alive);
  const Seen open = read_in_pieces("HTTP/1.1 200 OK\r\n\r\nabc", {});
  EXPECT_FALSE(open.done);
  const Seen closed = read_in_pieces("HTTP/1.1 200 OK\r\n\r\nabc", {}, true);
  EXPECT_TRUE(closed.done);
  EXPECT_FALSE(closed.keep_alive);
  EXPECT_EQ(closed.body, "abc");
}

TEST(ResponseParser, SkipsContinue) {
  const Seen seen =
      read_in_pieces("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Made\r\nContent-Length: 0\r\n\r\n", {3});
  EXPECT_EQ(seen.status, 201);
  EXPECT_TRUE(seen.done);
}

TEST(ResponseParser, RefusesBytesThatAreNotOne) {
  for (const std::string& bad :
       {std::string("SSH-2.0-OpenSSH\r\n\r\n"), std::string("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab"),
        std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
        "HTTP/1.1 200 OK\r\nX: " + std::string(100'000, 'x')})
    EXPECT_THROW(read_in_pieces(bad, {}), Error) << bad.substr(0, 60);
  EXPECT_THROW(read_in_pieces(kChunked.substr(0, kChunked.size() - 5), {}, true), Error);
  EXPECT_THROW(read_in_pieces("HTTP/1.1 200", {}, true), Error);
  EXPECT_THROW(read_in_pieces("", {}, true), Error);
}

RC_GTEST_PROP(ResponseParser, SurvivesAnyBytes, (const std::string& bytes)) {
  try {
    read_in_pieces("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + bytes, {7}, true);
  } catch (const Error&) {
  }
}

std::vector<std::string> events_in(const std::string& bytes, const std::vector<size_t>& sizes) {
  EventLines lines;
  std::vector<std::string> events;
  size_t at = 0;
  for (size_t i = 0; at < bytes.size(); ++i) {
    const size_t size =
        std::min(sizes.empty() ? bytes.size() : 1 + sizes[i % sizes.size()] % 9, bytes.size() - at);
    lines.feed(std::string_view(bytes).substr(at, size),
               [&](std::string_view data) { events.emplace_back(data); });
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
  for (const char* choice :
       {R"({"text":"x"})", R"({"delta":{"reasoning_content":"x"}})", R"({"delta":{"reasoning":"x"}})",
        R"({"delta":{"content":null,"tool_calls":[{"index":0}]}})"}) {
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
