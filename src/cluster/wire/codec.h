// SPDX-License-Identifier: MIT
#pragma once
// Messages as bytes: magic, version, type, then the fields in order, integers little-endian and of fixed
// width, strings and lists behind their count. A count is checked against the bytes left and against a limit
// before anything is allocated, so that what a peer declares costs no more than what it sends.
//
// A link speaks the newest version that both ends read. What lies in the registry or the queue may be read by the
// release before or after: each reads one version more than it writes, without what that adds at a message's end.
#include <optional>
#include <string>
#include <string_view>

#include "cluster/wire/message.h"

namespace cheetah::cluster {

inline constexpr uint32_t kWireMagic = 0x31544843;  // "CHT1"

// In the newest version of `own` that is not above `version`. Empty: that version has no such message.
std::string encode(const Message& message, uint16_t version = kWire.newest);
// Throws Error: not ours, a version that is too old or too new, cut short, out of range. nullopt: a message that the
// next release has.
std::optional<Message> decode_known(std::string_view bytes, const WireVersions& own = kWire);
Message decode(std::string_view bytes);  // throws for the next release's messages too

std::string encode_descriptor(
    const WorkerDescriptor& descriptor, uint16_t version = kWire.newest);  // what the registry keeps
WorkerDescriptor decode_descriptor(std::string_view bytes, const WireVersions& own = kWire);
std::string encode_job(const PrefillJob& job, uint16_t version = kWire.newest);  // what the queue carries
PrefillJob decode_job(std::string_view bytes, const WireVersions& own = kWire);

// For tests, where a node plays the next release: a message that this one does not know.
std::string unknown_message(uint16_t version);

}  // namespace cheetah::cluster
