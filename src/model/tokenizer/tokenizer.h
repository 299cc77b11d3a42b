// SPDX-License-Identifier: MIT
#pragma once
// Text to token ids and back, from a tokenizer.json or a GGUF vocabulary. Immutable after loading; any thread
// may use it.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/files/gguf.h"

namespace cheetah {

class DecodeChain;

struct EncodeOptions {
  bool add_special = false;  // the post-processor's prefix and suffix (BOS, [CLS] …)
  bool parse_special =
      true;  // special tokens written in the text become their ids; off for untrusted content
};

class Tokenizer {
 public:
  // A tokenizer.json; `name` is used in messages.
  static std::unique_ptr<Tokenizer> from_json(std::string_view tokenizer_json, const std::string& name);
  static std::unique_ptr<Tokenizer> from_json_file(const std::string& path);
  // tokenizer.ggml.*; throws Error for an unknown model or pre-tokenizer name.
  static std::unique_ptr<Tokenizer> from_gguf(const GgufFile& file);
  virtual ~Tokenizer() = default;

  virtual std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options) const = 0;
  virtual std::string decode(std::span<const int32_t> ids, bool skip_special) const = 0;

  virtual int64_t vocab_size() const = 0;  // highest id + 1
  virtual std::optional<int32_t> id_of(std::string_view token) const = 0;
  virtual std::string_view token_text(int32_t id) const = 0;  // as stored; empty for an id that is not there
  virtual bool is_special(int32_t id) const = 0;

  // The way from tokens to text for one growing sequence, starting at its beginning.
  virtual std::unique_ptr<DecodeChain> start_decoding() const = 0;
  // What a token adds to the decoder's input: nullopt for an id that is not there (or special and skipped).
  virtual std::optional<std::string_view> decoded_token(int32_t id, bool skip_special) const = 0;
};

// Text of a growing id sequence, piece by piece. Holds back bytes until they form whole characters, so what
// it gives is always valid UTF-8, and the pieces joined equal decode() of the whole.
class StreamDecoder {
 public:
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special);
  ~StreamDecoder();
  StreamDecoder(StreamDecoder&&) noexcept;
  std::string push(int32_t id);
  std::string finish();  // what is still held back, with U+FFFD for incomplete characters

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_;
  std::unique_ptr<DecodeChain> chain_;  // holds the little that may still change
};

}  // namespace cheetah
