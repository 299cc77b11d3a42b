// SPDX-License-Identifier: MIT
#include "engine/grammar/synthetic_vocabulary.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/random.h"
#include "engine/grammar/utf8.h"

namespace cheetah {

std::shared_ptr<const TokenVocabulary> make_synthetic_vocabulary(size_t num_tokens) {
  CHEETAH_ASSERT(num_tokens >= 512, "every byte is a token, and there are words");
  Philox random(1);
  const auto below = [&](uint32_t n) { return random.next_u32() % n; };
  std::set<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace(1, static_cast<char>(byte));
  constexpr std::string_view kLetters = "etaoinshrdlucmfwypvbgkjqxz",
                             kMarks = "{}[]():;,.\"'\\/<>=+-*&|!?#$%@_ \n\t";
  while (tokens.size() < num_tokens - 1) {
    const uint32_t kind = below(100);
    std::string token;
    if (kind < 50 || kind >= 80) token.assign(below(2), ' ');
    if (kind < 80) {
      for (uint32_t i = 0, n = 2 + below(4) + below(5); i < n; ++i)
        token += kLetters[std::min(below(26), below(26))];
      if (kind >= 60 && kind < 70) token[0] = static_cast<char>(token[0] & ~0x20);
    } else if (kind < 84) {
      for (uint32_t i = 0, n = 1 + below(3); i < n; ++i) token += static_cast<char>('0' + below(10));
    } else if (kind < 90) {
      for (uint32_t i = 0, n = 1 + below(4); i < n; ++i) token += kMarks[below(kMarks.size())];
    } else {
      const uint32_t script = below(3) == 0 ? 0x4E00 : below(2) ? 0x0430 : 0x3040;
      for (uint32_t i = 0, n = 1 + below(4); i < n; ++i)
        append_utf8(token, script + below(script == 0x4E00 ? 5000 : 40));
    }
    tokens.insert(token);
  }
  std::vector<std::string> list(tokens.begin(), tokens.end());
  list.insert(list.begin(), "");
  return std::make_shared<TokenVocabulary>(std::move(list), std::vector<int32_t>{0});
}

}  // namespace cheetah
