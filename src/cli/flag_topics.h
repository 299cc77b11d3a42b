// SPDX-License-Identifier: MIT
#pragma once
#include <string>

namespace cheetah {

// The heading of the help page under which a command's flag stands; "Flags" for one without a topic of its own.
std::string topic_of(const std::string& command, const std::string& flag);
// Headings come in this order.
int topic_order(const std::string& topic);

}  // namespace cheetah
