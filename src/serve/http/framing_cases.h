// SPDX-License-Identifier: MIT
#pragma once
// Requests on the wire and what they must meet, for the parser alone and for a whole server.
#include <string>
#include <vector>

namespace cheetah {

struct FramingCase {
  std::string name;
  std::string bytes;
  int status;        // 200: answered by the handler
  std::string code;  // of the error; the body of a good request
};

inline std::string repeated(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

inline FramingCase good(std::string name, std::string bytes, std::string body) {
  return {std::move(name), std::move(bytes), 200, std::move(body)};
}

// Good ones echo their body.
inline std::vector<FramingCase> good_cases() {
  const std::string post = "POST /echo HTTP/1.1\r\nHost: localhost\r\n";
  return {
      good("no body", "GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n", ""),
      good("a body", post + "Content-Length: 5\r\n\r\nhello", "hello"),
      good("length zero", post + "Content-Length: 0\r\n\r\n", ""),
      good("leading zeros", post + "Content-Length: 005\r\n\r\nhello", "hello"),
      good("chunks", post + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", "abcde"),
      good("upper case", post + "TRANSFER-ENCODING: Chunked\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n",
          "0123456789"),
      good("chunk extension", post + "Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0;x\r\n\r\n", "abc"),
      good("trailers", post + "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-Sum: 1\r\n\r\n", "x"),
      good("no chunks", post + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ""),
      good("HTTP/1.0 without a host", "GET /echo HTTP/1.0\r\n\r\n", ""),
      good("HTTP/1.0 with a body", "POST /echo HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi", "hi"),
      good("an empty line first", "\r\nGET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n", ""),
      good("no space after the colon", "GET /echo HTTP/1.1\r\nHost:localhost\r\n\r\n", ""),
      good("tabs around a value", "GET /echo HTTP/1.1\r\nHost:\t localhost \t\r\n\r\n", ""),
      good("an empty value", post + "X-Empty:\r\nContent-Length: 1\r\n\r\nz", "z"),
      good("bytes above 127 in a value", "GET /echo HTTP/1.1\r\nHost: localhost\r\nX-Name: \xC3\xA9\r\n\r\n",
          ""),
      good("a query", "GET /echo?a=b&c HTTP/1.1\r\nHost: localhost\r\n\r\n", ""),
      good("a port in the host", "GET /echo HTTP/1.1\r\nHost: localhost:8000\r\n\r\n", ""),
      good("a hundred headers",
          "GET /echo HTTP/1.1\r\nHost: localhost\r\n" + repeated("X-A: b\r\n", 99) + "\r\n", ""),
      good("an upgrade is ignored",
          "GET /echo HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", ""),
      good("a websocket is not spoken", "GET /echo HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\r\n",
          ""),
  };
}

inline std::vector<FramingCase> bad_line_cases() {
  return {
      {"version 9.9", "GET / HTTP/9.9\r\n\r\n", 505, "http_version_not_supported"},
      {"version 2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "http_version_not_supported"},
      {"version 1.2", "GET / HTTP/1.2\r\nHost: localhost\r\n\r\n", 505, "http_version_not_supported"},
      {"a carriage return in the method", "G\rT / HTTP/1.1\r\nHost: localhost\r\n\r\n", 400,
          "bad_request_line"},
      {"no version", "GET /\r\n\r\n", 400, "bad_request_line"},
      {"lower case version", "GET / http/1.1\r\n\r\n", 400, "bad_request_line"},
      {"long version", "GET / HTTP/1.10\r\n\r\n", 400, "bad_request_line"},
      {"version of letters", "GET / HTTP/x.y\r\n\r\n", 400, "bad_request_line"},
      {"TLS hello", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11), 400, "bad_request_line"},
      {"random bytes", "\xff\xfe\x80\x81\x82\r\n\r\n", 400, "bad_request_line"},
      {"a NUL first", std::string("\0GET / HTTP/1.1\r\n\r\n", 19), 400, "bad_request_line"},
      {"a bare line feed", "GET / HTTP/1.1\nHost: localhost\n\n", 400, "bad_request_line"},
      {"a long line", "GET /" + std::string(1 << 20, 'a') + " HTTP/1.1\r\n\r\n", 414, "uri_too_long"},
      {"just too long", "GET /" + std::string((8 << 10) - 13, 'a') + " HTTP/1.1\r\nHost: l\r\n\r\n", 414,
          "uri_too_long"},
      {"two spaces", "GET  / HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "bad_request_line"},
      {"a space in the path", "GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "bad_request_line"},
      {"a tab for a space", "GET\t/\tHTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "bad_request_line"},
      {"a control character", "GET /\x01 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "bad_request_line"},
      {"a byte above 127", "GET /\xC3\xA9 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "bad_request_line"},
      {"absolute form", "GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "bad_request_line"},
      {"asterisk form", "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "bad_request_line"},
      {"no target", "GET HTTP/1.1\r\n\r\n", 400, "bad_request_line"},
      {"a bad method", "GE(T / HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "bad_request_line"},
      {"a long method", std::string(64, 'A') + " / HTTP/1.1\r\n\r\n", 400, "bad_request_line"},
      {"many empty lines", "\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\n\r\n", 400, "bad_request_line"},
  };
}

inline std::vector<FramingCase> bad_header_cases() {
  const std::string get = "GET / HTTP/1.1\r\nHost: localhost\r\n";
  return {
      {"no host", "GET / HTTP/1.1\r\n\r\n", 400, "bad_host"},
      {"two hosts", get + "Host: localhost\r\n\r\n", 400, "bad_host"},
      {"an empty host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", 400, "bad_host"},
      {"a path for a host", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, "bad_host"},
      {"101 headers", get + repeated("X-A: b\r\n", 100) + "\r\n", 431, "headers_too_large"},
      {"65 KiB of headers", get + "X-A: " + std::string(65 << 10, 'a') + "\r\n\r\n", 431,
          "headers_too_large"},
      {"65 KiB without an end", get + "X-A: " + std::string(66 << 10, 'a'), 431, "headers_too_large"},
      {"a header with a bare line feed", get + "X-A: b\nX-C: d\r\n\r\n", 400, "bad_header"},
      {"a folded header", get + "X-A: b\r\n c\r\n\r\n", 400, "bad_header"},
      {"a header folded by a tab", get + "X-A: b\r\n\tc\r\n\r\n", 400, "bad_header"},
      {"a space before the colon", get + "X-A : b\r\n\r\n", 400, "bad_header"},
      {"a NUL in a value", get + std::string("X-A: a\0b\r\n\r\n", 12), 400, "bad_header"},
      {"a NUL in a name", get + std::string("X\0A: ab\r\n\r\n", 11), 400, "bad_header"},
      {"a carriage return in a value", get + "X-A: a\rb\r\n\r\n", 400, "bad_header"},
      {"an escape in a value", get + "X-A: \x1b]0;x\r\n\r\n", 400, "bad_header"},
      {"0x80 in a name", get + "X-\x80: b\r\n\r\n", 400, "bad_header"},
      {"no colon", get + "XA\r\n\r\n", 400, "bad_header"},
      {"no name", get + ": b\r\n\r\n", 400, "bad_header"},
      {"a colon in the first place of a line", get + ":\r\n\r\n", 400, "bad_header"},
  };
}

inline std::vector<FramingCase> bad_length_cases() {
  const std::string post = "POST /echo HTTP/1.1\r\nHost: localhost\r\n";
  std::vector<FramingCase> cases = {
      {"both lengths", post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400,
          "ambiguous_framing"},
      {"both, the other way", post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\nhello", 400,
          "ambiguous_framing"},
      {"two lengths", post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", 400,
          "bad_content_length"},
      {"the same length twice", post + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400,
          "bad_content_length"},
      {"a body over the limit", post + "Content-Length: 99999999\r\n\r\n", 413, "body_too_large"},
      {"chunked twice", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 501,
          "unsupported_transfer_encoding"},
      {"chunked under 1.0", "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400,
          "unsupported_transfer_encoding"},
      {"chunked with a vertical tab",
          post + "Transfer-Encoding: \x0b"
                 "chunked\r\n\r\n",
          400, "unsupported_transfer_encoding"},
  };
  for (const char* length : {"-1", "+5", "0x10", "1e3", "18446744073709551616", "5 5", "5, 6", "", "five",
           "5;", "9223372036854775808"})
    cases.push_back({std::string("length ") + length, post + "Content-Length: " + length + "\r\n\r\nhello",
        400, "bad_content_length"});
  for (const char* coding :
      {"gzip", "chunked, gzip", "gzip, chunked", "xchunked", "chunkedx", "identity", ""})
    cases.push_back({std::string("coding ") + coding,
        post + "Transfer-Encoding: " + coding + "\r\n\r\n0\r\n\r\n", 501, "unsupported_transfer_encoding"});
  return cases;
}

inline std::vector<FramingCase> bad_chunk_cases() {
  const std::string chunked = "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  return {
      {"chunk -1", chunked + "-1\r\n\r\n", 400, "bad_chunk"},
      {"chunk of 17 digits", chunked + "FFFFFFFFFFFFFFFFF\r\n", 400, "bad_chunk"},
      {"chunk of 16 digits", chunked + "8000000000000000\r\n", 400, "bad_chunk"},
      {"chunk 0x5", chunked + "0x5\r\nhello\r\n0\r\n\r\n", 400, "bad_chunk"},
      {"chunk with a space", chunked + "5 \r\nhello\r\n0\r\n\r\n", 400, "bad_chunk"},
      {"chunk with a space first", chunked + " 5\r\nhello\r\n0\r\n\r\n", 400, "bad_chunk"},
      {"an empty size", chunked + "\r\nhello\r\n", 400, "bad_chunk"},
      {"an extension without a size", chunked + ";x\r\n\r\n", 400, "bad_chunk"},
      {"a mebibyte of extension", chunked + "5;" + std::string(1 << 20, 'x') + "\r\nhello\r\n0\r\n\r\n", 400,
          "bad_chunk"},
      {"no line end after a chunk", chunked + "5\r\nhelloX", 400, "bad_chunk"},
      {"a chunk longer than its size", chunked + "3\r\nhello\r\n0\r\n\r\n", 400, "bad_chunk"},
      {"a bare line feed after a size", chunked + "5\nhello\r\n0\r\n\r\n", 400, "bad_chunk"},
      {"a bare line feed after a chunk", chunked + "5\r\nhello\n0\r\n\r\n", 400, "bad_chunk"},
      {"a bad trailer", chunked + "0\r\nno trailer\r\n\r\n", 400, "bad_chunk"},
      {"a trailer without a colon", chunked + "0\r\nhello\r\n\r\n", 400, "bad_chunk"},
      {"a chunk over the limit", chunked + "FFFFFFF\r\n" + std::string(100, 'x'), 413, "body_too_large"},
      {"65,537 chunks", chunked + repeated("1\r\nx\r\n", 65'537), 400, "too_many_chunks"},
  };
}

inline std::vector<FramingCase> framing_cases() {
  std::vector<FramingCase> all;
  for (const auto& group :
      {good_cases(), bad_line_cases(), bad_header_cases(), bad_length_cases(), bad_chunk_cases()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

}  // namespace cheetah
