// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace cheetah {

// Cuts one pre-tokenized piece into tokens. Immutable after loading, any thread.
class SubwordModel {
 public:
  virtual ~SubwordModel() = default;
  // Appends the ids of a piece that is not empty.
  virtual void tokenize(std::string_view piece, std::vector<int32_t>& ids) const = 0;
};

}  // namespace cheetah
