// SPDX-License-Identifier: MIT
#include "model/tokenizer/decode_steps.h"

#include <algorithm>
#include <array>

#include "model/tokenizer/byte_alphabet.h"
#include "model/tokenizer/unicode.h"

namespace cheetah {
namespace {

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  if (from.empty()) return std::string(text);
  std::string out;
  size_t done = 0;
  for (size_t at = text.find(from); at != std::string_view::npos; at = text.find(from, done)) {
    out += text.substr(done, at - done);
    out += to;
    done = at + from.size();
  }
  out += text.substr(done);
  return out;
}

// English spacing as BERT's detokenizer writes it.
std::string clean_up(std::string text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kRules = {
      {{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"}, {" 'm", "'m"},
          {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}}};
  for (const auto& [from, to] : kRules)
    if (text.find(from) != std::string::npos) text = replace_all(text, from, to);
  return text;
}

std::optional<uint8_t> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  const int high = token[3] == '+' ? 0 : digit(token[3]), low = digit(token[4]);  // "+F" is a number in Rust
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<uint8_t>(high * 16 + low);
}

}  // namespace

void WholeTokenStep::push(std::string_view text, bool first, bool last, const DecodeSink& sink) {
  if (first && last) return token(text, sink);
  held_ += text;
  if (!last) return;
  const std::string whole = std::exchange(held_, {});
  token(whole, sink);
}

void JoinWithSpaces::push(std::string_view text, bool first, bool last, const DecodeSink& sink) {
  if (first && started_) sink(" ", true, true);
  started_ = true;
  sink(text, first, last);
}

void FuseStep::push(std::string_view text, bool, bool, const DecodeSink& sink) {
  sink(text, !started_, false);
  started_ = true;
}

void FuseStep::finish(const DecodeSink& sink) { sink({}, !started_, true); }

void ByteLevelStep::token(std::string_view text, const DecodeSink& sink) {
  if (const auto bytes = token_bytes(text))
    pending_ += *bytes;
  else
    pending_ += text;
  std::string out;
  std::string_view left = pending_;
  while (!left.empty()) {
    const Utf8Part part = utf8_part(left);
    if (part.kind == Utf8Start::kIncomplete) break;
    if (part.kind == Utf8Start::kComplete)
      out += left.substr(0, static_cast<size_t>(part.length));
    else
      out += kReplacementUtf8;
    left.remove_prefix(static_cast<size_t>(part.length));
  }
  pending_ = std::string(left);
  sink(out, !started_, false);
  started_ = true;
}

void ByteLevelStep::finish(const DecodeSink& sink) {
  sink(pending_.empty() ? std::string_view() : kReplacementUtf8, !started_, true);
}

void ByteFallbackStep::token(std::string_view text, const DecodeSink& sink) {
  if (const auto byte = fallback_byte(text)) {
    run_ += static_cast<char>(*byte);
    return;
  }
  flush(sink);
  sink(text, true, true);
}

void ByteFallbackStep::flush(const DecodeSink& sink) {
  const std::string run = std::exchange(run_, {});
  if (run.empty()) return;
  if (is_valid_utf8(run)) return sink(run, true, true);
  for (size_t i = 0; i < run.size(); ++i) sink(kReplacementUtf8, true, true);
}

void MetaspaceStep::push(std::string_view text, bool first, bool last, const DecodeSink& sink) {
  if (first) ++num_tokens_;
  std::string out;
  for (int64_t at = 0; at < std::ssize(text);) {
    const char32_t c = next_char(text, at);
    if (c != replacement_)
      append_utf8(out, c);
    else if (num_tokens_ > 1 || !drops_first_)
      out += ' ';
  }
  sink(out, first, last);
}

void WordPieceStep::token(std::string_view text, const DecodeSink& sink) {
  std::string out;
  if (started_ && !text.starts_with(prefix_)) out = " ";
  if (started_ && text.starts_with(prefix_)) text.remove_prefix(prefix_.size());
  started_ = true;
  out += text;
  sink(cleanup_ ? clean_up(std::move(out)) : out, true, true);
}

void WordSuffixStep::token(std::string_view text, const DecodeSink& sink) {
  if (held_) sink(replace_all(*held_, suffix_, " "), true, true);
  held_ = text;
}

void WordSuffixStep::finish(const DecodeSink& sink) {
  if (held_) sink(replace_all(*held_, suffix_, ""), true, true);
}

std::string_view StripStep::strip_start(std::string_view text) {
  while (left_ > 0 && !text.empty()) {
    int64_t at = 0;
    if (next_char(text, at) != content_) left_ = 0;
    if (left_ == 0) break;
    text.remove_prefix(static_cast<size_t>(at));
    --left_;
  }
  return text;
}

void StripStep::strip_stop(std::string& text) const {
  std::string last;
  append_utf8(last, content_);
  for (int64_t i = 0; i < stop_ && text.ends_with(last); ++i) text.resize(text.size() - last.size());
}

void StripStep::push(std::string_view text, bool first, bool last, const DecodeSink& sink) {
  if (first) left_ = start_;
  const std::string_view kept = strip_start(text);
  if (stop_ == 0) return sink(kept, first, last);
  held_ += kept;
  if (!last) return;
  std::string whole = std::exchange(held_, {});
  strip_stop(whole);
  sink(whole, true, true);
}

void ReplaceStep::token(std::string_view text, const DecodeSink& sink) {
  if (text.empty()) return sink(text, true, true);
  std::vector<Span> spans;
  pattern_->find(text, spans);
  std::string out;
  for (const Span& span : spans) {
    if (span.matched)
      out += content_;
    else
      out += text.substr(static_cast<size_t>(span.begin), static_cast<size_t>(span.end - span.begin));
  }
  sink(out, true, true);
}

void CtcStep::token(std::string_view text, const DecodeSink& sink) {
  if (previous_ == text) return;
  previous_ = text;
  std::string out = replace_all(text, pad_, "");
  if (cleanup_) out = replace_all(clean_up(std::move(out)), word_delimiter_, " ");
  if (!out.empty()) sink(out, true, true);
}

}  // namespace cheetah
