// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string_view>

#include "engine/grammar/grammar_tree.h"

namespace cheetah {

// The content of a JSON string that matches `pattern` (JSON Schema's: anywhere in the string unless anchored)
// and has min to max characters. Throws Error as parse_regex does.
ExprId bounded_json_pattern(std::string_view pattern, int64_t min, int64_t max, GrammarTree& tree);

}  // namespace cheetah
