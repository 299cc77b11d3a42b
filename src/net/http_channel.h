// SPDX-License-Identifier: MIT
#pragma once
// One HTTP connection for a thread that waits: every wait has a limit and can be interrupted.
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "base/time.h"
#include "net/http_client.h"

namespace cheetah {

// Used by one thread; interrupt() may come from any. Connects when needed. Any failure is an Error, after which the
// next request starts on a new connection.
class HttpChannel {
 public:
  struct Answer {
    int status = 0;
    std::string body;
  };
  static constexpr size_t kMostBodyBytes = size_t{64} << 20;

  // Throws Error when a file of `peer.tls` cannot be used.
  explicit HttpChannel(const HttpPeer& peer);
  ~HttpChannel();
  HttpChannel(const HttpChannel&) = delete;
  HttpChannel& operator=(const HttpChannel&) = delete;

  Answer send(
      const ClientRequest& request, SteadyClock::duration limit, size_t max_body_bytes = kMostBodyBytes);

  // A response that goes on in lines, each of at most kMostBodyBytes. Returns the status.
  int open_stream(const ClientRequest& request, SteadyClock::duration limit);
  // nullopt: nothing came within `limit`; the connection is closed. A last line may lack its end.
  std::optional<std::string> read_line(SteadyClock::duration limit);

  void close();
  void interrupt();  // ends the current wait and all later ones with an Error

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cheetah
