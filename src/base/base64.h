// SPDX-License-Identifier: MIT
#pragma once
// Base64 of RFC 4648, with padding.
#include <optional>
#include <string>
#include <string_view>

namespace cheetah {

std::string base64_of(std::string_view bytes);
// nullopt: not base64, or without its padding.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace cheetah
