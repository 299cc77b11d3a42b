// SPDX-License-Identifier: MIT
#include "cluster/wire/codec.h"

#include <array>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "cluster/wire/archive.h"
#include "cluster/wire/message_fields.h"

namespace cheetah::cluster {
namespace {

// What the bytes are of, beside the index of a message's type.
constexpr uint8_t kDescriptorType = 0xf0;
constexpr uint8_t kJobType = 0xf1;

constexpr std::array<std::string_view, std::variant_size_v<Message>> kNames = {
    "Hello",
    "Heartbeat",
    "Generate",
    "Tokens",
    "GaveUp",
    "Cancel",
    "Pause",
    "Probe",
    "ProbeAnswer",
    "PrefillJob",
    "Claimed",
    "ClaimAnswer",
    "SlabPosted",
    "PrefillDone",
    "PrefillFailed",
    "WritesStopped",
    "Drain",
    "FlipRole",
    "KvEvents",
    "PrefillNews",
    "Orders",
    "CordonNews",
};

void write_header(Writer& writer, uint8_t type) {
  writer.number(kWireMagic);
  writer.number(kWireVersion);
  writer.number(type);
}

uint8_t read_header(Reader& reader) {
  uint32_t magic = 0;
  uint16_t version = 0;
  uint8_t type = 0;
  reader.number(magic);
  if (magic != kWireMagic) throw Error("message: does not begin as a message of a cluster does");
  reader.number(version);
  if (version != kWireVersion)
    throw Error(format("message: version {}: this process speaks {}", version, kWireVersion));
  reader.number(type);
  return type;
}

template <class Struct>
std::string encode_as(uint8_t type, const Struct& value) {
  Writer writer;
  write_header(writer, type);
  fields(writer, value);
  return writer.take();
}

template <class Struct>
Struct decode_as(uint8_t expected, std::string_view bytes, const char* what) {
  Reader reader(bytes);
  if (read_header(reader) != expected) throw Error(format("message: not a {}", what));
  Struct value;
  fields(reader, value);
  reader.finish();
  return value;
}

template <size_t... kIndex>
Message read_message(Reader& reader, uint8_t type, std::index_sequence<kIndex...>) {
  Message message;
  const auto read_if = [&]<size_t kThis>() {
    if (type == kThis) fields(reader, message.emplace<kThis>());
  };
  (read_if.template operator()<kIndex>(), ...);
  return message;
}

}  // namespace

std::string_view message_name(const Message& message) { return kNames[message.index()]; }

std::string encode(const Message& message) {
  return std::visit(
      [&](const auto& value) { return encode_as(static_cast<uint8_t>(message.index()), value); }, message);
}

Message decode(std::string_view bytes) {
  Reader reader(bytes);
  const uint8_t type = read_header(reader);
  if (type >= kNames.size()) throw Error(format("message: type {} is not known", type));
  Message message = read_message(reader, type, std::make_index_sequence<kNames.size()>());
  reader.finish();
  return message;
}

std::string encode_descriptor(const WorkerDescriptor& descriptor) {
  return encode_as(kDescriptorType, descriptor);
}
WorkerDescriptor decode_descriptor(std::string_view bytes) {
  return decode_as<WorkerDescriptor>(kDescriptorType, bytes, "worker's descriptor");
}
std::string encode_job(const PrefillJob& job) { return encode_as(kJobType, job); }
PrefillJob decode_job(std::string_view bytes) {
  return decode_as<PrefillJob>(kJobType, bytes, "prefill job");
}

}  // namespace cheetah::cluster
