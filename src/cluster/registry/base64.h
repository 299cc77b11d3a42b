#pragma once
// Bytes as text, the way etcd's JSON carries keys and values.
#include <optional>
#include <string>
#include <string_view>

namespace cheetah::cluster {

std::string base64_of(std::string_view bytes);
// nullopt: not base64, or without its padding.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace cheetah::cluster
