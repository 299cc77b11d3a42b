// SPDX-License-Identifier: MIT
#pragma once
// The steps of decoders, each with its state. See decoder.h for how parts of tokens flow through them.
#include <optional>

#include "model/tokenizer/decoder.h"
#include "model/tokenizer/splitter.h"

namespace cheetah {

// A step that works on whole tokens: collects the parts of one, then calls token().
class WholeTokenStep : public DecodeStep {
 public:
  void push(std::string_view text, bool first, bool last, const DecodeSink& sink) final;
  void finish(const DecodeSink&) override {}

 protected:
  virtual void token(std::string_view text, const DecodeSink& sink) = 0;

 private:
  std::string held_;
};

// Without a decoder, tokens are joined with spaces.
class JoinWithSpaces : public DecodeStep {
 public:
  void push(std::string_view text, bool first, bool last, const DecodeSink& sink) override;
  void finish(const DecodeSink&) override {}

 private:
  bool started_ = false;
};

class FuseStep : public DecodeStep {
 public:
  void push(std::string_view text, bool first, bool last, const DecodeSink& sink) override;
  void finish(const DecodeSink& sink) override;

 private:
  bool started_ = false;
};

// Bytes written in GPT-2's alphabet become text; a broken character becomes U+FFFD.
class ByteLevelStep : public WholeTokenStep {
 public:
  void finish(const DecodeSink& sink) override;

 protected:
  void token(std::string_view text, const DecodeSink& sink) override;

 private:
  std::string pending_;  // the beginning of a character
  bool started_ = false;
};

// Runs of "<0xNN>" tokens become text, or one U+FFFD each when the run as a whole is not UTF-8.
class ByteFallbackStep : public WholeTokenStep {
 public:
  void finish(const DecodeSink& sink) override { flush(sink); }

 protected:
  void token(std::string_view text, const DecodeSink& sink) override;

 private:
  void flush(const DecodeSink& sink);
  std::string run_;
};

class MetaspaceStep : public DecodeStep {
 public:
  MetaspaceStep(char32_t replacement, bool drops_first)
      : replacement_(replacement), drops_first_(drops_first) {}
  void push(std::string_view text, bool first, bool last, const DecodeSink& sink) override;
  void finish(const DecodeSink&) override {}

 private:
  char32_t replacement_;
  bool drops_first_;  // the first token loses its replacement characters
  int64_t num_tokens_ = 0;
};

class WordPieceStep : public WholeTokenStep {
 public:
  WordPieceStep(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}

 protected:
  void token(std::string_view text, const DecodeSink& sink) override;

 private:
  std::string prefix_;
  bool cleanup_;
  bool started_ = false;
};

// The suffix that ends words becomes a space, or nothing at the very end.
class WordSuffixStep : public WholeTokenStep {
 public:
  explicit WordSuffixStep(std::string suffix) : suffix_(std::move(suffix)) {}
  void finish(const DecodeSink& sink) override;

 protected:
  void token(std::string_view text, const DecodeSink& sink) override;

 private:
  std::string suffix_;
  std::optional<std::string> held_;
};

// Cuts up to `start` leading and `stop` trailing characters off each token where they are `content`.
class StripStep : public DecodeStep {
 public:
  StripStep(char32_t content, int64_t start, int64_t stop) : content_(content), start_(start), stop_(stop) {}
  void push(std::string_view text, bool first, bool last, const DecodeSink& sink) override;
  void finish(const DecodeSink&) override {}

 private:
  std::string_view strip_start(std::string_view text);
  void strip_stop(std::string& text) const;
  char32_t content_;
  int64_t start_, stop_;
  int64_t left_ = 0;  // how many more leading characters may go
  std::string held_;  // with stop_: the token until its end is known
};

class ReplaceStep : public WholeTokenStep {
 public:
  ReplaceStep(std::shared_ptr<const Splitter> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

 protected:
  void token(std::string_view text, const DecodeSink& sink) override;

 private:
  std::shared_ptr<const Splitter> pattern_;  // owned with the plan that made this step
  std::string content_;
};

// Repeated tokens and padding vanish (connectionist temporal classification).
class CtcStep : public WholeTokenStep {
 public:
  CtcStep(std::string pad, std::string word_delimiter, bool cleanup)
      : pad_(std::move(pad)), word_delimiter_(std::move(word_delimiter)), cleanup_(cleanup) {}

 protected:
  void token(std::string_view text, const DecodeSink& sink) override;

 private:
  std::string pad_, word_delimiter_;
  bool cleanup_;
  std::optional<std::string> previous_;
};

}  // namespace cheetah
