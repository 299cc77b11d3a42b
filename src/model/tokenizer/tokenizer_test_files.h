// SPDX-License-Identifier: MIT
#pragma once
// Small tokenizers for tests.
#include <string>

#include "base/json.h"
#include "model/tokenizer/byte_alphabet.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/unicode.h"

namespace cheetah::test {

// Byte-level BPE with all bytes (byte b has id b) and the given merges (ids from 256 on).
inline Json byte_level_json(const std::vector<std::pair<std::string, std::string>>& merges) {
  Json vocab = Json::object(), list = Json::array();
  for (int byte = 0; byte < 256; ++byte) {
    std::string token;
    append_utf8(token, byte_to_char(static_cast<uint8_t>(byte)));
    vocab[token] = byte;
  }
  for (const auto& [left, right] : merges) {
    if (!vocab.contains(left + right)) vocab[left + right] = vocab.size();
    list.push_back(Json::array({left, right}));
  }
  return {{"version", "1.0"}, {"added_tokens", Json::array()},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"decoder", {{"type", "ByteLevel"}}}, {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", list}}}};
}

// SentencePiece-style BPE: U+2581 for spaces, byte fallback where wanted.
inline Json metaspace_json(const Json& vocab, const Json& merges, bool byte_fallback) {
  Json full = vocab;
  for (int byte = 0; byte_fallback && byte < 256; ++byte)
    full[byte_fallback_token(static_cast<uint8_t>(byte))] = 1000 + byte;
  const Json space = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}};
  const Json back = {{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}};
  const Json strip = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
  return {{"version", "1.0"},
      {"normalizer",
          {{"type", "Sequence"}, {"normalizers", {{{"type", "Prepend"}, {"prepend", "\u2581"}}, space}}}},
      {"decoder", {{"type", "Sequence"},
                      {"decoders", {back, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}, strip}}}},
      {"model", {{"type", "BPE"}, {"unk_token", "<unk>"}, {"fuse_unk", true},
                    {"byte_fallback", byte_fallback}, {"vocab", full}, {"merges", merges}}}};
}

// A tokenizer whose model only looks pieces up, for tests of what comes before and after the model.
inline Json word_level_json(const std::vector<std::string>& words) {
  Json vocab = {{"<unk>", 0}};
  for (const std::string& word : words) vocab[word] = vocab.size();
  return {{"version", "1.0"}, {"model", {{"type", "WordLevel"}, {"vocab", vocab}, {"unk_token", "<unk>"}}}};
}

inline std::unique_ptr<Tokenizer> load(const Json& json) {
  return Tokenizer::from_json(dump_json(json), "test.json");
}

using Ids = std::vector<int32_t>;

inline std::string stream_all(const Tokenizer& tokenizer, const Ids& ids, bool skip_special) {
  StreamDecoder decoder(tokenizer, skip_special);
  std::string text;
  for (const int32_t id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

}  // namespace cheetah::test
