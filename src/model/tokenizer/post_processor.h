// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace cheetah {

// Puts special tokens around the ids of a text (BOS, [CLS] … [SEP]). Immutable after loading, any thread.
class PostProcessor {
 public:
  PostProcessor() = default;
  // From the "post_processor" of a tokenizer.json.
  PostProcessor(const Json& description, const std::string& name);
  PostProcessor(std::vector<int32_t> prefix, std::vector<int32_t> suffix);

  std::vector<int32_t> apply(std::vector<int32_t> ids, bool add_special) const;

 private:
  // The text itself, or tokens.
  struct Part {
    bool is_text;
    std::vector<int32_t> ids;
  };
  using Template = std::vector<Part>;
  void add(const Json& description, int depth, const std::string& name);
  void add_template(const JsonFields& fields);
  void add_pair(const JsonFields& fields);
  std::vector<Template> templates_;  // applied one after another
};

}  // namespace cheetah
