// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "model/tokenizer/bpe.h"

namespace cheetah {

// A tokenizer.json as read: the vocabulary and the merges as flat lists (hundreds of thousands of entries,
// for which a tree of JSON values would take most of the load time), everything else as JSON.
struct TokenizerFile {
  Json root;                                           // "model" without "vocab" and "merges"
  std::vector<std::pair<std::string, int64_t>> vocab;  // {"token": id}
  std::vector<std::pair<std::string, double>> scored;  // [["token", score], …]: the index is the id
  MergeList merges;                                    // "a b" or ["a", "b"]
  bool has_vocab = false, has_scored = false, has_merges = false;
};

// Throws Error, prefixed with `name`, on broken JSON and on lists that are not of those forms.
TokenizerFile read_tokenizer_file(std::string_view json, const std::string& name);

}  // namespace cheetah
