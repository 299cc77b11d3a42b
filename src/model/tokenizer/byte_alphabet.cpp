// SPDX-License-Identifier: MIT
#include "model/tokenizer/byte_alphabet.h"

#include <array>

#include "base/format.h"
#include "model/tokenizer/unicode.h"

namespace cheetah {
namespace {

constexpr char32_t kFirstMoved = 0x100;
constexpr int kNumMoved = 68;

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<char32_t, 256> chars{};
  std::array<int16_t, kFirstMoved + kNumMoved> bytes{};
};

constexpr Alphabet make_alphabet() {
  Alphabet result;
  for (auto& byte : result.bytes) byte = -1;
  char32_t moved = kFirstMoved;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t c = stands_for_itself(byte) ? static_cast<char32_t>(byte) : moved++;
    result.chars[static_cast<size_t>(byte)] = c;
    result.bytes[c] = static_cast<int16_t>(byte);
  }
  return result;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

char32_t byte_to_char(uint8_t byte) { return kAlphabet.chars[byte]; }

std::optional<uint8_t> char_to_byte(char32_t c) {
  if (c >= kAlphabet.bytes.size() || kAlphabet.bytes[c] < 0) return std::nullopt;
  return static_cast<uint8_t>(kAlphabet.bytes[c]);
}

void append_byte_chars(std::string& out, std::string_view bytes) {
  for (const char byte : bytes) append_utf8(out, byte_to_char(static_cast<uint8_t>(byte)));
}

std::optional<std::string> token_bytes(std::string_view token) {
  std::string bytes;
  bytes.reserve(token.size());
  for (int64_t at = 0; at < std::ssize(token);) {
    const auto byte = char_to_byte(next_char(token, at));
    if (!byte) return std::nullopt;
    bytes += static_cast<char>(*byte);
  }
  return bytes;
}

std::string byte_fallback_token(uint8_t byte) { return format("<0x{:02X}>", byte); }

}  // namespace cheetah
