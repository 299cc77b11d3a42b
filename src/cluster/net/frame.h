// SPDX-License-Identifier: MIT
#pragma once
// How bytes on a connection become frames: a length (32 bits, little-endian) and that many bytes.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace cheetah::cluster {

std::string to_frame(std::string_view body);

// Cuts a stream of bytes into frames, however the bytes arrive. Keeps no more than it was given: a declared
// length reserves nothing.
class FrameReader {
 public:
  explicit FrameReader(size_t max_frame_bytes) : max_bytes_(max_frame_bytes) {}

  void set_limit(size_t max_frame_bytes) { max_bytes_ = max_frame_bytes; }
  void append(std::string_view bytes);
  // The body of the next frame; nullopt: it has not all arrived. Throws Error when its length is 0 or beyond
  // the limit, as soon as the length is known.
  std::optional<std::string> next();

 private:
  std::string bytes_;
  size_t taken_ = 0;  // bytes before this were returned
  size_t max_bytes_;
};

}  // namespace cheetah::cluster
