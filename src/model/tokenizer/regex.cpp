// SPDX-License-Identifier: MIT
#include "model/tokenizer/regex.h"

#include <pcre2.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/format.h"
#include "model/tokenizer/unicode.h"

namespace cheetah {
namespace {

constexpr int64_t kMaxPatternBytes = 65'536;
constexpr uint32_t kMatchLimit = 4'000'000;  // steps; plus some per byte, so that long texts pass
constexpr uint32_t kMatchLimitPerByte = 4;
constexpr size_t kJitStackBytes = 1 << 20;

// What one thread needs to run matches; the same for every pattern.
struct MatchState {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 << 10, kJitStackBytes, nullptr);
  MatchState() { pcre2_jit_stack_assign(context, nullptr, stack); }
  ~MatchState() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
  MatchState(const MatchState&) = delete;
};

MatchState& match_state() {
  thread_local MatchState state;
  return state;
}

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 160> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct Regex::Code {
  pcre2_code* compiled = nullptr;
  ~Code() { pcre2_code_free(compiled); }
};

Regex::Regex(std::string_view pattern, const std::string& name)
    : code_(std::make_unique<Code>()), pattern_(pattern), name_(name) {
  if (std::ssize(pattern) > kMaxPatternBytes)
    throw Error(format(
        "{}: a pattern of {} bytes, more than the limit of {}", name, pattern.size(), kMaxPatternBytes));
  const std::string translated = translate_pattern(pattern, name);
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE at = 0;
  constexpr uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  code_->compiled = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(), kOptions, &error, &at, context);
  pcre2_compile_context_free(context);
  if (!code_->compiled)
    throw Error(format(
        "{}: the pattern \"{}\" cannot be used: {}", name, printable(pattern, 200), pcre2_message(error)));
  pcre2_jit_compile(code_->compiled, PCRE2_JIT_COMPLETE);  // without JIT it only runs slower
}

Regex::~Regex() = default;

std::optional<Regex::Match> Regex::find(std::string_view text, int64_t from) const {
  MatchState& state = match_state();
  const uint64_t limit = kMatchLimit + uint64_t{kMatchLimitPerByte} * text.size();
  pcre2_set_match_limit(state.context, static_cast<uint32_t>(std::min<uint64_t>(limit, UINT32_MAX)));
  const int status = pcre2_match(code_->compiled, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
      static_cast<PCRE2_SIZE>(from), PCRE2_NO_UTF_CHECK, state.data, state.context);
  if (status == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (status < 0)
    throw Error(format("{}: the pattern \"{}\" gave up on this text: {}", name_, printable(pattern_, 200),
        pcre2_message(status)));
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(state.data);
  const auto begin = static_cast<int64_t>(offsets[0]), end = static_cast<int64_t>(offsets[1]);
  return Match{std::min(begin, end), end};  // \K can put the begin behind the end
}

bool is_word_char(char32_t c) {
  static const Regex kWord("[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200C}\\x{200D}]", "word character");
  std::string text;
  append_utf8(text, c);
  return kWord.find(text, 0).has_value();
}

}  // namespace cheetah
