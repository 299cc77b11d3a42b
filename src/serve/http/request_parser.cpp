// SPDX-License-Identifier: MIT
#include "serve/http/request_parser.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

constexpr int kMaxEmptyLines = 2;  // some clients end a body with one CR LF too many

bool is_field_value(std::string_view text) {
  return std::all_of(
      text.begin(), text.end(), [](unsigned char c) { return c == '\t' || (c >= ' ' && c != 127); });
}

bool is_visible(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > ' ' && c < 127; });
}

bool is_host(std::string_view text) {
  constexpr std::string_view kOthers = "-._~[]:%";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](unsigned char c) {
    return std::isalnum(c) || kOthers.find(static_cast<char>(c)) != std::string_view::npos;
  });
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

// Digits and nothing else, up to 18 of them.
std::optional<int64_t> plain_number(std::string_view text) {
  if (text.empty() || text.size() > 18) return std::nullopt;
  int64_t number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + (c - '0');
  }
  return number;
}

}  // namespace

void RequestParser::reset() {
  state_ = State::kRequestLine;
  request_ = {};
  line_.clear();
  header_bytes_ = 0;
  empty_lines_ = 0;
  chunks_ = ChunkDecoder(limits_);
  error_.reset();
}

void RequestParser::fail(int status, std::string code, std::string message) {
  state_ = State::kFailed;
  error_ = HttpError{status, std::move(code), std::move(message)};
}

void RequestParser::consume(std::string_view& data) {
  while (!data.empty()) {
    switch (state_) {
      case State::kRequestLine:
      case State::kHeaders:
        take_line(data);
        break;
      case State::kBody:
        take_body(data);
        break;
      case State::kChunks:
        if (auto error = chunks_.consume(data, request_.body))
          fail(error->status, std::move(error->code), std::move(error->message));
        else if (chunks_.done())
          state_ = State::kDone;
        break;
      default:
        return;
    }
  }
}

void RequestParser::accept_body() {
  CHEETAH_ASSERT(head_ready(), "a body follows a head");
  if (request_.chunked)
    state_ = State::kChunks;
  else
    state_ = request_.content_length.value_or(0) == 0 ? State::kDone : State::kBody;
}

void RequestParser::take_body(std::string_view& data) {
  const auto left = static_cast<size_t>(*request_.content_length) - request_.body.size();
  const size_t count = std::min(left, data.size());
  request_.body += data.substr(0, count);
  data.remove_prefix(count);
  if (count == left) state_ = State::kDone;
}

// Collects one line and hands it on. Limits are checked while it grows, so that nothing large is kept.
void RequestParser::take_line(std::string_view& data) {
  const bool first = state_ == State::kRequestLine;
  const size_t end = data.find('\n');
  const size_t count = end == std::string_view::npos ? data.size() : end + 1;
  const int64_t room = first ? limits_.request_line_bytes : limits_.header_bytes - header_bytes_;
  if (std::ssize(line_) + static_cast<int64_t>(count) > room + 2) {
    line_ += data.substr(0, static_cast<size_t>(room) + 2 - line_.size());
    if (first) check_start(line_);
    if (error_) return;
    return first ? fail(414, "uri_too_long",
                       format("the request line is longer than {} bytes", limits_.request_line_bytes))
                 : fail(431, "headers_too_large",
                       format("the headers are larger than {} bytes", limits_.header_bytes));
  }
  line_ += data.substr(0, count);
  data.remove_prefix(count);
  if (first) check_start(line_);
  if (error_ || end == std::string_view::npos) return;
  if (!line_.ends_with("\r\n"))
    return first ? fail(400, "bad_request_line", "the request line does not end with CR LF")
                 : fail(400, "bad_header", "a header line does not end with CR LF");
  const std::string line = std::exchange(line_, {});
  const std::string_view content = std::string_view(line).substr(0, line.size() - 2);
  if (first) return parse_request_line(content);
  header_bytes_ += std::ssize(line);
  if (content.empty()) return finish_head();
  parse_header(content);
}

// Bytes that cannot begin a request (TLS, another protocol) are refused before a line is complete.
void RequestParser::check_start(std::string_view line) {
  if (line == "\r" || line == "\r\n") return;
  const std::string_view method = line.substr(0, std::min(line.find(' '), line.size()));
  const std::string_view known = method.substr(0, method.find_first_of("\r\n"));
  if (!is_token(known) || known.size() > 32)
    fail(400, "bad_request_line",
        "the request line does not begin with a method; is this another protocol (HTTPS on a plain port)?");
}

