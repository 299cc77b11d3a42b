// SPDX-License-Identifier: MIT
#include "base/format.h"
#include "serve/http/request_parser.h"

namespace cheetah {
namespace {

constexpr size_t kMaxSizeLine = 256;  // hex digits and an extension that nobody reads

HttpError bad_chunk(std::string why) { return {400, "bad_chunk", "the chunked body is malformed: " + why}; }

// nullopt: no hex digits, more than 15 of them, or something else before the extension.
std::optional<int64_t> chunk_size(std::string_view line) {
  const std::string_view digits = line.substr(0, std::min(line.find(';'), line.size()));
  if (digits.empty() || digits.size() > 15) return std::nullopt;
  int64_t size = 0;
  for (const char c : digits) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    size = size * 16 + digit;
  }
  return size;
}

}  // namespace

std::optional<HttpError> ChunkDecoder::consume(std::string_view& data, std::string& body) {
  while (!data.empty() && !done()) {
    if (state_ == State::kData) {
      if (auto error = take_data(data, body)) return error;
      continue;
    }
    if (auto error = take_line(data)) return error;
    if (!line_complete_) continue;
    std::optional<HttpError> error;
    if (state_ == State::kSize) {
      error = start_chunk();
    } else if (state_ == State::kDataEnd) {
      if (!line_.empty()) error = bad_chunk("a chunk is longer than its size says");
      state_ = State::kSize;
    } else {
      error = end_trailer();
    }
    if (error) return error;
    line_.clear();
    line_complete_ = false;
  }
  return std::nullopt;
}

std::optional<HttpError> ChunkDecoder::take_line(std::string_view& data) {
  const size_t end = data.find('\n');
  const size_t count = end == std::string_view::npos ? data.size() : end + 1;
  const size_t most = state_ == State::kTrailer ? static_cast<size_t>(limits_->header_bytes) : kMaxSizeLine;
  if (line_.size() + count > most) return bad_chunk("a line of its frame is too long");
  line_ += data.substr(0, count);
  data.remove_prefix(count);
  // What follows a chunk must be a line end: one wrong byte tells enough.
  if (state_ == State::kDataEnd && line_ != "\r" && line_ != "\r\n")
    return bad_chunk("a chunk is longer than its size says");
  if (end == std::string_view::npos) return std::nullopt;
  if (!line_.ends_with("\r\n")) return bad_chunk("a line does not end with CR LF");
  line_.resize(line_.size() - 2);
  if (line_.find('\r') != std::string::npos || line_.find('\0') != std::string::npos)
    return bad_chunk("a line holds a control character");
  line_complete_ = true;
  return std::nullopt;
}

std::optional<HttpError> ChunkDecoder::start_chunk() {
  const auto size = chunk_size(line_);
  if (!size) return bad_chunk("expected a chunk's size in hex digits");
  if (++num_chunks_ > limits_->chunks)
    return HttpError{400, "too_many_chunks", format("the body has more than {} chunks", limits_->chunks)};
  left_ = *size;
  state_ = *size == 0 ? State::kTrailer : State::kData;
  return std::nullopt;
}

std::optional<HttpError> ChunkDecoder::end_trailer() {
  trailer_bytes_ += std::ssize(line_);
  if (trailer_bytes_ > limits_->header_bytes)
    return HttpError{
        431, "headers_too_large", format("the trailers are larger than {} bytes", limits_->header_bytes)};
  if (line_.empty()) {
    state_ = State::kDone;
  } else if (const size_t colon = line_.find(':');
             colon == std::string::npos || !is_token(std::string_view(line_).substr(0, colon))) {
    return bad_chunk("a trailer is not a header");
  }
  return std::nullopt;
}

std::optional<HttpError> ChunkDecoder::take_data(std::string_view& data, std::string& body) {
  const size_t count = std::min(data.size(), static_cast<size_t>(left_));
  if (std::ssize(body) + left_ > limits_->body_bytes)
    return HttpError{413, "body_too_large",
        format("the body is larger than {} bytes, the most this server takes", limits_->body_bytes)};
  body += data.substr(0, count);
  data.remove_prefix(count);
  left_ -= static_cast<int64_t>(count);
  if (left_ == 0) state_ = State::kDataEnd;
  return std::nullopt;
}

}  // namespace cheetah
