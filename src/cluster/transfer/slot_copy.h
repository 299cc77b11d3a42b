// SPDX-License-Identifier: MIT
#pragma once
// A slab's way into a slot that this process can write to.
#include <optional>

#include "cluster/transfer/transport.h"

namespace cheetah::cluster::transfer {

enum class WriteResult : uint8_t {
  kLanded,
  kRefused,    // the ticket is stale, or another writer has the slot: nothing was written
  kUnwanted,   // the receiver gave up meanwhile: the slot is its own again
  kCancelled,  // we gave up: the slot is open again
};
const char* why_not(WriteResult result);  // one sentence
struct Written {
  WriteResult result{};
  uint64_t checksum = 0;
};
// Gathers the pieces into the slot, a chunk at a time, and looks between chunks whether it is still wanted.
// `midway` (TransferConfig) is called once, after the first.
Written write_slab(
    const PushOrder& order, const ArenaView& arena, WriterNumber writer, const std::function<void()>& midway);

// Whether a landed slab is what its notice says. On the receiver's side, between begin_check and
// finish_check.
bool is_intact(const SlabNotice& notice, const ArenaView& arena);

// Host and device memory alike; returns when the bytes are there.
void copy_bytes(std::byte* to, MemoryKind to_kind, std::span<const std::byte> from, MemoryKind from_kind);

}  // namespace cheetah::cluster::transfer
