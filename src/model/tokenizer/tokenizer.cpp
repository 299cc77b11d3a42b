// SPDX-License-Identifier: MIT
#include "model/tokenizer/tokenizer.h"

#include "base/mapped_file.h"
#include "model/tokenizer/decoder.h"

namespace cheetah {

std::unique_ptr<Tokenizer> Tokenizer::from_json_file(const std::string& path) {
  const MappedFile file = MappedFile::open(path);
  return from_json(file.text(), path);
}

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
    : tokenizer_(tokenizer), skip_special_(skip_special), chain_(tokenizer.start_decoding()) {}
StreamDecoder::~StreamDecoder() = default;
StreamDecoder::StreamDecoder(StreamDecoder&&) noexcept = default;

std::string StreamDecoder::push(int32_t id) {
  const auto token = tokenizer_.decoded_token(id, skip_special_);
  if (!token) return {};
  chain_->push(*token);
  return chain_->take();
}

std::string StreamDecoder::finish() {
  chain_->finish();
  return chain_->take();
}

}  // namespace cheetah
