// SPDX-License-Identifier: MIT
#include "quantize/eval_state.h"

#include <cstdio>
#include <limits>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

WindowScore window_of(const JsonFields& fields) {
  return {.tokens = fields.integer("tokens", 1, kMost),
      .nll = fields.number("nll"),
      .right = fields.integer("right", 0, kMost),
      .reference_nll = fields.number("reference_nll"),
      .kl = fields.number("kl"),
      .max_kl = fields.number("max_kl"),
      .agree = fields.integer("agree", 0, kMost),
      .reference_right = fields.integer("reference_right", 0, kMost)};
}

}  // namespace

EvalState::EvalState(const std::string& path, const Json& key) : path_(path) {
  std::ifstream in(path, std::ios::binary);
  std::string line, whole;
  bool first = true;
  while (in && std::getline(in, line) && !in.eof()) {  // a line without its end was cut off
    if (first) {
      const Json found = parse_json(line, path);
      if (found != key)
        throw Error(format(
            "{}: this is the state of another evaluation: give the same model, reference, data and flags, or "
            "another file",
            path));
    } else {
      read_line(line, path);
    }
    first = false;
    whole += line + "\n";
  }
  in.close();
  const std::string beside = path + ".tmp";  // then renamed: a crash here loses nothing
  file_.open(beside, std::ios::binary | std::ios::trunc);
  file_ << (first ? dump_json(key) + "\n" : whole);
  if (!file_.flush() || std::rename(beside.c_str(), path.c_str()) != 0)
    throw Error(format("{}: cannot be written", path));
}

void EvalState::read_line(const std::string& text, const std::string& where) {
  const Json object = parse_json(text, where);
  const JsonFields fields(object, where);
  if (fields.has("tokens"))
    scores_.windows.push_back(window_of(fields));
  else
    scores_.questions.push_back({.right = fields.boolean_or("right", false),
        .reference_right = fields.boolean_or("reference_right", false),
        .agree = fields.boolean_or("agree", false)});
}

void EvalState::add(const WindowScore& window) {
  scores_.windows.push_back(window);
  write({{"tokens", window.tokens}, {"nll", window.nll}, {"right", window.right},
      {"reference_nll", window.reference_nll}, {"kl", window.kl}, {"max_kl", window.max_kl},
      {"agree", window.agree}, {"reference_right", window.reference_right}});
}

void EvalState::add(const QuestionScore& question) {
  scores_.questions.push_back(question);
  write(
      {{"right", question.right}, {"reference_right", question.reference_right}, {"agree", question.agree}});
}

void EvalState::write(const Json& line) {
  if (path_.empty()) return;
  file_ << dump_json(line) << "\n";
  if (!file_.flush()) throw Error(format("{}: cannot be written", path_));
}

}  // namespace cheetah
