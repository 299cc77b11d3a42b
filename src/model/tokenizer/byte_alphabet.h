// SPDX-License-Identifier: MIT
#pragma once
// The printable characters by which byte-level vocabularies write bytes (GPT-2's table): printable Latin-1
// characters stand for themselves, the other 68 bytes for U+0100 upwards.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cheetah {

char32_t byte_to_char(uint8_t byte);
std::optional<uint8_t> char_to_byte(char32_t c);

// The bytes as their characters, in UTF-8.
void append_byte_chars(std::string& out, std::string_view bytes);
// The bytes a token stands for; nullopt when one of its characters stands for none.
std::optional<std::string> token_bytes(std::string_view token);
// "<0x0A>" for 10.
std::string byte_fallback_token(uint8_t byte);

}  // namespace cheetah
