// SPDX-License-Identifier: MIT
#include "serve/http/request_parser.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "serve/http/framing_cases.h"

namespace cheetah {
namespace {

struct Parsed {
  int status = 0;  // 0: not complete
  std::string code;
  HttpRequest request;
  size_t left = 0;  // bytes not taken
};

// Gives the parser pieces of the sizes in `cuts`, over and over.
Parsed parse(const std::string& bytes, const std::vector<size_t>& cuts) {
  const HttpLimits limits;
  RequestParser parser(limits);
  size_t at = 0;
  for (size_t i = 0; at < bytes.size() && !parser.error() && !parser.done(); ++i) {
    const size_t end = std::min(bytes.size(), at + std::max<size_t>(1, cuts[i % cuts.size()]));
    std::string_view piece = std::string_view(bytes).substr(at, end - at);
    while (!piece.empty() && !parser.error() && !parser.done()) {
      parser.consume(piece);
      if (parser.head_ready()) parser.accept_body();
    }
    at = end - piece.size();
  }
  if (parser.error()) return {parser.error()->status, parser.error()->code, {}, 0};
  if (!parser.done()) return {};
  return {200, parser.request().body, parser.request(), bytes.size() - at};
}

TEST(RequestParser, MeetsEveryCaseOfTheFramingTableHoweverTheBytesArrive) {
  for (const FramingCase& each : framing_cases())
    for (const size_t cut : {size_t{1} << 24, size_t{1}, size_t{7}, size_t{4096}}) {
      const Parsed parsed = parse(each.bytes, {cut});
      EXPECT_EQ(parsed.status, each.status) << each.name << " cut at " << cut;
      EXPECT_EQ(parsed.code, each.code) << each.name << " cut at " << cut;
    }
}

TEST(RequestParser, ReadsWhatIsThere) {
  const Parsed parsed = parse(
      "POST /v1/x?a=1 HTTP/1.1\r\nHost: h\r\nX-Thing:  two words \r\nConnection: close\r\nContent-Length: "
      "2\r\n\r\nokGET",
      {3});
  EXPECT_EQ(parsed.request.method, "POST");
  EXPECT_EQ(parsed.request.path(), "/v1/x");
  EXPECT_EQ(parsed.request.query(), "a=1");
  EXPECT_EQ(*parsed.request.find("x-thing"), "two words");
  EXPECT_EQ(parsed.request.find("x-other"), nullptr);
  EXPECT_EQ(parsed.request.body, "ok");
  EXPECT_FALSE(parsed.request.keep_alive);
  EXPECT_EQ(parsed.left, 3u);
}

TEST(RequestParser, KeepsAliveAsTheVersionsSay) {
  EXPECT_TRUE(parse("GET / HTTP/1.1\r\nHost: h\r\n\r\n", {99}).request.keep_alive);
  EXPECT_FALSE(parse("GET / HTTP/1.0\r\n\r\n", {99}).request.keep_alive);
  EXPECT_TRUE(parse("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", {99}).request.keep_alive);
}

TEST(RequestParser, ReadsAnyBodyInAnyChunksInAnyPieces) {
  EXPECT_TRUE(rc::check([](const std::vector<std::string>& chunks, const std::vector<uint8_t>& raw_cuts) {
    std::string bytes = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", body;
    for (const std::string& chunk : chunks) {
      if (chunk.empty()) continue;
      char size[32];
      std::snprintf(size, sizeof size, "%zx\r\n", chunk.size());
      bytes += size + chunk + "\r\n";
      body += chunk;
    }
    bytes += "0\r\n\r\nNEXT";
    std::vector<size_t> cuts(raw_cuts.begin(), raw_cuts.end());
    if (cuts.empty()) cuts = {1};
    const Parsed parsed = parse(bytes, cuts);
    RC_ASSERT(parsed.status == 200);
    RC_ASSERT(parsed.request.body == body);
    RC_ASSERT(parsed.left <= 4u);
  }));
}

TEST(RequestParser, SurvivesGoodRequestsWithBytesChanged) {
  EXPECT_TRUE(
      rc::check([](uint8_t which, const std::vector<std::pair<uint16_t, uint8_t>>& changes, uint8_t cut) {
        const auto cases = good_cases();
        std::string bytes = cases[which % cases.size()].bytes;
        for (const auto& [at, value] : changes) bytes[at % bytes.size()] = static_cast<char>(value);
        // However the bytes are cut, the outcome is one and the same.
        const Parsed whole = parse(bytes, {1 << 20}), cut_up = parse(bytes, {cut});
        RC_ASSERT(whole.status == cut_up.status);
        RC_ASSERT(whole.code == cut_up.code);
      }));
}

}  // namespace
}  // namespace cheetah
