// SPDX-License-Identifier: MIT
#include "cluster/node/kv_adapter.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/time.h"

namespace cheetah::cluster {

namespace {

// The same key may be exported and answered at the same time only by mistake; still they are two requests.
RequestId export_id(RequestKey key) { return RequestId{~static_cast<uint64_t>(engine_id(key))}; }

}  // namespace

// Slabs that wait for one another on the link count once: each from the end of the one before.
void TransferRate::add(int64_t bytes, Time began, Time ended) {
  constexpr double kKeep = 0.9;
  const double took = seconds(ended - std::max(began, last_));
  last_ = std::max(last_, ended);
  if (took <= 0) return;
  bytes_ = kKeep * bytes_ + static_cast<double>(bytes);
  seconds_ = kKeep * seconds_ + took;
}

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

KvAdapter::KvAdapter(Setting setting) : setting_(std::move(setting)) {
  setting_.transfer.on_ready(
      [this] { setting_.loop.post([this] { poll(std::chrono::steady_clock::now()); }); });
}

KvAdapter::~KvAdapter() { setting_.transfer.on_ready({}); }

void KvAdapter::poll(Time now) {
  setting_.transfer.poll(now, events_);
  const std::vector<TransferEvent> events = std::exchange(events_, {});
  for (const TransferEvent& event : events) std::visit([this](const auto& what) { on(what); }, event);
}

void KvAdapter::peer_lost(WorkerId peer) { setting_.transfer.drop_peer(peer); }

// ---- Receiving ----

void KvAdapter::execute(LookUpCache& look) {
  setting_.engine.look_up(
      std::move(look.salt), std::move(look.tokens), [this, key = look.key](int64_t cached) {
        setting_.loop.post([this, key, cached] { setting_.feed(CacheLooked{key, cached}); });
      });
}

// Slots come back a little after the core has freed them: a request that came meanwhile gets its answer then. The
// core does not wait for longer than it likes.
void KvAdapter::execute(const ReserveSpace& reserve) {
  wait_for_space_.push_back(reserve);
  try_reserve();
}

void KvAdapter::try_reserve() {
  while (!wait_for_space_.empty()) {
    const ReserveSpace& wanted = wait_for_space_.front();
    const int64_t tokens = wanted.end_token - wanted.first_token;
    const auto slabs = static_cast<uint32_t>((tokens + wanted.slab_tokens - 1) / wanted.slab_tokens);
    const auto reserved = setting_.transfer.reserve(wanted.key, slabs, wanted.deadline);
    if (!reserved) return;
    setting_.feed(SpaceReserved{.key = wanted.key,
        .reservation = reserved->id,
        .memory = pack_memory(setting_.transfer.describe(), reserved->ticket)});
    wait_for_space_.pop_front();
  }
}

// The slots are read from another thread until the engine has answered: they are held that long, since the
// core may give the reservation up meanwhile.
void KvAdapter::execute(ImportSlab& import) {
  poll(std::chrono::steady_clock::now());  // its arrival may be there and not yet looked at
  const auto bytes = setting_.transfer.slab(import.reservation, import.slab.index);
  if (!bytes) return refuse(import, "it has not arrived whole");
  try {
    // Shared by the threads it passes through, one after the other: std::function copies.
    auto slab = std::make_shared<Arriving>();
    slab->view = parse_slab(*bytes);
    if (const std::string why = why_not(import, slab->view.header); !why.empty()) return refuse(import, why);
    const bool equal = SlabReader(setting_.kv).as_they_are(slab->view.header);
    const auto landed = landed_.find({import.reservation, import.slab.index});
    if (landed != landed_.end()) slab->landed = landed->second;
    slab->import = std::move(import);
    setting_.transfer.hold(slab->import.reservation);
    if (equal)
      to_engine(slab, slab->view.pages);
    else
      change(slab);
  } catch (const Error& error) {
    refuse(import, error.what());
  }
}

std::string KvAdapter::why_not(const ImportSlab& import, const SlabHeader& header) const {
  const SlabPosted& slab = import.slab;
  const bool right = header.uid == static_cast<uint64_t>(import.key.uid) &&
                     header.attempt == static_cast<uint32_t>(import.key.attempt) &&
                     header.index == slab.index && header.first_token == slab.first_token &&
                     header.page_tokens == setting_.kv.page_tokens &&
                     header.num_pages == pages_of(slab.num_tokens);
  return right ? "" : "its header is another slab's";
}

void KvAdapter::change(const std::shared_ptr<Arriving>& slab) {
  setting_.background.post([this, slab] {
    std::string why;
    try {
      const SlabReader reader(setting_.kv);
      slab->pages.resize(static_cast<size_t>(reader.page_bytes(slab->view)));
      reader.read(slab->view, slab->pages);
    } catch (const Error& error) {
      why = error.what();
    }
    setting_.loop.post(
        [this, slab, why] { why.empty() ? to_engine(slab, slab->pages) : imported(*slab, why); });
  });
}

void KvAdapter::to_engine(const std::shared_ptr<Arriving>& slab, std::span<const std::byte> pages) {
  ImportSlab& import = slab->import;
  setting_.engine.import_pages({.request = engine_id(import.key),
                                   .salt = std::move(import.salt),
                                   .tokens = std::move(import.tokens),
                                   .first_token = import.slab.first_token,
                                   .text_tokens = import.end_token,
                                   .last_token = import.end_token,
                                   .bytes = pages},
      [this, slab](const KvImported& result) {
        setting_.loop.post([this, slab, result] { imported(*slab, result.imported ? "" : result.why); });
      });
}

void KvAdapter::imported(const Arriving& slab, const std::string& why_not) {
  setting_.transfer.let_go(slab.import.reservation);
  setting_.feed(SlabImported{slab.import.key, slab.import.reservation, slab.import.slab.index,
      why_not.empty(), why_not, slab.landed});
}

void KvAdapter::refuse(const ImportSlab& import, const std::string& why) {
  setting_.feed(SlabImported{import.key, import.reservation, import.slab.index, false, why});
}

void KvAdapter::execute(const Unpin& unpin) { setting_.engine.unpin(engine_id(unpin.key)); }

// From now on nothing new is written there; what is being written ends by itself, or with its writer.
void KvAdapter::execute(const Quarantine& quarantine) { setting_.transfer.cancel(quarantine.reservation); }

void KvAdapter::execute(const FenceReservation& fence) {
  fences_.insert(fence.reservation);
  setting_.transfer.cancel(fence.reservation);
  bool held = false;
  for (const ReservationStatus& status : setting_.transfer.reservations())
    held |= status.id == fence.reservation;
  if (!held) return on(ReservationFreed{fence.reservation});
  setting_.transfer.drop_peer(fence.writer);
}

void KvAdapter::execute(const FreeReservation& free) { setting_.transfer.release(free.reservation); }

void KvAdapter::on(const SlabArrived& arrived) {
  landed_[{arrived.reservation, arrived.index}] = std::chrono::steady_clock::now();
  ++numbers_.slabs_received;
  numbers_.bytes_received += arrived.bytes;
}

void KvAdapter::on(const SlabDamaged&) { ++numbers_.slabs_damaged; }
void KvAdapter::on(const ReservationStalled&) { ++numbers_.stalls; }  // the core has timers of its own

void KvAdapter::on(const ReservationFreed& freed) {
  landed_.erase(landed_.lower_bound({freed.reservation, 0}),
      landed_.upper_bound({freed.reservation, std::numeric_limits<uint32_t>::max()}));
  if (fences_.erase(freed.reservation) > 0) setting_.feed(ReservationFenced{freed.reservation});
  try_reserve();
}

// ---- Sending ----

void KvAdapter::execute(StartExport& start) {
  if (!start.only_cached) return begin_export(start);
  // Shared with the engine's thread while it looks.
  auto wanted = std::make_shared<StartExport>(std::move(start));
  exports_[wanted->key].id = export_id(wanted->key);
  setting_.engine.look_up(wanted->salt, wanted->tokens, [this, wanted](int64_t cached) {
    setting_.loop.post([this, wanted, cached] {
      if (!exports_.contains(wanted->key)) return;  // released meanwhile
      if (cached + setting_.kv.page_tokens >= wanted->end_token) return begin_export(*wanted);
      setting_.feed(ExportProgress{
          .key = wanted->key, .failed = true, .why = "the prefix is not in the cache any more"});
    });
  });
}

// A request without output: its events say nothing that its progress does not.
void KvAdapter::begin_export(StartExport& start) {
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

void KvAdapter::execute(const PostSlab& post) {
  auto sending = std::make_shared<Sending>();
  sending->key = post.key;
  sending->post = post;
  sending->started = std::chrono::steady_clock::now();
  ++exports_.at(post.key).open;
  try {
    read_and_push(sending);
  } catch (const Error& error) {  // other pages than ours can become
    answer(*sending, false, 0, error.what());
  }
}

void KvAdapter::read_and_push(const std::shared_ptr<Sending>& sending) {
  const PostSlab& post = sending->post;
  const SlabWriter writer(setting_.kv, post.kv);
  const SlabWriter::Label label{post.key, post.index, post.first_token, post.num_tokens};
  const SlabWriter::Source source = writer.source_of(label);
  sending->bytes.resize(static_cast<size_t>(writer.slab_bytes(post.num_tokens)));
  std::span<std::byte> to = SlabWriter::body(sending->bytes);
  if (writer.as_they_are()) {
    writer.write_header(label, sending->bytes);
  } else {
    sending->source.resize(static_cast<size_t>(source.bytes));
    to = sending->source;
    ++numbers_.slabs_changed;
  }
  exports_.at(post.key).pages->read(
      source.first_token, source.end_token, to, [this, sending, writer](bool read) {
        setting_.loop.post([this, sending, writer, read] {
          if (!read || writer.as_they_are()) return push(sending, read ? "" : "its pages are gone");
          change_and_push(sending, writer);
        });
      });
}

void KvAdapter::change_and_push(const std::shared_ptr<Sending>& sending, const SlabWriter& writer) {
  setting_.background.post([this, sending, writer] {
    const PostSlab& post = sending->post;
    std::string why;
    try {
      writer.write(
          {post.key, post.index, post.first_token, post.num_tokens}, sending->source, sending->bytes);
    } catch (const Error& error) {
      why = error.what();
    }
    setting_.loop.post([this, sending, why] { push(sending, why); });
  });
}

void KvAdapter::push(const std::shared_ptr<Sending>& sending, const std::string& why_not) {
  const auto found = exports_.find(sending->key);
  if (found == exports_.end()) return;
  if (!why_not.empty()) return answer(*sending, false, 0, why_not);
  if (found->second.fencing) return answer(*sending, false, 0, "no longer wanted");
  sending->pushed = std::chrono::steady_clock::now();
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

void KvAdapter::on(const PushDone& done) {
  const auto found = pushes_.find(done.id);
  if (found == pushes_.end()) return;
  const std::shared_ptr<Sending> sending = found->second;
  pushes_.erase(found);
  answer(*sending, done.done, done.checksum, done.why);
}

void KvAdapter::answer(const Sending& sending, bool sent, uint64_t checksum, const std::string& why) {
  const Time now = std::chrono::steady_clock::now();
  numbers_.send_seconds += seconds(now - sending.started);
  ++(sent ? numbers_.slabs_sent : numbers_.slabs_failed);
  if (sent) {
    numbers_.bytes_sent += std::ssize(sending.bytes);
    rate_.add(std::ssize(sending.bytes), sending.pushed, now);
    numbers_.bytes_per_s = rate_.bytes_per_s();
  }
  setting_.feed(SlabSent{sending.key, sending.post.index, sent, checksum, why});
  const auto found = exports_.find(sending.key);
  if (found == exports_.end() || --found->second.open > 0 || !found->second.fencing) return;
  setting_.feed(WritesFenced{sending.key});
}

void KvAdapter::execute(const FenceWrites& fence) {
  const auto found = exports_.find(fence.key);
  if (found == exports_.end() || found->second.open == 0) return setting_.feed(WritesFenced{fence.key});
  found->second.fencing = true;
  for (const auto& [id, sending] : pushes_)
    if (sending->key == fence.key) setting_.transfer.cancel(id);
}

void KvAdapter::execute(const ReleaseExport& release) {
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
