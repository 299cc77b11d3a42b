// SPDX-License-Identifier: MIT
#include "model/template/text.h"

#include <algorithm>

namespace cheetah::jinja {
namespace {

int continuation_bytes(unsigned char lead) {
  if (lead >= 0xc2 && lead <= 0xdf) return 1;
  if (lead >= 0xe0 && lead <= 0xef) return 2;
  if (lead >= 0xf0 && lead <= 0xf4) return 3;
  return -1;
}

bool is_line_end(char32_t c) {
  return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

// The code point that ends at `end`, which moves before it.
char32_t previous_code_point(std::string_view bytes, size_t& end) {
  size_t start = end - 1;
  while (start > 0 && end - start < 4 && (bytes[start] & 0xc0) == 0x80) --start;
  size_t at = start;
  const char32_t c = next_code_point(bytes, at);
  if (at != end) {  // a broken sequence: its last byte alone
    end -= 1;
    return 0xfffd;
  }
  end = start;
  return c;
}

template <class Drop>
std::string_view strip_where(std::string_view bytes, Side side, Drop drop) {
  size_t begin = 0;
  size_t end = bytes.size();
  if (side != Side::kRight)
    for (size_t at = 0; at < end; begin = at)
      if (!drop(next_code_point(bytes, at))) break;
  if (side != Side::kLeft)
    for (size_t at = end; at > begin; end = at)
      if (!drop(previous_code_point(bytes, at))) break;
  return bytes.substr(begin, end - begin);
}

}  // namespace

char32_t next_code_point(std::string_view bytes, size_t& at) {
  const auto lead = static_cast<unsigned char>(bytes[at++]);
  if (lead < 0x80) return lead;
  const int more = continuation_bytes(lead);
  if (more < 0 || at + static_cast<size_t>(more) > bytes.size()) return 0xfffd;
  char32_t c = lead & (0x3f >> more);
  for (int i = 0; i < more; ++i) {
    const auto next = static_cast<unsigned char>(bytes[at + static_cast<size_t>(i)]);
    if ((next & 0xc0) != 0x80) return 0xfffd;
    c = (c << 6) | (next & 0x3f);
  }
  const char32_t smallest = more == 1 ? 0x80 : more == 2 ? 0x800 : 0x10000;
  if (c < smallest || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) return 0xfffd;
  at += static_cast<size_t>(more);
  return c;
}

void append_utf8(std::string& out, char32_t c) {
  if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) c = 0xfffd;
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3f));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  }
}

std::u32string decode(std::string_view bytes) {
  std::u32string text;
  text.reserve(bytes.size());
  for (size_t at = 0; at < bytes.size();) text += next_code_point(bytes, at);
  return text;
}

std::string encode(std::u32string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (const char32_t c : text) append_utf8(bytes, c);
  return bytes;
}

int64_t count_code_points(std::string_view bytes) {
  int64_t count = 0;
  for (size_t at = 0; at < bytes.size(); ++count) next_code_point(bytes, at);
  return count;
}

std::string_view strip(std::string_view bytes, Side side) { return strip_where(bytes, side, is_space); }

std::string_view strip(std::string_view bytes, std::string_view characters, Side side) {
  const std::u32string set = decode(characters);
  return strip_where(bytes, side, [&](char32_t c) { return set.find(c) != std::u32string::npos; });
}

std::vector<std::string_view> split_lines(std::string_view bytes, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t start = 0;
  for (size_t at = 0; at < bytes.size();) {
    const size_t end = at;
    const char32_t c = next_code_point(bytes, at);
    if (!is_line_end(c)) continue;
    if (c == '\r' && at < bytes.size() && bytes[at] == '\n') ++at;
    lines.push_back(bytes.substr(start, (keep_ends ? at : end) - start));
    start = at;
  }
  if (start < bytes.size()) lines.push_back(bytes.substr(start));
  return lines;
}

std::string replace_all(std::string_view bytes, std::string_view from, std::string_view to, int64_t count) {
  std::string out;
  size_t done = 0;
  while (count != 0) {
    // Python replaces the empty string between all characters and at both ends.
    size_t found = done;
    if (from.empty()) {
      if (done > bytes.size()) break;
    } else if ((found = bytes.find(from, done)) == std::string_view::npos) {
      break;
    }
    out += bytes.substr(done, found - done);
    out += to;
    if (count > 0) --count;
    if (from.empty()) {
      size_t next = found;
      if (found < bytes.size()) {
        next_code_point(bytes, next);
        out += bytes.substr(found, next - found);
        done = next;
      } else {
        done = bytes.size() + 1;
      }
    } else {
      done = found + from.size();
    }
  }
  if (done < bytes.size()) out += bytes.substr(done);
  return out;
}

std::string escape_html(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace cheetah::jinja
