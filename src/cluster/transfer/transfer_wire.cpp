// SPDX-License-Identifier: MIT
#include "cluster/transfer/transfer_wire.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "base/format.h"

namespace cheetah::cluster::transfer {
namespace {

static_assert(std::endian::native == std::endian::little, "layouts below are copied as they are");

constexpr uint32_t kDescriptionMagic = 0x31465258;  // "XRF1"
constexpr uint32_t kTicketMagic = 0x314B5458;       // "XTK1"
constexpr uint32_t kExportMagic = 0x31505845;       // "EXP1"
constexpr size_t kMaxTextBytes = 4096;

class Writer {
 public:
  template <class T>
  Writer& number(T value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Writer& text(std::string_view value, size_t most = kMaxTextBytes) {
    value = value.substr(0, most);
    number(static_cast<uint32_t>(value.size()));
    bytes_.append(value);
    return *this;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  Reader(std::string_view bytes, const char* what) : left_(bytes), what_(what) {}

  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text(size_t most = kMaxTextBytes) {
    const auto size = number<uint32_t>();
    if (size > most) fail(format("a text of {} bytes, expected at most {}", size, most));
    return std::string(take(size));
  }
  bool flag() { return limited<uint8_t>(1) != 0; }
  template <class T>
  T limited(T most) {
    const T value = number<T>();
    if (value > most) fail(format("value {}, expected at most {}", value, most));
    return value;
  }
  template <class E>
  E kind(E most) {
    return static_cast<E>(limited<std::underlying_type_t<E>>(static_cast<std::underlying_type_t<E>>(most)));
  }
  void expect(uint32_t magic) {
    if (number<uint32_t>() != magic) fail("bytes that are something else");
    const auto version = number<uint16_t>();
    if (version != kTransferVersion) fail(format("version {}, expected {}", version, kTransferVersion));
  }
  void end() const {
    if (!left_.empty()) fail(format("{} bytes too many", left_.size()));
  }
  size_t left() const { return left_.size(); }
  [[noreturn]] void fail(const std::string& found) const {
    throw Error(format("{}: found {}", what_, found));
  }

 private:
  std::string_view take(size_t bytes) {
    if (bytes > left_.size()) fail(format("{} bytes where {} are needed", left_.size(), bytes));
    const std::string_view taken = left_.substr(0, bytes);
    left_.remove_prefix(bytes);
    return taken;
  }
  std::string_view left_;
  const char* what_;
};

void put(Writer& to, const ExportTicket& ticket) {
  to.number(ticket.owner).number(ticket.id).number(ticket.token).number(ticket.num_slabs);
}
ExportTicket get_export(Reader& from) {
  ExportTicket ticket;
  ticket.owner = from.number<WorkerId>();
  ticket.id = from.number<ExportId>();
  ticket.token = from.number<uint64_t>();
  ticket.num_slabs = from.limited<uint32_t>(kMaxSlabsPerReservation);
  return ticket;
}
int64_t get_bytes(Reader& from) {
  const auto bytes = from.number<int64_t>();
  if (bytes < 0) from.fail(format("{} bytes, expected none or more", bytes));
  return bytes;
}

void put(Writer& to, const AgentWelcome& welcome) {
  to.number(welcome.writer).number(welcome.num_slots).number(welcome.slot_bytes).number(welcome.kind);
  to.text(welcome.device_handle).text(welcome.address).number(welcome.token);
}
void put(Writer& to, const SlabNotice& notice) {
  to.number(notice.id).number(notice.slot).number(notice.generation).number(notice.bytes);
  to.number(notice.checksum).text(notice.notify);
}
void put(Writer& to, const WriteEnded& ended) { to.number(ended.slot).number(ended.generation); }
void put(Writer& to, const SlabAck& ack) {
  to.number(ack.id).number(uint8_t{ack.good}).number(ack.checksum).text(ack.why);
}
void put(Writer& to, const PullRequest& pull) {
  to.number(pull.id);
  put(to, pull.exported);
  to.number(pull.index).number(pull.into.slot).number(pull.into.generation).number(pull.slot_bytes);
}
void put(Writer& to, const PullAnswer& answer) {
  to.number(answer.id).number(uint8_t{answer.good}).number(answer.checksum).text(answer.why);
}

void get(Reader& from, AgentWelcome& welcome) {
  welcome.writer = from.number<WriterNumber>();
  welcome.num_slots = from.number<uint32_t>();
  welcome.slot_bytes = get_bytes(from);
  welcome.kind = from.kind(MemoryKind::kDevice);
  welcome.device_handle = from.text();
  welcome.address = from.text();
  welcome.token = from.number<uint64_t>();
}
void get(Reader& from, SlabNotice& notice) {
  notice.id = from.number<TransferId>();
  notice.slot = from.number<uint32_t>();
  notice.generation = from.number<uint32_t>();
  notice.bytes = get_bytes(from);
  notice.checksum = from.number<uint64_t>();
  notice.notify = from.text();
}
void get(Reader& from, WriteEnded& ended) {
  ended.slot = from.number<uint32_t>();
  ended.generation = from.number<uint32_t>();
}
template <class Answer>
void get_answer(Reader& from, Answer& answer) {
  answer.id = from.number<TransferId>();
  answer.good = from.flag();
  answer.checksum = from.number<uint64_t>();
  answer.why = from.text();
}
void get(Reader& from, SlabAck& ack) { get_answer(from, ack); }
void get(Reader& from, PullAnswer& answer) { get_answer(from, answer); }
void get(Reader& from, PullRequest& pull) {
  pull.id = from.number<TransferId>();
  pull.exported = get_export(from);
  pull.index = from.number<uint32_t>();
  pull.into.slot = from.number<uint32_t>();
  pull.into.generation = from.number<uint32_t>();
  pull.slot_bytes = get_bytes(from);
}

template <size_t I = 0>
AgentMessage get_alternative(Reader& from, size_t index) {
  if constexpr (I < std::variant_size_v<AgentMessage>) {
    if (index != I) return get_alternative<I + 1>(from, index);
    std::variant_alternative_t<I, AgentMessage> message;
    get(from, message);
    return message;
  } else {
    from.fail(format("kind {}", index));
  }
}

}  // namespace

std::string encode(const AgentDescription& description) {
  Writer to;
  to.number(kDescriptionMagic)
      .number(kTransferVersion)
      .number(description.backend)
      .number(description.worker);
  return to.text(description.address).take();
}

AgentDescription parse_description(std::string_view bytes) {
  Reader from(bytes, "transfer description");
  from.expect(kDescriptionMagic);
  AgentDescription description;
  description.backend = from.kind(TransferBackend::kTcp);
  description.worker = from.number<WorkerId>();
  description.address = from.text();
  from.end();
  return description;
}

std::string encode(const Ticket& ticket) {
  Writer to;
  to.number(kTicketMagic).number(kTransferVersion).number(ticket.receiver).number(ticket.reservation);
  to.number(ticket.slot_bytes).number(static_cast<uint32_t>(ticket.slots.size()));
  for (const Ticket::Slot& slot : ticket.slots) to.number(slot.slot).number(slot.generation);
  return to.take();
}

Ticket parse_ticket(std::string_view bytes) {
  Reader from(bytes, "transfer ticket");
  from.expect(kTicketMagic);
  Ticket ticket;
  ticket.receiver = from.number<WorkerId>();
  ticket.reservation = from.number<ReservationId>();
  ticket.slot_bytes = get_bytes(from);
  const auto count = from.limited<uint32_t>(kMaxSlabsPerReservation);
  if (from.left() != count * sizeof(Ticket::Slot))
    from.fail(format("{} bytes for {} slots", from.left(), count));
  ticket.slots.resize(count);
  for (Ticket::Slot& slot : ticket.slots) {
    slot.slot = from.number<uint32_t>();
    slot.generation = from.number<uint32_t>();
  }
  return ticket;
}

std::string encode(const ExportTicket& ticket) {
  Writer to;
  to.number(kExportMagic).number(kTransferVersion);
  put(to, ticket);
  return to.take();
}

ExportTicket parse_export_ticket(std::string_view bytes) {
  Reader from(bytes, "export ticket");
  from.expect(kExportMagic);
  const ExportTicket ticket = get_export(from);
  from.end();
  return ticket;
}

std::string encode(const AgentMessage& message) {
  Writer to;
  to.number(static_cast<uint8_t>(message.index()));
  std::visit([&](const auto& alternative) { put(to, alternative); }, message);
  return to.take();
}

AgentMessage parse_agent_message(std::string_view bytes) {
  Reader from(bytes, "transfer message");
  AgentMessage message = get_alternative(from, from.number<uint8_t>());
  from.end();
  return message;
}

}  // namespace cheetah::cluster::transfer
