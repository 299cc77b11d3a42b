// SPDX-License-Identifier: MIT
#include "net/response_parser.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/error.h"

namespace cheetah {
namespace {

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

TEST(ResponseParser, TakesALengthLargerThanAnyLimitOfTheLibrary) {
  for (int i = 0; i < 100; ++i) {
    ResponseParser parser([](std::string_view) {});
    parser.feed("HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\nx");
    EXPECT_FALSE(parser.done());
  }
}

}  // namespace
}  // namespace cheetah
