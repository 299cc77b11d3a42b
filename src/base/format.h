// SPDX-License-Identifier: MIT
#pragma once
// libstdc++ 12 has no <format>: fmt stands in under one name.
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cheetah {
using fmt::format;
}  // namespace cheetah
