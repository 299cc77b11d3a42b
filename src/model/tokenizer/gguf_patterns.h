// SPDX-License-Identifier: MIT
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cheetah {

// What the name in tokenizer.ggml.pre stands for.
struct GgufPreTokenizer {
  std::vector<std::string> patterns;  // applied one after another, each cutting the pieces of the one before
  bool ignore_merges = false;
  bool add_bos = false;    // unless the file says otherwise
  bool metaspace = false;  // spaces become U+2581 and the vocabulary is plain text, not GPT-2's bytes
};

// nullopt for an unknown name.
std::optional<GgufPreTokenizer> gguf_pre_tokenizer(std::string_view name);

}  // namespace cheetah
