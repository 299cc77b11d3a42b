// SPDX-License-Identifier: MIT
#pragma once
// Messages as bytes: magic, version, type, then the fields in order, integers little-endian and of fixed
// width, strings and lists behind their count. A count is checked against the bytes left and against a limit
// before anything is allocated, so that what a peer declares costs no more than what it sends.
#include <string>
#include <string_view>

#include "cluster/wire/message.h"

namespace cheetah::cluster {

inline constexpr uint32_t kWireMagic = 0x31544843;  // "CHT1"
inline constexpr uint16_t kWireVersion = 5;

std::string encode(const Message& message);
Message decode(std::string_view bytes);  // throws Error: not ours, another version, cut short, out of range

std::string encode_descriptor(const WorkerDescriptor& descriptor);  // what the registry keeps
WorkerDescriptor decode_descriptor(std::string_view bytes);
std::string encode_job(const PrefillJob& job);  // what the queue carries
PrefillJob decode_job(std::string_view bytes);

}  // namespace cheetah::cluster
