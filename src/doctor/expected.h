// SPDX-License-Identifier: MIT
#pragma once
// A site's own profile of a machine: what each of its hosts should have. Made from a good one.
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cheetah::doctor {

struct Facts;

// What is expected, by the names of diff.h's inventory; several values: any of them is right.
using Expected = std::map<std::string, std::vector<std::string>>;

std::string baseline_text(const Facts& facts, const std::string& made_of);
// Throws Error when it is no such file.
Expected parse_expected(std::string_view text, const std::string& what);

}  // namespace cheetah::doctor
