// SPDX-License-Identifier: MIT
#include "serve/picker/protobuf.h"

#include "base/error.h"

namespace cheetah {
namespace {

constexpr int kTypeBits = 3, kMostVarintBytes = 10;

[[noreturn]] void malformed() { throw Error("not a message of Protocol Buffers"); }

}  // namespace

uint64_t ProtoReader::varint() {
  uint64_t value = 0;
  for (int i = 0; i < kMostVarintBytes; ++i) {
    if (rest_.empty()) malformed();
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    value |= uint64_t{byte & 0x7fu} << (7 * i);
    if ((byte & 0x80u) == 0) return value;
  }
  malformed();
}

std::string_view ProtoReader::take(uint64_t bytes) {
  if (bytes > rest_.size()) malformed();
  const std::string_view taken = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return taken;
}

std::optional<ProtoField> ProtoReader::next() {
  if (rest_.empty()) return std::nullopt;
  const uint64_t tag = varint();
  ProtoField field;
  field.type = static_cast<ProtoField::Type>(tag & 7u);
  if (tag >> kTypeBits == 0 || tag >> kTypeBits >= uint64_t{1} << 29) malformed();
  field.number = static_cast<uint32_t>(tag >> kTypeBits);
  const auto fixed = [&](size_t bytes) {
    const std::string_view taken = take(bytes);
    for (size_t i = 0; i < bytes; ++i) field.value |= uint64_t{static_cast<uint8_t>(taken[i])} << (8 * i);
  };
  switch (field.type) {
    case ProtoField::Type::kVarint:
      field.value = varint();
      return field;
    case ProtoField::Type::kFixed64:
      fixed(8);
      return field;
    case ProtoField::Type::kFixed32:
      fixed(4);
      return field;
    case ProtoField::Type::kBytes:
      field.bytes = take(varint());
      return field;
  }
  malformed();
}

void ProtoWriter::varint(uint64_t value) {
  for (; value >= 0x80u; value >>= 7) text_.push_back(static_cast<char>(value | 0x80u));
  text_.push_back(static_cast<char>(value));
}

ProtoWriter& ProtoWriter::number(uint32_t field, uint64_t value) {
  varint(uint64_t{field} << kTypeBits);
  varint(value);
  return *this;
}

ProtoWriter& ProtoWriter::bytes(uint32_t field, std::string_view value) {
  varint(uint64_t{field} << kTypeBits | static_cast<uint64_t>(ProtoField::Type::kBytes));
  varint(value.size());
  text_ += value;
  return *this;
}

}  // namespace cheetah
