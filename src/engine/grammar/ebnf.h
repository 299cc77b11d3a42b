// SPDX-License-Identifier: MIT
#pragma once
#include <string_view>

#include "engine/grammar/grammar_tree.h"

namespace cheetah {

// Reads a grammar in the notation llama.cpp made common (GBNF): `name ::= …`, "text", [a-z], ( ), |, * + ?
// {m,n},
// `.` for any character, # for comments. Its root is the rule called "root". Throws Error with the line.
void parse_ebnf(std::string_view text, GrammarTree& tree);

}  // namespace cheetah
