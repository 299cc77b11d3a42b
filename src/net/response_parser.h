// SPDX-License-Identifier: MIT
#pragma once
// An HTTP/1.1 response out of bytes that come in any pieces. No sockets.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace cheetah {

class ResponseParser {
 public:
  using BodySink = std::function<void(std::string_view)>;

  // `sink` gets the body, unchunked, as it comes.
  explicit ResponseParser(BodySink sink);
  ~ResponseParser();
  ResponseParser(const ResponseParser&) = delete;
  ResponseParser& operator=(const ResponseParser&) = delete;

  // Throws Error when the bytes are not HTTP, or for more than 64 KiB of header. Bytes after the end are an
  // error too: we ask one thing at a time.
  void feed(std::string_view bytes);
  // The peer closed. Throws Error when the message is not whole; some bodies end only here.
  void feed_eof();

  bool has_head() const;
  bool done() const;
  bool keep_alive() const;                          // once done: the connection can serve another request
  int status() const;                               // 0 before the head
  std::string header(std::string_view name) const;  // "" where there is none

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cheetah
