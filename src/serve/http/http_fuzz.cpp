// SPDX-License-Identifier: MIT
// Bytes of a connection, in pieces: the parser must read them the same way however they are cut, keep to its
// limits, and never take more than there is.
#include <cstdint>
#include <string>

#include "base/error.h"
#include "serve/http/request_parser.h"

namespace cheetah {
namespace {

HttpLimits small_limits() {
  HttpLimits limits;
  limits.request_line_bytes = 64;
  limits.header_bytes = 256;
  limits.headers = 8;
  limits.body_bytes = 128;
  limits.chunks = 16;
  return limits;
}

// All requests in the bytes and the error that ended them, as one text.
std::string read_all(std::string_view bytes, size_t piece) {
  const HttpLimits limits = small_limits();
  RequestParser parser(limits);
  std::string seen;
  while (!bytes.empty() && !parser.error()) {
    std::string_view part = bytes.substr(0, piece);
    bytes.remove_prefix(part.size());
    while (!part.empty() && !parser.error()) {
      parser.consume(part);
      if (parser.head_ready()) parser.accept_body();
      if (!parser.done()) continue;
      const HttpRequest& request = parser.request();
      CHEETAH_ASSERT(std::ssize(request.body) <= limits.body_bytes, "bodies keep to their limit");
      CHEETAH_ASSERT(std::ssize(request.headers) <= limits.headers, "headers keep to their limit");
      seen += request.method + " " + request.target + " " + request.body + "\n";
      parser.reset();
    }
  }
  return seen + (parser.error() ? parser.error()->code : "");
}

}  // namespace
}  // namespace cheetah

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string whole = cheetah::read_all(bytes, size + 1);
  CHEETAH_ASSERT(whole == cheetah::read_all(bytes, 1), "cuts change nothing");
  CHEETAH_ASSERT(whole == cheetah::read_all(bytes, 3), "cuts change nothing");
  return 0;
}
