// SPDX-License-Identifier: MIT
#pragma once
// The wire format of Protocol Buffers, as far as the endpoint picker needs it: one field after another.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cheetah {

struct ProtoField {
  enum class Type : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  uint32_t number = 0;
  Type type = Type::kVarint;
  uint64_t value = 0;      // of all but kBytes
  std::string_view bytes;  // of kBytes: a text, or a message
};

// Of one message. Does not copy.
class ProtoReader {
 public:
  explicit ProtoReader(std::string_view bytes) : rest_(bytes) {}
  std::optional<ProtoField> next();  // nullopt: the end; throws Error where it is no message

 private:
  uint64_t varint();
  std::string_view take(uint64_t bytes);
  std::string_view rest_;
};

class ProtoWriter {
 public:
  ProtoWriter& number(uint32_t field, uint64_t value);
  ProtoWriter& bytes(uint32_t field, std::string_view value);
  ProtoWriter& message(uint32_t field, const ProtoWriter& value) { return bytes(field, value.text_); }
  const std::string& text() const { return text_; }

 private:
  void varint(uint64_t value);
  std::string text_;
};

}  // namespace cheetah
