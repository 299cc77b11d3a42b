// SPDX-License-Identifier: MIT
#pragma once
// What the text of an answer must look like: response_format and the extras that servers of this kind share.
#include <memory>
#include <string>

#include "serve/api/endpoint.h"
#include "serve/api/fields.h"

namespace cheetah {

// response_format, json_schema, grammar, structured_outputs, guided_*: at most one of them. nullptr: any
// text.
std::shared_ptr<const GrammarProgram> read_constraint(Fields& fields, const ApiServices& services);
// A schema from the field `param`.
std::shared_ptr<const GrammarProgram> schema_constraint(
    const OrderedJson& schema, const std::string& param, const ApiServices& services);
// {type: text | json_object | json_schema …} as chat and responses write it; nullptr: any text.
std::shared_ptr<const GrammarProgram> format_constraint(
    const OrderedJson& wanted, const std::string& path, const ApiServices& services);
// Compiles, turning what the compiler refuses into an error about `param`.
std::shared_ptr<const GrammarProgram> compiled(
    const std::string& param, const std::function<std::shared_ptr<const GrammarProgram>()>& compile);

}  // namespace cheetah
