#include "cluster/node/page_desk.h"

#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "cluster/transfer/kv_compat.h"
#include "cluster/transfer/slab.h"

namespace cheetah::cluster {

namespace {

// The same key may be exported and answered at the same time only by mistake; still they are two requests.
RequestId export_id(RequestKey key) { return RequestId{~static_cast<uint64_t>(engine_id(key))}; }

}  // namespace

KvDescriptor describe_pages(const KvFormat& format, std::string model) {
  return {.model = std::move(model),
          .dtype = format.dtype,
          .order = format.order,
          .page_tokens = static_cast<int32_t>(format.page_tokens),
          .num_layers = static_cast<int32_t>(format.num_layers),
          .num_kv_heads = static_cast<int32_t>(format.num_kv_heads),
          .key_dim = static_cast<int32_t>(format.key_dim),
          .value_dim = static_cast<int32_t>(format.value_dim),
          .tp_rank = 0,
          .tp_size = 1,
          .windows = format.windows,
          .page_bytes = format.place_bytes()};
}

PageDesk::PageDesk(Setting setting) : setting_(std::move(setting)) {
  setting_.transfer.on_ready(
      [this] { setting_.loop.post([this] { poll(std::chrono::steady_clock::now()); }); });
}

PageDesk::~PageDesk() { setting_.transfer.on_ready({}); }

void PageDesk::poll(Time now) {
  setting_.transfer.poll(now, events_);
  const std::vector<TransferEvent> events = std::exchange(events_, {});
  for (const TransferEvent& event : events) std::visit([this](const auto& what) { on(what); }, event);
}

void PageDesk::peer_lost(WorkerId peer) { setting_.transfer.drop_peer(peer); }

// ---- Receiving ----

void PageDesk::execute(LookUpCache& look) {
  setting_.engine.look_up(
      std::move(look.salt), std::move(look.tokens), [this, key = look.key](int64_t cached) {
        setting_.loop.post([this, key, cached] { setting_.feed(CacheLooked{key, cached}); });
      });
}

// Slots come back a little after the core has freed them: whoever asked meanwhile gets its answer then. The
// core does not wait for longer than it likes.
void PageDesk::execute(const ReserveSpace& reserve) {
  wait_for_space_.push_back(reserve);
  try_reserve();
}

void PageDesk::try_reserve() {
  while (!wait_for_space_.empty()) {
    const ReserveSpace& wanted = wait_for_space_.front();
    const int64_t tokens = wanted.end_token - wanted.first_token;
    const auto slabs = static_cast<uint32_t>((tokens + wanted.slab_tokens - 1) / wanted.slab_tokens);
    const auto reserved = setting_.transfer.reserve(wanted.key, slabs, wanted.deadline);
    if (!reserved) return;
    receiving_[reserved->id] = wanted.end_token;
    setting_.feed(SpaceReserved{.key = wanted.key,
                                .reservation = reserved->id,
                                .memory = pack_memory(setting_.transfer.describe(), reserved->ticket)});
    wait_for_space_.pop_front();
  }
}

void PageDesk::execute(ImportSlab& import) {
  const SlabPosted& slab = import.slab;
  const auto answer = [this, key = import.key, reservation = import.reservation,
                       index = slab.index](const std::string& why_not) {
    setting_.feed(SlabImported{key, reservation, index, why_not.empty(), why_not});
  };
  poll(std::chrono::steady_clock::now());  // its arrival may be there and not yet looked at
  const auto bytes = setting_.transfer.slab(import.reservation, slab.index);
  if (!bytes) return answer("it has not arrived whole");
  try {
    const SlabView view = parse_slab(*bytes);
    const bool right = view.header.uid == static_cast<uint64_t>(import.key.uid) &&
                       view.header.attempt == static_cast<uint32_t>(import.key.attempt) &&
                       view.header.index == slab.index && view.header.first_token == slab.first_token &&
                       view.header.page_tokens == setting_.kv.page_tokens &&
                       view.header.page_bytes == setting_.kv.page_bytes &&
                       view.header.num_pages == pages_of(slab.num_tokens);
    if (!right) return answer("its header is another slab's");
    const int64_t end = receiving_.at(import.reservation);
    setting_.engine.import_pages(
        {.request = engine_id(import.key),
         .salt = std::move(import.salt),
         .tokens = std::move(import.tokens),
         .first_token = slab.first_token,
         .text_tokens = end,
         .last_token = end,
         .bytes = view.pages},
        [this, answer](const KvImported& result) {
          setting_.loop.post([answer, result] { answer(result.imported ? "" : result.why); });
        });
  } catch (const Error& error) {
    answer(error.what());
  }
}

void PageDesk::execute(const Unpin& unpin) { setting_.engine.unpin(engine_id(unpin.key)); }

// From now on nothing new is written there; what is being written ends by itself, or with its writer.
void PageDesk::execute(const Quarantine& quarantine) { setting_.transfer.cancel(quarantine.reservation); }

void PageDesk::execute(const FenceReservation& fence) {
  fences_.insert(fence.reservation);
  setting_.transfer.cancel(fence.reservation);
  bool held = false;
  for (const ReservationStatus& status : setting_.transfer.reservations())
    held |= status.id == fence.reservation;
  if (!held) return on(ReservationFreed{fence.reservation});
  setting_.transfer.drop_peer(fence.writer);
}

void PageDesk::execute(const FreeReservation& free) { setting_.transfer.release(free.reservation); }

void PageDesk::on(const SlabArrived& arrived) {
  ++numbers_.slabs_received;
  numbers_.bytes_received += arrived.bytes;
}

void PageDesk::on(const SlabDamaged&) { ++numbers_.slabs_damaged; }
void PageDesk::on(const ReservationStalled&) { ++numbers_.stalls; }  // the core has timers of its own

void PageDesk::on(const ReservationFreed& freed) {
  receiving_.erase(freed.reservation);
  if (fences_.erase(freed.reservation) > 0) setting_.feed(ReservationFenced{freed.reservation});
  try_reserve();
}

// ---- Sending ----

// A request without output: its events say nothing that its progress does not.
void PageDesk::execute(StartExport& start) {
  const RequestKey key = start.key;
  const RequestId id = export_id(key);
  GenerationRequest request;
  request.id = id;
  request.prompt = std::move(start.tokens);
  request.max_tokens = 0;
  request.cache_salt = std::move(start.salt);
  request.priority = start.priority;
  request.deadline = start.deadline;
  Export& exported = exports_[key];
  exported.id = id;
  const auto progress = [this, key](const KvProgress& made) {
    setting_.loop.post([this, key, made] {
      if (!exports_.contains(key)) return;  // released meanwhile
      setting_.feed(ExportProgress{.key = key,
                                   .tokens_ready = made.tokens_ready,
                                   .finished = made.finished,
                                   .failed = made.failed,
                                   .why = made.why});
    });
  };
  exported.pages = setting_.engine.submit_export(
      std::move(request), [](GenerationEvent&&) {}, start.end_token, progress);
}

void PageDesk::execute(const PostSlab& post) {
  auto sending = std::make_shared<Sending>();
  sending->key = post.key;
  sending->post = post;
  sending->started = std::chrono::steady_clock::now();
  Export& exported = exports_.at(post.key);
  ++exported.open;
  if (const auto match = match_kv(setting_.kv, post.kv); match.verdict != KvCompatibility::kEqual)
    return answer(*sending, false, 0, match.why);
  const int64_t num_pages = pages_of(post.num_tokens);
  sending->bytes.resize(static_cast<size_t>(slab_bytes(num_pages, setting_.kv.page_bytes)));
  SlabHeader header;
  header.uid = static_cast<uint64_t>(post.key.uid);
  header.attempt = static_cast<uint32_t>(post.key.attempt);
  header.index = post.index;
  header.first_token = post.first_token;
  header.page_tokens = setting_.kv.page_tokens;
  header.num_pages = static_cast<int32_t>(num_pages);
  header.page_bytes = setting_.kv.page_bytes;
  std::memcpy(sending->bytes.data(), &header, sizeof header);
  exported.pages->read(
      post.first_token, post.first_token + post.num_tokens, std::span(sending->bytes).subspan(sizeof header),
      [this, sending](bool read) { setting_.loop.post([this, sending, read] { push(sending, read); }); });
}

void PageDesk::push(const std::shared_ptr<Sending>& sending, bool read) {
  const auto found = exports_.find(sending->key);
  if (found == exports_.end()) return;
  if (!read) return answer(*sending, false, 0, "its pages are gone");
  if (found->second.fencing) return answer(*sending, false, 0, "no longer wanted");
  try {
    const UnpackedMemory memory = unpack_memory(sending->post.memory);
    setting_.transfer.add_peer(sending->post.to, memory.description);
    const TransferId id = setting_.transfer.push({.to = sending->post.to,
                                                  .ticket = memory.ticket,
                                                  .index = sending->post.index,
                                                  .pieces = {std::span<const std::byte>(sending->bytes)}});
    pushes_[id] = sending;
  } catch (const Error& error) {
    answer(*sending, false, 0, error.what());
  }
}

void PageDesk::on(const PushDone& done) {
  const auto found = pushes_.find(done.id);
  if (found == pushes_.end()) return;
  const std::shared_ptr<Sending> sending = found->second;
  pushes_.erase(found);
  answer(*sending, done.done, done.checksum, done.why);
}

void PageDesk::answer(const Sending& sending, bool sent, uint64_t checksum, const std::string& why) {
  const Duration took = std::chrono::steady_clock::now() - sending.started;
  numbers_.send_seconds += std::chrono::duration<double>(took).count();
  ++(sent ? numbers_.slabs_sent : numbers_.slabs_failed);
  if (sent) numbers_.bytes_sent += std::ssize(sending.bytes);
  setting_.feed(SlabSent{sending.key, sending.post.index, sent, checksum, why});
  const auto found = exports_.find(sending.key);
  if (found == exports_.end() || --found->second.open > 0 || !found->second.fencing) return;
  setting_.feed(WritesFenced{sending.key});
}

void PageDesk::execute(const FenceWrites& fence) {
  const auto found = exports_.find(fence.key);
  if (found == exports_.end() || found->second.open == 0) return setting_.feed(WritesFenced{fence.key});
  found->second.fencing = true;
  for (const auto& [id, sending] : pushes_)
    if (sending->key == fence.key) setting_.transfer.cancel(id);
}

void PageDesk::execute(const ReleaseExport& release) {
  const auto found = exports_.find(release.key);
  if (found == exports_.end()) return;
  setting_.engine.cancel(found->second.id);
  exports_.erase(found);
}

std::string pack_memory(const std::string& description, const std::string& ticket) {
  return format("{}:{}{}", description.size(), description, ticket);
}

UnpackedMemory unpack_memory(std::string_view memory) {
  const size_t colon = memory.find(':');
  size_t length = 0;
  for (const char digit : memory.substr(0, std::min(colon, size_t{8}))) {
    if (digit < '0' || digit > '9') throw Error("a job's memory: expected a length first");
    length = length * 10 + static_cast<size_t>(digit - '0');
  }
  if (colon == std::string_view::npos || colon > 8 || length > memory.size() - colon - 1)
    throw Error("a job's memory is cut short");
  return {memory.substr(colon + 1, length), memory.substr(colon + 1 + length)};
}

}  // namespace cheetah::cluster
