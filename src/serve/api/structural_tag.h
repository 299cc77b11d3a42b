// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>

#include "serve/api/body.h"
#include "serve/api/endpoint.h"

namespace cheetah {

class GrammarProgram;  // engine/grammar/grammar.h

// Free text in which tags open and close, what stands in a tag following its schema. Both forms that vLLM takes:
// {"structures": [{"begin", "schema", "end"}], "triggers": [...]} and {"format": {"type": "triggered_tags", …}}.
std::shared_ptr<const GrammarProgram> structural_tag_constraint(
    const OrderedJson& wanted, const std::string& path, const ApiServices& services);

}  // namespace cheetah
