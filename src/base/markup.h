// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <string_view>

namespace cheetah {

// Text as content or as an attribute in double quotes of XML and HTML.
std::string escape_markup(std::string_view text);

}  // namespace cheetah
