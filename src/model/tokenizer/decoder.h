// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace cheetah {

// Where a step puts its text: a part of one output token, with marks for the token's first and last part.
using DecodeSink = std::function<void(std::string_view text, bool first, bool last)>;

// One step from tokens to text, fed part by part, so that a stream and a whole text go the same way: what can
// no longer change is passed on at once, the rest is held back. One text, one thread.
class DecodeStep {
 public:
  virtual ~DecodeStep() = default;
  virtual void push(std::string_view text, bool first, bool last, const DecodeSink& sink) = 0;
  virtual void finish(const DecodeSink& sink) = 0;
};

// Makes fresh steps for each text. Immutable, any thread.
using DecodeStepMaker = std::function<std::unique_ptr<DecodeStep>()>;
using DecoderPlan = std::vector<DecodeStepMaker>;

// From the "decoder" of a tokenizer.json; null: tokens joined with spaces.
DecoderPlan make_decoder_plan(const Json* description, const std::string& name);

// A chain of steps with its collected output.
class DecodeChain {
 public:
  explicit DecodeChain(const DecoderPlan& plan);
  DecodeChain(const DecodeChain&) = delete;  // the sinks point here
  void push(std::string_view token) { feed(0, token, true, true); }
  void finish();
  std::string take() { return std::exchange(text_, {}); }  // what became certain since the last call

 private:
  void feed(size_t step, std::string_view text, bool first, bool last);
  std::vector<std::unique_ptr<DecodeStep>> steps_;
  std::vector<DecodeSink> sinks_;
  std::string text_;
};

}  // namespace cheetah
