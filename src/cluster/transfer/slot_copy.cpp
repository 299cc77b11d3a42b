// SPDX-License-Identifier: MIT
#include "cluster/transfer/slot_copy.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "cluster/transfer/checksum.h"
#include "cluster/transfer/device_arena.h"

namespace cheetah::cluster::transfer {
namespace {

// Small enough to notice a cancellation soon; device copies are started one by one and like to be larger.
constexpr size_t kHostChunk = size_t{256} << 10;
constexpr size_t kDeviceChunk = size_t{8} << 20;

}  // namespace

void copy_bytes(std::byte* to, MemoryKind to_kind, std::span<const std::byte> from, MemoryKind from_kind) {
  if (from.empty()) return;
  if (to_kind == MemoryKind::kHost && from_kind == MemoryKind::kHost)
    std::memcpy(to, from.data(), from.size());
  else
    copy_device_bytes(to, from);
}

const char* why_not(WriteResult result) {
  switch (result) {
    case WriteResult::kLanded:
      return "";
    case WriteResult::kRefused:
      return "transfer: the reservation is no longer open for this ticket";
    case WriteResult::kUnwanted:
      return "transfer: the receiver gave the reservation up";
    case WriteResult::kCancelled:
      return "transfer: cancelled";
  }
  return "";
}

Written write_slab(const PushOrder& order, const ArenaView& arena, WriterNumber writer,
    const std::function<void()>& midway) {
  const auto [slot, generation] = order.slot;
  const SlotWords& words = arena.words;
  if (slot >= words.size() || order.bytes > arena.slot_bytes) return {WriteResult::kRefused};
  if (!words.begin_write(slot, generation, writer)) return {WriteResult::kRefused};
  const bool on_host = order.kind == MemoryKind::kHost && arena.kind == MemoryKind::kHost;
  const size_t most = on_host ? kHostChunk : kDeviceChunk;
  Checksum sum;
  std::byte* to = arena.slot(slot);
  for (std::span<const std::byte> piece : order.pieces) {
    while (!piece.empty()) {
      if (order.cancelled->load(std::memory_order_relaxed)) {
        words.abandon_write(slot, generation, writer);
        return {WriteResult::kCancelled};
      }
      if (!words.wanted(slot, generation, writer)) {
        words.abandon_write(slot, generation, writer);
        return {WriteResult::kUnwanted};
      }
      const auto chunk = piece.first(std::min(most, piece.size()));
      try {
        if (on_host)
          sum.update_and_copy(chunk, to);
        else
          copy_bytes(to, arena.kind, chunk, order.kind);
      } catch (const Error&) {
        words.abandon_write(slot, generation, writer);
        throw;
      }
      if (midway && to == arena.slot(slot)) midway();
      to += chunk.size();
      piece = piece.subspan(chunk.size());
    }
  }
  if (!words.finish_write(slot, generation, writer)) return {WriteResult::kUnwanted};
  return {WriteResult::kLanded, on_host ? sum.value() : 0};
}

bool is_intact(const SlabNotice& notice, const ArenaView& arena) {
  // Bytes that never left the device are not summed: its memory and its copies are under ECC.
  return arena.kind == MemoryKind::kDevice ||
         notice.checksum == checksum(arena.bytes(notice.slot, notice.bytes));
}

}  // namespace cheetah::cluster::transfer
