// SPDX-License-Identifier: MIT
#pragma once
// A slab as it crosses a network: AES-256-GCM under keys that only the two ends of an authenticated session
// know. Its notice is sealed too and tells the receiver where the slab belongs and how to open it.
#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "cluster/net/session.h"
#include "cluster/transfer/transport.h"

namespace cheetah::cluster::transfer {

// Of one session, shared by the threads that seal and open its slabs.
struct PageKeys {
  PageKeys(const Session& session, bool dials);
  Digest mine, theirs;               // what we send is sealed under ours
  std::atomic<uint64_t> sealed = 0;  // slabs so far: no pair of key and nonce comes twice
};

// Gathers, sums and seals in one pass.
SealedSlab seal_slab(const PushOrder& order, PageKeys& keys);

// What a header says, once it has been opened. Throws Error.
struct OpenedNotice {
  SlabNotice notice;
  SlabSeal seal;
};
OpenedNotice open_notice(std::string_view header, const std::shared_ptr<const PageKeys>& keys);

// Opens the slab where it landed. False: it is not what was sent.
bool open_slab(const SlabSeal& seal, const SlabNotice& notice, const ArenaView& arena);

}  // namespace cheetah::cluster::transfer
