// SPDX-License-Identifier: MIT
// The first byte picks the language, the rest is the grammar. What compiles must survive a walk under its
// masks.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "engine/grammar/grammar.h"

namespace cheetah {
namespace {

GrammarProgram::Vocabulary fuzz_vocabulary() {
  std::vector<std::string> tokens = {""};
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* longer : {"ab", "aaaa", "\",\"", "\":", "{\"", "}]", "\xE2\x82", "\xAC\""})
    tokens.emplace_back(longer);
  return std::make_shared<TokenVocabulary>(std::move(tokens), std::vector<int32_t>{0});
}

std::shared_ptr<const GrammarProgram> compile(uint8_t language, std::string_view text) {
  static const GrammarProgram::Vocabulary kVocabulary = fuzz_vocabulary();
  GrammarLimits limits;
  limits.max_states = 20'000;
  limits.max_steps = 500'000;
  switch (language % 3) {
    case 0:
      return GrammarProgram::from_regex(text, kVocabulary, limits);
    case 1:
      return GrammarProgram::from_ebnf(text, kVocabulary, limits);
    default:
      return GrammarProgram::from_json_schema(text, kVocabulary, limits);
  }
}

void walk(const std::shared_ptr<const GrammarProgram>& program, uint32_t draw) {
  const TokenVocabulary& vocabulary = program->vocabulary();
  GrammarState state(program);
  std::vector<uint64_t> words(vocabulary.mask_words());
  for (int step = 0; step < 12 && !state.has_ended(); ++step) {
    state.fill_mask(words);
    std::vector<int32_t> allowed;
    for (int32_t id = 0; id < vocabulary.size(); ++id) {
      GrammarState copy = state;
      const bool in_mask = words[static_cast<size_t>(id) / 64] >> (id % 64) & 1;
      if (in_mask) CHEETAH_ASSERT(copy.accept(id), "the mask allows only what is accepted");
      if (in_mask) allowed.push_back(id);
    }
    CHEETAH_ASSERT(allowed.empty() == state.is_dead_end(), "a dead end is an empty mask");
    if (allowed.empty()) return;
    draw = draw * 1664525 + 1013904223;
    state.accept(allowed[(draw >> 8) % allowed.size()]);
  }
}

}  // namespace
}  // namespace cheetah

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1 || size > 4096) return 0;
  try {
    const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
    cheetah::walk(cheetah::compile(data[0], text), static_cast<uint32_t>(size) * 2654435761u);
  } catch (const cheetah::Error&) {
    // Refusing a grammar is an answer.
  }
  return 0;
}
