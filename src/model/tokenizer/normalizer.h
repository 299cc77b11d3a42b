// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>

#include "base/json.h"

namespace cheetah {

// A text on its way through the normalizers.
struct NormalText {
  std::string text;
  bool at_start = true;  // its first character still comes from where the input begins
};

// Rewrites text before it is cut. Immutable after loading, any thread.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(NormalText& text) const = 0;
};

// From the "normalizer" of a tokenizer.json.
std::unique_ptr<Normalizer> make_normalizer(const Json& description, const std::string& name);

// The tables SentencePiece compiles its normalization into, from their base64 text.
std::unique_ptr<Normalizer> make_precompiled(const std::string& base64, const std::string& name);
// The same from the table itself (empty: none), followed by the steps of a JSON list.
std::unique_ptr<Normalizer> make_charsmap_normalizer(
    std::string_view table, const Json& then, const std::string& name);
std::unique_ptr<Normalizer> make_precompiled_table(std::string_view table, const std::string& name);
std::unique_ptr<Normalizer> make_bert_normalizer(const JsonFields& fields);

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };
std::string to_form(std::string_view valid_utf8, UnicodeForm form);

}  // namespace cheetah
