// The wordwrap filter: Python's textwrap of each line, with its whitespace kept.
#include <algorithm>

#include "base/format.h"
#include "model/template/builtins.h"
#include "model/template/interpreter.h"
#include "model/template/text.h"

namespace cheetah::jinja {
namespace {

using Wide = std::u32string;

// textwrap's own idea of whitespace is the ASCII one.
bool is_wrap_space(char32_t c) { return c == ' ' || (c >= 9 && c <= 13); }

// Cuts a word after its hyphens: between letters, two letters before it at least.
void push_word(std::vector<Wide>& chunks, const Wide& word, bool on_hyphens) {
  size_t start = 0;
  for (size_t i = 1; on_hyphens && i + 1 < word.size(); ++i) {
    if (word[i] != U'-') continue;
    const bool letters = i >= start + 2 && is_alpha(word[i - 1]) && is_word(word[i - 2]) &&
                         !is_numeric(word[i - 2]) && i + 2 < word.size() && is_alpha(word[i + 1]) &&
                         (is_alpha(word[i + 2]) || word[i + 2] == U'-');
    if (!letters) continue;
    chunks.push_back(word.substr(start, i + 1 - start));
    start = i + 1;
  }
  chunks.push_back(word.substr(start));
}

std::vector<Wide> chunks_of(const Wide& line, bool on_hyphens) {
  std::vector<Wide> chunks;
  for (size_t at = 0; at < line.size();) {
    size_t end = at;
    const bool space = is_wrap_space(line[at]);
    while (end < line.size() && is_wrap_space(line[end]) == space) ++end;
    if (space)
      chunks.push_back(line.substr(at, end - at));
    else
      push_word(chunks, line.substr(at, end - at), on_hyphens);
    at = end;
  }
  return chunks;
}

bool blank(const Wide& chunk) { return std::all_of(chunk.begin(), chunk.end(), is_space); }

std::vector<Wide> wrap(const Wide& line, size_t width, bool break_long, bool on_hyphens) {
  std::vector<Wide> chunks = chunks_of(line, on_hyphens);
  std::reverse(chunks.begin(), chunks.end());  // the next one is at the back
  std::vector<Wide> lines;
  while (!chunks.empty()) {
    std::vector<Wide> current;
    size_t used = 0;
    if (blank(chunks.back()) && !lines.empty()) chunks.pop_back();
    while (!chunks.empty() && used + chunks.back().size() <= width) {
      used += chunks.back().size();
      current.push_back(std::move(chunks.back()));
      chunks.pop_back();
    }
    if (!chunks.empty() && chunks.back().size() > width) {
      if (break_long) {
        const size_t room = std::max<size_t>(width > used ? width - used : 0, width > used ? 1 : 0);
        size_t cut = room;
        const size_t hyphen = on_hyphens && room > 0 ? chunks.back().rfind(U'-', room - 1) : Wide::npos;
        if (hyphen != Wide::npos && hyphen > 0 &&
            std::any_of(chunks.back().begin(), chunks.back().begin() + static_cast<ptrdiff_t>(hyphen),
                        [](char32_t c) { return c != U'-'; }))
          cut = hyphen + 1;
        if (cut > 0) current.push_back(chunks.back().substr(0, cut));
        chunks.back().erase(0, cut);
      } else if (current.empty()) {
        current.push_back(std::move(chunks.back()));
        chunks.pop_back();
      }
    }
    if (!current.empty() && blank(current.back())) current.pop_back();
    if (current.empty()) continue;
    Wide text;
    for (const Wide& chunk : current) text += chunk;
    lines.push_back(std::move(text));
  }
  return lines;
}

Value wordwrap_filter(Interpreter& in, const Value& value, Args& args) {
  const Params params("wordwrap", args, {"width", "break_long_words", "wrapstring", "break_on_hyphens"});
  if (value.is_undefined()) fail(value.undefined_message());
  if (!value.is_string()) fail(format("'{}' object has no attribute 'splitlines'", type_name(value)));
  const int64_t width = params.integer(0, 79);
  if (width <= 0) fail(format("invalid width {} (must be > 0)", width));
  const std::string newline = params.given_not_none(2) ? params.string(2, "\n") : "\n";
  in.budget().items(8 * static_cast<int64_t>(value.bytes().size()));
  std::string out;
  bool first_line = true;
  for (const std::string_view source : split_lines(value.bytes())) {
    if (!std::exchange(first_line, false)) out += newline;
    bool first_piece = true;
    for (const Wide& piece :
         wrap(decode(source), static_cast<size_t>(width), params.boolean(1, true), params.boolean(3, true))) {
      if (!std::exchange(first_piece, false)) out += newline;
      out += encode(piece);
      in.budget().bytes(static_cast<int64_t>(newline.size()));
    }
  }
  return in.string(std::move(out), value.text().safe);
}

constexpr Named<NativeFunction> kFilters[] = {{"wordwrap", wordwrap_filter}};

}  // namespace

FilterTable wrap_filters() { return {std::begin(kFilters), std::end(kFilters)}; }

}  // namespace cheetah::jinja
