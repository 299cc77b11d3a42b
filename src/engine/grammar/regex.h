// SPDX-License-Identifier: MIT
#pragma once
#include <string_view>

#include "engine/grammar/grammar_tree.h"

namespace cheetah {

struct RegexOptions {
  // Match the decoded content of a JSON string: characters that need an escape there are written with it.
  bool in_json_string = false;
  // JSON Schema's `pattern` may match anywhere in the string; a regex of its own must match the whole text.
  bool search = false;
};

// The linear-time subset of the common syntax: classes, groups, alternatives, counted repetition, anchors at
// the ends of the alternatives, \d \w \s and \p{…}. Throws Error naming what is not supported and its byte.
ExprId parse_regex(std::string_view regex, GrammarTree& tree, const RegexOptions& options);

}  // namespace cheetah
