// SPDX-License-Identifier: MIT
#include "cluster/wire/codec.h"

#include <algorithm>
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
    "Recall",
    "Recalled",
    "AskCache",
    "KvSnapshot",
    "QuotaNews",
    "Orders",
    "CordonNews",
    "FetchFrom",
    "FetchJob",
};
constexpr size_t kFirstSince5 = 20;  // Recall

// What the next release may add to a message; a test's node that plays it does.
constexpr std::string_view kNextRelease = "said by the next release";

Writer writer_of(uint8_t type, uint16_t version) {
  Writer writer(version);
  writer.number(kWireMagic);
  writer.number(version);
  writer.number(type);
  return writer;
}

struct Header {
  uint8_t type = 0;
  bool newer = false;  // than this process: there may be more behind the fields known here
};

Header read_header(Reader& reader, const WireVersions& own) {
  uint32_t magic = 0;
  uint16_t version = 0;
  Header header;
  reader.number(magic);
  if (magic != kWireMagic) throw Error("message: does not begin as a message of a cluster does");
  reader.number(version);
  if (version < own.oldest || version > own.newest + 1)
    throw Error(
        format("message: version {}: this process reads {} to {}; run releases that follow one another",
            version, own.oldest, own.newest + 1));
  reader.set_version(std::min(version, own.newest));
  header.newer = version > std::min(own.newest, kWire.newest);
  reader.number(header.type);
  return header;
}

template <class Struct>
std::string encode_as(uint8_t type, const Struct& value, uint16_t version) {
  Writer writer = writer_of(type, version);
  fields(writer, value);
  std::string bytes = writer.take();
  if (version > kWire.newest) bytes += kNextRelease;
  return bytes;
}

template <class Struct>
Struct decode_as(uint8_t expected, std::string_view bytes, const char* what, const WireVersions& own) {
  Reader reader(bytes);
  const Header header = read_header(reader, own);
  if (header.type != expected) throw Error(format("message: not a {}", what));
  Struct value;
  fields(reader, value);
  if (!header.newer) reader.finish();
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

std::string encode(const Message& message, uint16_t version) {
  const auto type = static_cast<uint8_t>(message.index());
  if (version < 5 && type >= kFirstSince5) return "";
  return std::visit([&](const auto& value) { return encode_as(type, value, version); }, message);
}

std::optional<Message> decode_known(std::string_view bytes, const WireVersions& own) {
  Reader reader(bytes);
  const Header header = read_header(reader, own);
  const size_t known = reader.version() < 5 ? kFirstSince5 : kNames.size();
  if (header.type >= known && header.newer) return std::nullopt;
  if (header.type >= known) throw Error(format("message: type {} is not known", header.type));
  Message message = read_message(reader, header.type, std::make_index_sequence<kNames.size()>());
  if (!header.newer) reader.finish();
  return message;
}

Message decode(std::string_view bytes) {
  auto message = decode_known(bytes);
  if (!message) throw Error("message: of a type that only the next release knows");
  return std::move(*message);
}

std::string encode_descriptor(const WorkerDescriptor& descriptor, uint16_t version) {
  return encode_as(kDescriptorType, descriptor, version);
}
WorkerDescriptor decode_descriptor(std::string_view bytes, const WireVersions& own) {
  return decode_as<WorkerDescriptor>(kDescriptorType, bytes, "worker's descriptor", own);
}
std::string encode_job(const PrefillJob& job, uint16_t version) { return encode_as(kJobType, job, version); }
PrefillJob decode_job(std::string_view bytes, const WireVersions& own) {
  return decode_as<PrefillJob>(kJobType, bytes, "prefill job", own);
}

std::string unknown_message(uint16_t version) {
  return writer_of(static_cast<uint8_t>(kNames.size()), version).take() + std::string(kNextRelease);
}

}  // namespace cheetah::cluster
