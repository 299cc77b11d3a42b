// SPDX-License-Identifier: MIT
#include "model/tokenizer/byte_trie.h"

namespace cheetah {

void ByteTrie::insert(std::string_view key, int32_t value) {
  int32_t node = kRoot;
  for (const char byte : key) {
    int32_t next = step(node, byte);
    if (next == kNone) {
      next = static_cast<int32_t>(values_.size());
      values_.push_back(kNone);
      edges_.insert(node, static_cast<unsigned char>(byte), {0, next});
    }
    node = next;
  }
  values_[static_cast<size_t>(node)] = value;
}

}  // namespace cheetah
