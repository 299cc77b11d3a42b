// SPDX-License-Identifier: MIT
#pragma once
// Seals what a node sends its peers through others, as jobs go through the queue: a node's key is drawn at its
// start and told to those alone that have a link to it. Any thread may use it.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/published.h"
#include "cluster/net/crypto.h"
#include "cluster/types.h"

namespace cheetah::cluster {

class LinkKeys {
 public:
  explicit LinkKeys(WorkerId self) : self_(self) { learn(self, own_); }

  const Digest& own() const { return own_; }
  // Kept when the link goes: what the peer has sealed may still come.
  void learn(WorkerId peer, const Digest& key) {
    keys_.with([&](auto& keys) {
      if (keys.size() >= kMostPeers && !keys.contains(peer))
        keys.erase(keys.begin()->first == self_ ? std::next(keys.begin()) : keys.begin());
      keys[peer] = key;
    });
  }

  std::string seal(std::string_view text) const {
    const auto id = static_cast<uint64_t>(self_);
    std::string sealed(reinterpret_cast<const char*>(&id), sizeof id);
    return sealed + seal_text(own_, sealed, text);
  }
  // nullopt: sealed by a node that this one has no link to, or changed on its way.
  std::optional<std::string> open(std::string_view sealed) const {
    uint64_t id = 0;
    if (sealed.size() < sizeof id) return std::nullopt;
    std::copy_n(sealed.data(), sizeof id, reinterpret_cast<char*>(&id));
    const auto key = keys_.with([&](const auto& keys) {
      const auto found = keys.find(WorkerId{id});
      return found == keys.end() ? std::optional<Digest>() : found->second;
    });
    if (!key) return std::nullopt;
    return open_text(*key, sealed.substr(0, sizeof id), sealed.substr(sizeof id));
  }

 private:
  static constexpr size_t kMostPeers = 4096;
  const WorkerId self_;
  const Digest own_ = random_nonce();
  mutable Published<std::map<WorkerId, Digest>> keys_;
};

}  // namespace cheetah::cluster
