// SPDX-License-Identifier: MIT
// Beast's parser as a second opinion: what ours takes, Beast must take too, with the same meaning.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "base/error.h"
#include "serve/http/framing_cases.h"
#include "serve/http/request_parser.h"

namespace cheetah {
namespace {

namespace http = boost::beast::http;

// "method target body bytes-taken", or "" when the bytes are not a whole request.
std::string ours(const std::string& bytes) {
  const HttpLimits limits;
  RequestParser parser(limits);
  std::string_view data = bytes;
  parser.consume(data);
  if (parser.head_ready()) {
    parser.accept_body();
    if (!parser.done()) parser.consume(data);
  }
  if (!parser.done()) return "";
  const HttpRequest& request = parser.request();
  return request.method + " " + request.target + " " + request.body + " " +
         std::to_string(bytes.size() - data.size());
}

std::string beasts(const std::string& bytes) {
  http::request_parser<http::string_body> parser;
  parser.eager(true);
  parser.header_limit(1 << 20);
  boost::system::error_code error;
  size_t at = 0;
  while (at < bytes.size() && !parser.is_done()) {
    const size_t taken = parser.put(boost::asio::buffer(bytes.data() + at, bytes.size() - at), error);
    at += taken;
    if (error || taken == 0) break;
  }
  if (error || !parser.is_done()) return "";
  const auto& message = parser.get();
  return std::string(message.method_string()) + " " + std::string(message.target()) + " " + message.body() +
         " " + std::to_string(at);
}

// Empty lines before a request are ours to skip; Beast skips none.
bool agree(const std::string& bytes) {
  const std::string mine = ours(bytes);
  return mine.empty() || bytes.starts_with("\r") || mine == beasts(bytes);
}

TEST(BeastAgreement, HoldsForTheFramingTable) {
  for (const FramingCase& each : framing_cases()) EXPECT_TRUE(agree(each.bytes)) << each.name;
}

TEST(BeastAgreement, HoldsForRequestsWithBytesChangedInsertedAndRemoved) {
  EXPECT_TRUE(rc::check([](uint16_t which, const std::vector<std::pair<uint16_t, uint8_t>>& changes) {
    std::vector<std::string> seeds;
    for (const FramingCase& each : framing_cases())
      if (each.bytes.size() < 400) seeds.push_back(each.bytes);
    std::string bytes = seeds[which % seeds.size()];
    constexpr std::string_view kTelling = "\r\n :;,0159aF-+\t";
    for (const auto& [at, value] : changes) {
      const size_t place = at % bytes.size();
      const char telling = kTelling[value % kTelling.size()];
      if (value < 85)
        bytes[place] = telling;
      else if (value < 170)
        bytes.insert(place, 1, telling);
      else if (bytes.size() > 2)
        bytes.erase(place, 1);
    }
    RC_LOG(printable(bytes, 400));
    RC_ASSERT(agree(bytes));
  }));
}

}  // namespace
}  // namespace cheetah
