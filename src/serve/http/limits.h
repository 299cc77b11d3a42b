// SPDX-License-Identifier: MIT
#pragma once
// What one connection may cost. Every number is a default a person can change.
#include <chrono>
#include <cstdint>

namespace cheetah {

struct HttpLimits {
  int64_t request_line_bytes = 8 << 10;
  int64_t header_bytes = 64 << 10;  // the request line not among them
  int64_t headers = 100;
  int64_t body_bytes = 16 << 20;
  int64_t chunks = 65'536;
  int64_t pipelined_bytes = 64 << 10;  // read ahead while a request runs
  int64_t pause_bytes = 64 << 10;      // unsent of a stream: the model waits until half of it is sent
  int64_t unsent_bytes = 4 << 20;      // of a stream whose reader is slower than the model: the end
  int64_t socket_bytes = 0;            // the system's buffer for what a client has not taken; 0: as it likes

  std::chrono::milliseconds header_time{10'000};
  std::chrono::milliseconds request_time{60'000};  // from the first byte to the last of the body
  std::chrono::milliseconds idle_time{30'000};     // between requests
  std::chrono::milliseconds write_stall{30'000};   // the reader takes nothing
  std::chrono::milliseconds linger_time{2'000};    // after an error: time for the client to read why
  int64_t body_bytes_per_s = 1 << 10;              // at least, once body_grace is over
  std::chrono::milliseconds body_grace{5'000};

  int64_t connections = 4'096;
  int64_t connections_per_address = 256;
  bool spare_loopback = true;  // a proxy's connections all come from one address
};

}  // namespace cheetah