void RequestParser::parse_request_line(std::string_view line) {
  if (line.empty()) {
    if (++empty_lines_ > kMaxEmptyLines) fail(400, "bad_request_line", "expected a request line");
    return;
  }
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last)
    return fail(400, "bad_request_line", "expected a method, a target and a version");
  request_.method = line.substr(0, first);
  request_.target = line.substr(first + 1, last - first - 1);
  if (!is_token(request_.method)) return fail(400, "bad_request_line", "the method is not a word");
  parse_version(line.substr(last + 1));
  if (error_) return;
  if (!is_visible(request_.target))
    return fail(400, "bad_request_line", "the target holds a space or a control character");
  if (request_.method != "CONNECT" && !request_.target.starts_with('/'))
    return fail(400, "bad_request_line", "the target must be a path that begins with /");
  state_ = State::kHeaders;
}

void RequestParser::parse_version(std::string_view version) {
  const bool shaped = version.size() == 8 && version.starts_with("HTTP/") && version[6] == '.' &&
                      std::isdigit(static_cast<unsigned char>(version[5])) &&
                      std::isdigit(static_cast<unsigned char>(version[7]));
  if (!shaped) return fail(400, "bad_request_line", "expected HTTP/1.1 at the end of the request line");
  if (version != "HTTP/1.1" && version != "HTTP/1.0")
    return fail(505, "http_version_not_supported", "this server speaks HTTP/1.1 and HTTP/1.0");
  request_.minor_version = version[7] == '0' ? 0 : 1;
}

void RequestParser::parse_header(std::string_view line) {
  if (std::ssize(request_.headers) >= limits_.headers)
    return fail(431, "headers_too_large", format("there are more than {} headers", limits_.headers));
  if (line.front() == ' ' || line.front() == '\t')
    return fail(400, "bad_header", "a header is folded over two lines");
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
    return fail(400, "bad_header", "a header's name must be letters, digits and dashes, followed by a colon");
  std::string name = lower(line.substr(0, colon));
  const std::string_view value = trim_blanks(line.substr(colon + 1));
  if (!is_field_value(value)) {
    if (name == "transfer-encoding")
      return fail(400, "unsupported_transfer_encoding", "the transfer encoding holds a control character");
    return fail(400, "bad_header", format("the header {} holds a control character", printable(name)));
  }
  request_.headers.push_back({std::move(name), std::string(value)});
}

void RequestParser::finish_head() {
  read_host();
  if (!error_) read_framing();
  if (error_) return;
  read_connection();
  state_ = State::kHeadReady;
}

void RequestParser::read_host() {
  const auto count = std::ranges::count(request_.headers, "host", &HttpHeader::name);
  const std::string* host = request_.find("host");
  if (count > 1) return fail(400, "bad_host", "there is more than one Host header");
  if (!host && request_.minor_version == 0) return;
  if (!host) return fail(400, "bad_host", "the Host header is missing");
  if (!is_host(*host)) return fail(400, "bad_host", "the Host header is not a host name");
}

void RequestParser::read_framing() {
  const auto lengths = std::ranges::count(request_.headers, "content-length", &HttpHeader::name);
  const auto codings = std::ranges::count(request_.headers, "transfer-encoding", &HttpHeader::name);
  if (lengths > 0 && codings > 0)
    return fail(400, "ambiguous_framing", "Content-Length and Transfer-Encoding stand together");
  if (lengths > 1) return fail(400, "bad_content_length", "there is more than one Content-Length");
  if (lengths == 1) {
    request_.content_length = plain_number(*request_.find("content-length"));
    if (!request_.content_length)
      return fail(400, "bad_content_length", "Content-Length must be a plain decimal number");
    request_.has_body = *request_.content_length > 0;
    if (*request_.content_length > limits_.body_bytes)
      return fail(413, "body_too_large",
          format("the body has {} bytes; this server takes at most {}", *request_.content_length,
              limits_.body_bytes));
  }
  if (codings == 0) return;
  if (codings > 1 || !same_ignoring_case(*request_.find("transfer-encoding"), "chunked"))
    return fail(501, "unsupported_transfer_encoding", "the only transfer encoding understood is chunked");
  if (request_.minor_version == 0)
    return fail(400, "unsupported_transfer_encoding", "HTTP/1.0 has no transfer encodings");
  request_.chunked = request_.has_body = true;
}

void RequestParser::read_connection() {
  request_.keep_alive = request_.minor_version == 1;
  for (const HttpHeader& header : request_.headers) {
    if (header.name != "connection") continue;
    const std::string value = lower(header.value);
    if (value.find("close") != std::string::npos)
      request_.keep_alive = false;
    else if (request_.minor_version == 0 && value.find("keep-alive") != std::string::npos)
      request_.keep_alive = true;
  }
}

}  // namespace cheetah
