// SPDX-License-Identifier: MIT
#pragma once
// How a model writes tool calls. Each way is a row of data; which one a model uses is read off its template.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/grammar.h"

namespace cheetah {

enum class CallShape {
  kJson,        // {"name": …, "arguments": {…}}, alone or in an array
  kNamed,       // NAME, a mark, {…}
  kParameters,  // NAME, a mark, then each argument between marks of its own
  kPython,      // [NAME(KEY=VALUE, …), …]
};

struct ToolDialect {
  std::string_view name;
  CallShape shape;
  std::string_view trigger;     // begins a call; empty: only `bare` ones are known
  std::string_view close;       // ends it; empty: nothing does
  std::string_view after_name;  // kNamed and kParameters; empty: white space or < ends the name
  std::string_view open_parameter = {}, after_key = {}, close_parameter = {};  // kParameters
  std::vector<std::string_view> wrappers = {};  // stand around calls and say nothing. No mark begins another.
  std::string_view arguments_key = "arguments";  // as the model is used to write it
  bool bare = false;  // an answer that begins with { (or [, of kPython) is a call, too
};

// Of a model whose template this is; JSON alone for one that does not speak of tools.
const ToolDialect& find_dialect(std::string_view template_source);
// Every row, for tests.
const std::vector<ToolDialect>& all_dialects();
// The one that answers follow which a grammar holds to tool calls, when the model's own marks are special
// tokens or not JSON.
const ToolDialect& json_dialect();

struct ToolUse {
  std::string name;
  std::string schema;  // of the arguments; empty: any object
  bool strict = false;
};

// The form of `min` to `max` calls in a dialect of shape kJson. `free_text`: words may stand around them.
ToolCallFormat call_format(
    const ToolDialect& dialect, const std::vector<ToolUse>& tools, int64_t min, int64_t max, bool free_text);

}  // namespace cheetah
