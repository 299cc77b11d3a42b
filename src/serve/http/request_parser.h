// SPDX-License-Identifier: MIT
#pragma once
// Bytes of a connection into requests. Stricter than RFC 9112 allows: what two programs could read in two
// ways (both lengths, folded lines, bare line feeds, signs and spaces in numbers) is refused, not guessed.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "serve/http/limits.h"
#include "serve/http/message.h"

namespace cheetah {

// The body in chunks, without their frames. Chunk extensions and trailers are dropped.
class ChunkDecoder {
 public:
  explicit ChunkDecoder(const HttpLimits& limits) : limits_(&limits) {}
  // Consumes what it can, appends to `body`; the error when the bytes are not chunks.
  std::optional<HttpError> consume(std::string_view& data, std::string& body);
  bool done() const { return state_ == State::kDone; }

 private:
  enum class State { kSize, kData, kDataEnd, kTrailer, kDone };
  std::optional<HttpError> take_line(std::string_view& data);
  std::optional<HttpError> start_chunk();
  std::optional<HttpError> end_trailer();
  std::optional<HttpError> take_data(std::string_view& data, std::string& body);

  const HttpLimits* limits_;
  State state_ = State::kSize;
  std::string line_;
  bool line_complete_ = false;
  int64_t left_ = 0;  // of this chunk
  int64_t num_chunks_ = 0;
  int64_t trailer_bytes_ = 0;
};

// One request after another: consume() until head_ready(), then accept_body(), then until done(); reset().
class RequestParser {
 public:
  explicit RequestParser(const HttpLimits& limits) : limits_(limits), chunks_(limits) {}

  // Takes bytes from the front of `data`, stopping at the head's end and at the body's end.
  void consume(std::string_view& data);
  bool head_ready() const { return state_ == State::kHeadReady; }
  void accept_body();
  bool done() const { return state_ == State::kDone; }
  const std::optional<HttpError>& error() const { return error_; }

  const HttpRequest& request() const { return request_; }
  HttpRequest take() { return std::move(request_); }
  void reset();

 private:
  enum class State { kRequestLine, kHeaders, kHeadReady, kBody, kChunks, kDone, kFailed };
  void take_line(std::string_view& data);
  void check_start(std::string_view line);
  void parse_request_line(std::string_view line);
  void parse_version(std::string_view version);
  void parse_header(std::string_view line);
  void finish_head();
  void read_framing();
  void read_host();
  void read_connection();
  void take_body(std::string_view& data);
  void fail(int status, std::string code, std::string message);

  const HttpLimits& limits_;
  State state_ = State::kRequestLine;
  HttpRequest request_;
  std::string line_;
  int64_t header_bytes_ = 0;
  int empty_lines_ = 0;
  ChunkDecoder chunks_;
  std::optional<HttpError> error_;
};

}  // namespace cheetah
