// SPDX-License-Identifier: MIT
#include "model/dry_breakers.h"

#include <gtest/gtest.h>

namespace cheetah {
namespace {

std::unique_ptr<Tokenizer> small_tokenizer() {
  return Tokenizer::from_json_file(std::string(CHEETAH_SOURCE_DIR) + "/models/cub-1m/tokenizer.json");
}

// Tokens after the last breaker of the text.
int64_t after_last(const std::vector<std::string>& breakers, std::string_view text) {
  const auto tokenizer = small_tokenizer();
  const auto made = make_dry_breakers(*tokenizer, breakers);
  return made->length_after_last(tokenizer->encode(text, {.add_special = false, .parse_special = false}));
}

int64_t count(std::string_view text) {
  return std::ssize(small_tokenizer()->encode(text, {.add_special = false, .parse_special = false}));
}

TEST(DryBreakers, EndWhereTheirTextEnds) {
  EXPECT_EQ(after_last({"\n"}, "One day.\nTom ran"), count("Tom ran"));
  EXPECT_EQ(after_last({"\n"}, "One day. Tom ran"), count("One day. Tom ran"));
  EXPECT_EQ(after_last(kDryBreakers, "She said: yes"), count(" yes"));
}

TEST(DryBreakers, MayStandAcrossTokens) {
  EXPECT_EQ(after_last({"One day. Tom"}, "So One day. Tom ran away"), count(" ran away"));
  EXPECT_EQ(after_last({"One day. Tim"}, "So One day. Tom ran away"), count("So One day. Tom ran away"));
}

}  // namespace
}  // namespace cheetah
