// SPDX-License-Identifier: MIT
#pragma once
// What the grammar tests share: vocabularies, plain questions to a program, random walks under the mask.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/random.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/utf8.h"

namespace cheetah {

using Vocabulary = GrammarProgram::Vocabulary;

// Id 0 ends the text; then every byte, then some longer tokens.
inline Vocabulary byte_vocabulary(const std::vector<std::string>& longer = {}) {
  std::vector<std::string> tokens = {""};
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  tokens.insert(tokens.end(), longer.begin(), longer.end());
  return std::make_shared<TokenVocabulary>(std::move(tokens), std::vector<int32_t>{0});
}

// The tokens of the small model that comes with the project: byte-level BPE, 4096 of them.
inline Vocabulary model_vocabulary() {
  const Json file = read_json_file(CHEETAH_SOURCE_DIR "/models/cub-7m/tokenizer.json");
  // Byte-level BPE writes bytes that are not printable as characters from U+0100 on, in order.
  std::map<uint32_t, char> byte_of;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable_byte = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    byte_of[printable_byte ? byte : next++] = static_cast<char>(byte);
  }
  std::vector<std::string> tokens;
  for (const auto& [text, id] : file["model"]["vocab"].items()) {
    std::string bytes;
    for (size_t i = 0; i < text.size();) {
      const auto known = byte_of.find(read_utf8(text, i, "token"));
      if (known != byte_of.end()) bytes.push_back(known->second);
    }
    if (tokens.size() <= id.get<size_t>()) tokens.resize(id.get<size_t>() + 1);
    tokens[id.get<size_t>()] = bytes;
  }
  for (const Json& special : file["added_tokens"]) tokens[special["id"].get<size_t>()].clear();
  return std::make_shared<TokenVocabulary>(std::move(tokens), std::vector<int32_t>{0});
}

inline bool is_prefix(const GrammarState& start, std::string_view text) {
  GrammarState state = start;
  return state.accept_bytes(text);
}

inline bool matches(const GrammarState& start, std::string_view text) {
  GrammarState state = start;
  return state.accept_bytes(text) && state.is_complete();
}

inline bool matches(const std::shared_ptr<const GrammarProgram>& program, std::string_view text) {
  return matches(GrammarState(program), text);
}

inline std::vector<uint64_t> mask_of(GrammarState& state, const TokenVocabulary& vocabulary) {
  std::vector<uint64_t> words(vocabulary.mask_words());
  state.fill_mask(words);
  return words;
}

inline bool allows(const std::vector<uint64_t>& words, int32_t id) {
  return words[static_cast<size_t>(id) / 64] >> (id % 64) & 1;
}

struct Walk {
  std::vector<int32_t> tokens;  // without the end-of-text token
  std::string text;
  bool finished = false;
};

// Draws tokens from the mask; after `free_tokens` of them it takes the shortest ways out it sees.
inline Walk random_walk(
    GrammarState state, const TokenVocabulary& vocabulary, uint64_t seed, int free_tokens) {
  Philox random(seed);
  Walk walk;
  for (int step = 0; step < free_tokens + 3000; ++step) {
    const std::vector<uint64_t> words = mask_of(state, vocabulary);
    std::vector<int32_t> allowed;
    for (int32_t id = 0; id < vocabulary.size(); ++id)
      if (allows(words, id)) allowed.push_back(id);
    if (allowed.empty()) return walk;
    int32_t pick = allowed[random.next_u32() % allowed.size()];
    if (step > free_tokens)
      for (const char wanted : {']', '}', '"', '\0'})
        for (const int32_t id : allowed)
          if (wanted == '\0' ? vocabulary.is_eos(id) : vocabulary.bytes(id) == std::string_view(&wanted, 1))
            pick = id;
    if (!state.accept(pick)) return walk;
    if (state.has_ended()) {
      walk.finished = true;
      return walk;
    }
    walk.tokens.push_back(pick);
    walk.text += vocabulary.bytes(pick);
  }
  return walk;
}

}  // namespace cheetah
