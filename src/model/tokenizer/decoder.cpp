// SPDX-License-Identifier: MIT
#include "model/tokenizer/decoder.h"

#include "base/error.h"
#include "base/format.h"
#include "model/tokenizer/decode_steps.h"
#include "model/tokenizer/unicode.h"

namespace cheetah {
namespace {

constexpr int64_t kMaxSteps = 256;
constexpr int kMaxNesting = 16;

template <class Step, class... Arguments>
DecodeStepMaker maker(Arguments... arguments) {
  return [=]() -> std::unique_ptr<DecodeStep> { return std::make_unique<Step>(arguments...); };
}

char32_t one_char(const JsonFields& fields, const char* field, const std::string& text) {
  const std::u32string chars = to_utf32(text);
  if (chars.size() != 1)
    throw Error(format("{}: {} \"{}\" is not one character", fields.what(), field, printable(text)));
  return chars[0];
}

DecodeStepMaker make_metaspace(const JsonFields& fields) {
  const char32_t replacement =
      one_char(fields, "replacement", fields.string_or("replacement", "\xE2\x96\x81"));
  const bool never =
      fields.string_or("prepend_scheme", "always") == "never" || !fields.boolean_or("add_prefix_space", true);
  return maker<MetaspaceStep>(replacement, !never);
}

DecodeStepMaker make_step(const std::string& type, const JsonFields& fields) {
  if (type == "ByteLevel") return maker<ByteLevelStep>();
  if (type == "ByteFallback") return maker<ByteFallbackStep>();
  if (type == "Fuse") return maker<FuseStep>();
  if (type == "Metaspace") return make_metaspace(fields);
  if (type == "WordPiece")
    return maker<WordPieceStep>(fields.string_or("prefix", "##"), fields.boolean_or("cleanup", true));
  if (type == "BPEDecoder") return maker<WordSuffixStep>(fields.string_or("suffix", "</w>"));
  if (type == "Strip")
    return maker<StripStep>(one_char(fields, "content", fields.string_or("content", " ")),
        fields.integer_or("start", 0, 0, INT32_MAX), fields.integer_or("stop", 0, 0, INT32_MAX));
  if (type == "CTC")
    return maker<CtcStep>(fields.string_or("pad_token", "<pad>"),
        fields.string_or("word_delimiter_token", "|"), fields.boolean_or("cleanup", true));
  if (type == "Replace") {
    const Json* pattern = fields.find("pattern");
    if (!pattern) throw Error(format("{}: a Replace needs a \"pattern\"", fields.what()));
    const std::shared_ptr<const Splitter> splitter = make_splitter(*pattern, fields.what());
    return maker<ReplaceStep>(splitter, fields.string("content"));
  }
  throw Error(format("{}: decoder type \"{}\" is not supported", fields.what(), printable(type)));
}

void add_steps(const Json& description, int depth, const std::string& name, DecoderPlan& plan) {
  if (std::ssize(plan) >= kMaxSteps || depth > kMaxNesting)
    throw Error(format("{}: more than {} decoders or {} levels of them", name, kMaxSteps, kMaxNesting));
  const JsonFields fields(description, name + ": decoder");
  const std::string type = fields.string("type");
  if (type != "Sequence") return plan.push_back(make_step(type, fields));
  const Json* list = fields.find("decoders");
  if (!list || !list->is_array())
    throw Error(format("{}: a Sequence needs the list \"decoders\"", fields.what()));
  for (const Json& step : *list) add_steps(step, depth + 1, name, plan);
}

}  // namespace

DecoderPlan make_decoder_plan(const Json* description, const std::string& name) {
  DecoderPlan plan;
  if (description)
    add_steps(*description, 0, name, plan);
  else
    plan.push_back(maker<JoinWithSpaces>());
  return plan;
}

DecodeChain::DecodeChain(const DecoderPlan& plan) {
  for (const DecodeStepMaker& make : plan) {
    const size_t next = steps_.size() + 1;
    steps_.push_back(make());
    sinks_.emplace_back(
        [this, next](std::string_view text, bool first, bool last) { feed(next, text, first, last); });
  }
}

void DecodeChain::feed(size_t step, std::string_view text, bool first, bool last) {
  if (step == steps_.size())
    text_ += text;
  else
    steps_[step]->push(text, first, last, sinks_[step]);
}

void DecodeChain::finish() {
  for (size_t i = 0; i < steps_.size(); ++i) steps_[i]->finish(sinks_[i]);
}

}  // namespace cheetah
