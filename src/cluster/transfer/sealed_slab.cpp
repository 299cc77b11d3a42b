// SPDX-License-Identifier: MIT
#include "cluster/transfer/sealed_slab.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "cluster/transfer/checksum.h"

namespace cheetah::cluster::transfer {
namespace {

// Summed while it is in the cache.
constexpr size_t kChunk = size_t{64} << 10;
constexpr size_t kHeaderStart =
    sizeof(uint64_t) + kSealTagBytes;  // count and tag of the slab; then the notice
enum class Part : uint32_t { kSlab = 0, kNotice = 1 };

SealNonce nonce_of(uint64_t count, Part part) {
  SealNonce nonce;
  std::memcpy(nonce.data(), &count, sizeof count);
  std::memcpy(nonce.data() + sizeof count, &part, sizeof part);
  return nonce;
}

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
std::byte* bytes_at(std::string& text, size_t at) { return reinterpret_cast<std::byte*>(text.data()) + at; }

template <class Visit>
void each_chunk(std::span<const std::byte> bytes, Visit&& visit) {
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(kChunk, bytes.size())))
    visit(bytes.first(std::min(kChunk, bytes.size())));
}

}  // namespace

PageKeys::PageKeys(const Session& session, bool dials)
    : mine(session.derive_key(dials ? "EXPORTER-cheetah-pages-dialer" : "EXPORTER-cheetah-pages-listener")),
      theirs(
          session.derive_key(dials ? "EXPORTER-cheetah-pages-listener" : "EXPORTER-cheetah-pages-dialer")) {}

SealedSlab seal_slab(const PushOrder& order, PageKeys& keys) {
  const uint64_t count = ++keys.sealed;
  SealedSlab slab;
  slab.bytes = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(order.bytes));
  std::byte* to = slab.bytes.get();
  Checksum sum;
  SealStream stream(keys.mine, nonce_of(count, Part::kSlab), {}, SealStream::Way::kSeal);
  for (const auto& piece : order.pieces)
    each_chunk(piece, [&](std::span<const std::byte> chunk) {
      sum.update(chunk);
      stream.update(chunk, to);
      to += chunk.size();
    });
  const SealTag tag = stream.seal();
  const std::string notice = encode(AgentMessage(
      SlabNotice{order.id, order.slot.slot, order.slot.generation, order.bytes, sum.value(), order.notify}));
  std::string& header = slab.header;
  header.append(reinterpret_cast<const char*>(&count), sizeof count).append(tag.begin(), tag.end());
  const std::string start = header;
  header.resize(kHeaderStart + notice.size());
  const SealTag end = seal_bytes(
      keys.mine, nonce_of(count, Part::kNotice), start, as_bytes(notice), bytes_at(header, kHeaderStart));
  header.append(end.begin(), end.end());
  return slab;
}

OpenedNotice open_notice(std::string_view header, const std::shared_ptr<const PageKeys>& keys) {
  if (header.size() < kHeaderStart + kSealTagBytes)
    throw Error("transfer peer: sent a slab without its notice");
  OpenedNotice opened{.notice = {}, .seal = {.keys = keys}};
  std::memcpy(&opened.seal.count, header.data(), sizeof opened.seal.count);
  std::copy_n(header.begin() + sizeof(uint64_t), kSealTagBytes, opened.seal.tag.begin());
  SealTag end;
  std::copy_n(header.end() - kSealTagBytes, kSealTagBytes, end.begin());
  const std::string_view sealed = header.substr(kHeaderStart, header.size() - kHeaderStart - kSealTagBytes);
  std::string text(sealed.size(), '\0');
  if (!open_bytes(keys->theirs, nonce_of(opened.seal.count, Part::kNotice), header.substr(0, kHeaderStart),
          end, as_bytes(sealed), bytes_at(text, 0)))
    throw Error("transfer peer: a slab's notice was changed on its way");
  const AgentMessage message = parse_agent_message(text);
  const auto* notice = std::get_if<SlabNotice>(&message);
  if (!notice) throw Error("transfer peer: sent a slab without its notice");
  opened.notice = *notice;
  return opened;
}

bool open_slab(const SlabSeal& seal, const SlabNotice& notice, const ArenaView& arena) {
  SealStream stream(seal.keys->theirs, nonce_of(seal.count, Part::kSlab), {}, SealStream::Way::kOpen);
  Checksum sum;
  std::byte* at = arena.slot(notice.slot);
  each_chunk(arena.bytes(notice.slot, notice.bytes), [&](std::span<const std::byte> chunk) {
    stream.update(chunk, at);
    sum.update({at, chunk.size()});
    at += chunk.size();
  });
  return stream.open(seal.tag) && sum.value() == notice.checksum;
}

}  // namespace cheetah::cluster::transfer
