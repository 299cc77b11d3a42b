// SPDX-License-Identifier: MIT
#include "cluster/net/frame.h"

#include <cstdint>

#include "base/error.h"
#include "base/format.h"

namespace cheetah::cluster {
namespace {

constexpr size_t kLengthBytes = 4;

size_t length_at(std::string_view bytes) {
  size_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= size_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  return length;
}

}  // namespace

std::string to_frame(std::string_view body) {
  std::string frame;
  frame.reserve(kLengthBytes + body.size());
  for (size_t i = 0; i < kLengthBytes; ++i) frame.push_back(static_cast<char>(body.size() >> (8 * i)));
  frame.append(body);
  return frame;
}

void FrameReader::append(std::string_view bytes) {
  if (taken_ > bytes_.size() / 2) {  // moving at most as many bytes as were taken keeps the cost linear
    bytes_.erase(0, taken_);
    taken_ = 0;
  }
  bytes_.append(bytes);
}

std::optional<std::string> FrameReader::next() {
  const std::string_view rest = std::string_view(bytes_).substr(taken_);
  if (rest.size() < kLengthBytes) return std::nullopt;
  const size_t length = length_at(rest);
  if (length == 0 || length > max_bytes_)
    throw Error(format("a frame of {} bytes: expected 1 to {}", length, max_bytes_));
  if (rest.size() - kLengthBytes < length) return std::nullopt;
  std::string body(rest.substr(kLengthBytes, length));
  taken_ += kLengthBytes + length;
  return body;
}

}  // namespace cheetah::cluster
