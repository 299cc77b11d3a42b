// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api/call_scanner.h"
#include "serve/api/output_delta.h"
#include "serve/api/python_call.h"
#include "serve/api/tool_dialect.h"
#include "serve/api/tools.h"

namespace cheetah {

// Finds tool calls in growing text. What looked like a call but is none comes out as text. Decides on bytes
// alone, never on where the pieces end. One thread.
class ToolParser {
 public:
  // `begins_in_name`: the prompt ends with the mark that begins a call.
  ToolParser(const ToolDialect& dialect, std::shared_ptr<const ToolSet> tools, bool begins_in_name);

  void push(std::string_view text, std::vector<OutputDelta>& out);
  // `cut`: the answer ended before the model ended it; a call that it cuts stays unfinished.
  void finish(bool cut, std::vector<OutputDelta>& out);

 private:
  enum class State {
    kStart,       // nothing but white space yet
    kText,        // words for the reader
    kObjects,     // where call objects may stand
    kObject,      // inside one
    kCalls,       // where calls as Python writes them may stand
    kCall,        // inside one
    kName,        // between the mark and the end of the name
    kBefore,      // after the name, before {
    kValue,       // inside { … }
    kParameters,  // where parameters may stand
    kKey,
    kParameter,
    kClose,  // after a call, up to the next word
  };
  // Each takes what the held text decides; false when it needs more. `last`: there is no more.
  bool advance(bool last, std::vector<OutputDelta>& out);
  bool at_start(bool last);
  bool in_text(bool last, std::vector<OutputDelta>& out);
  bool between_objects(bool last);
  bool in_object(std::vector<OutputDelta>& out);
  bool between_calls(bool last);
  bool in_call(std::vector<OutputDelta>& out);
  bool in_name(bool last, std::vector<OutputDelta>& out);
  bool before_value(std::vector<OutputDelta>& out);
  bool in_value(std::vector<OutputDelta>& out);
  bool between_parameters(bool last, std::vector<OutputDelta>& out);
  bool in_key();
  bool in_parameter(std::vector<OutputDelta>& out);
  bool closing(bool last);

  bool follow_mark(size_t at, std::string_view mark, std::vector<OutputDelta>& out);
  void keep(size_t length);  // moves the front of held_ to tried_
  bool give_up();
  void announce(const std::string& name, std::vector<OutputDelta>& out);
  void end_call(std::vector<OutputDelta>& out);
  void arguments(std::string_view text, std::vector<OutputDelta>& out);
  void emit(OutputDelta::Kind kind, std::string_view text, std::vector<OutputDelta>& out) const;

  const ToolDialect* dialect_;            // a row of the static table
  std::shared_ptr<const ToolSet> tools_;  // shared: the parsers of all choices
  State state_;
  std::string held_;  // not decided yet
  std::string
      tried_;  // taken for the beginning of a call that is not certain; given back as text if it is none
  size_t plain_ = 0;         // leading bytes of held_ that are text, whatever they look like
  bool certain_ = false;     // the client knows of the call
  bool after_call_ = false;  // of the same block of objects
  bool bare_ = false;        // the object stands alone, without a mark
  bool wrote_arguments_ = false;
  std::string name_, key_;
  CallScanner call_;
  PythonCall python_;
  ValueScanner value_;
  int num_calls_ = 0;
};

}  // namespace cheetah
