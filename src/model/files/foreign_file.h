// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cheetah {

// What people hand us by mistake: recognises the content (or name) of a file that is not a model we can open,
// and says in one sentence what it is and what to do. nullopt: nothing known.
std::optional<std::string> describe_foreign_file(std::span<const std::byte> bytes, std::string_view path);

}  // namespace cheetah
