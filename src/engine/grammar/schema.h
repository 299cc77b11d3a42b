// SPDX-License-Identifier: MIT
#pragma once
#include <string_view>

#include "engine/grammar/grammar_tree.h"

namespace cheetah {

// The JSON values a JSON Schema allows, as an expression. Accepts the keywords of draft 2020-12 that describe
// the shape of a value (see schema_compiler.h) and throws Error with keyword and JSON pointer for any other:
// an answer that was promised to fit a schema must fit all of it.
ExprId compile_json_schema(std::string_view schema, GrammarTree& tree);

}  // namespace cheetah
