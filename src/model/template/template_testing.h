// SPDX-License-Identifier: MIT
#pragma once
// Shorthand for the tests of this folder.
#include <string>
#include <string_view>

#include "base/error.h"
#include "model/template/chat_template.h"

namespace cheetah::testing {

inline std::string render(std::string_view source, std::string_view variables = "{}") {
  return ChatTemplate(source, "test").render(variables, 0);
}

// The message of the error, or the text when there was none.
inline std::string error_of(std::string_view source, std::string_view variables = "{}") {
  try {
    return "no error: " + render(source, variables);
  } catch (const Error& problem) {
    return problem.what();
  }
}

}  // namespace cheetah::testing
