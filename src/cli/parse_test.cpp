// SPDX-License-Identifier: MIT
#include "cli/parse.h"

#include <gtest/gtest.h>

namespace cheetah {
namespace {

TEST(NearestName, FindsWhatWasMeant) {
  const std::vector<std::string> names = {"generate", "chat", "verify", "inspect", "tokenize"};
  EXPECT_EQ(nearest_name("tokenise", names), "tokenize");
  EXPECT_EQ(nearest_name("verfiy", names), "verify");
  EXPECT_EQ(nearest_name("gen", names), "");
  EXPECT_EQ(nearest_name("quantize", names), "");
}

TEST(NearestName, PrefersTheFewestEdits) {
  EXPECT_EQ(nearest_name("--prot", {"--prompt", "--port", "--top-p"}), "--port");
  EXPECT_EQ(nearest_name("--anything", {}), "");
}

}  // namespace
}  // namespace cheetah
