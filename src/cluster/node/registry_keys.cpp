// SPDX-License-Identifier: MIT
#include "cluster/node/registry_keys.h"

#include <charconv>

#include "cluster/registry/keys.h"

namespace cheetah::cluster {
namespace {

template <class Number>
std::optional<Number> number_in(std::string_view text, int base) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<WorkerId> worker_in_key(std::string_view key) {
  if (!key.starts_with(kWorkersPrefix) || key.size() != kWorkersPrefix.size() + 16) return std::nullopt;
  const auto id = number_in<uint64_t>(key.substr(kWorkersPrefix.size()), 16);
  if (!id) return std::nullopt;
  return WorkerId{*id};
}

std::optional<PeerAddress> peer_address(std::string_view key) {
  const size_t colon = key.rfind(':');
  if (!key.starts_with(kPeersPrefix) || colon == std::string_view::npos) return std::nullopt;
  const auto port = number_in<uint16_t>(key.substr(colon + 1), 10);
  if (!port) return std::nullopt;
  std::string host(key.substr(kPeersPrefix.size(), colon - kPeersPrefix.size()));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return PeerAddress{host, *port};
}

}  // namespace cheetah::cluster
