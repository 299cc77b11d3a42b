// SPDX-License-Identifier: MIT
#pragma once
// The tools a client offers and how it wants them used.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api/fields.h"
#include "serve/api/tool_dialect.h"

namespace cheetah {

struct ToolSet {
  std::vector<ToolUse> tools;
  OrderedJson definitions = OrderedJson::array();  // as the template gets them

  const ToolUse* find(std::string_view name) const;
  // Whether the schema of a tool's argument says it is text; unknown arguments are.
  bool is_text(std::string_view tool, std::string_view argument) const;
};

enum class ToolMode { kNone, kAuto, kRequired };

struct ToolChoice {
  ToolMode mode = ToolMode::kNone;
  std::string named;  // kRequired: this one alone; empty: any
  bool parallel = true;
};

// "tools" in the chat endpoint's form.
std::shared_ptr<const ToolSet> read_tools(Fields& fields);
// With the function's members beside the type; tools that are no functions are left out with a warning.
std::shared_ptr<const ToolSet> read_flat_tools(Fields& fields, std::vector<std::string>& warnings);
// The list itself, an array of sensible length; nullptr: none.
const OrderedJson* tool_list(Fields& fields);
// "tool_choice" and "parallel_tool_calls". `tools` may be nullptr: none were sent.
ToolChoice read_tool_choice(Fields& fields, const ToolSet* tools);
// Checks one definition: name, description, parameters.
void add_tool(ToolSet& set, Fields& function, const OrderedJson* parameters, std::string_view schema_field);

}  // namespace cheetah
