// SPDX-License-Identifier: MIT
#include "serve/api/tool_dialect.h"

#include "base/format.h"

namespace cheetah {
namespace {

struct Rule {
  std::vector<std::string_view> words;  // all of them stand in the template
  ToolDialect dialect;
};

std::vector<ToolDialect> dialects_of(const std::vector<Rule>& rules) {
  std::vector<ToolDialect> result;
  for (const Rule& rule : rules) result.push_back(rule.dialect);
  return result;
}

// The first rule whose words a template has decides, so the particular ones stand before the general.
const std::vector<Rule>& all_rules() {
  static const std::vector<Rule> rules = {
      {{"<｜tool▁call▁begin｜>", "```json"},
          {"deepseek-r1", CallShape::kNamed, "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
              "<｜tool▁call▁end｜>", "\n```json\n", {}, {}, {},
              {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"}}},
      {{"<｜tool▁call▁begin｜>"},
          {"deepseek-v3.1", CallShape::kNamed, "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>",
              "<｜tool▁sep｜>", {}, {}, {}, {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"}}},
      {{"<|tool_call_start|>"}, {"lfm2", CallShape::kPython, "<|tool_call_start|>", "<|tool_call_end|>", ""}},
      {{"[func_name1("}, {"llama-pythonic", CallShape::kPython, "<|python_start|>", "<|python_end|>", "", {},
                             {}, {}, {}, "arguments", true}},
      {{"<|tool_call_begin|>", "<|tool_call_argument_begin|>"},
          {"kimi", CallShape::kNamed, "<|tool_call_begin|>", "<|tool_call_end|>",
              "<|tool_call_argument_begin|>", {}, {}, {},
              {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"}}},
      {{"[TOOL_CALLS]", "[ARGS]"}, {"mistral-args", CallShape::kNamed, "[TOOL_CALLS]", "", "[ARGS]"}},
      {{"[TOOL_CALLS]"}, {"mistral", CallShape::kJson, "[TOOL_CALLS]", "", ""}},
      {{">>>all"}, {"functionary", CallShape::kNamed, ">>>", "", "\n"}},
      {{"<function=", "<parameter="},
          {"qwen3-coder", CallShape::kParameters, "<function=", "</function>", ">", "<parameter=", ">",
              "</parameter>", {"<tool_call>", "</tool_call>"}}},
      {{"<arg_key>", "<arg_value>"}, {"glm", CallShape::kParameters, "<tool_call>", "</tool_call>", "",
                                         "<arg_key>", "</arg_key>", "</arg_value>"}},
      {{"<invoke name="},
          {"minimax", CallShape::kParameters, "<invoke name=\"", "</invoke>", "\">", "<parameter name=\"",
              "\">", "</parameter>", {"<minimax:tool_call>", "</minimax:tool_call>"}}},
      {{"<param name="}, {"minicpm", CallShape::kParameters, "<function name=\"", "</function>", "\">",
                             "<param name=\"", "\">", "</param>"}},
      {{"<｜DSML｜invoke name="},
          {"deepseek-v4", CallShape::kParameters, "<｜DSML｜invoke name=\"", "</｜DSML｜invoke>", "\">",
              "<｜DSML｜parameter name=\"", "\">", "</｜DSML｜parameter>",
              {"<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>"}}},
      {{"<|function_call|>"}, {"gigachat", CallShape::kJson, "<|function_call|>", "", ""}},
      {{"<tool_call>"}, {"hermes", CallShape::kJson, "<tool_call>", "</tool_call>", ""}},
      {{"<|tool_call|>"}, {"granite", CallShape::kJson, "<|tool_call|>", "", ""}},
      {{"<TOOLCALL>"}, {"nemotron", CallShape::kJson, "<TOOLCALL>", "</TOOLCALL>", ""}},
      {{"functools["}, {"firefunction", CallShape::kJson, "functools", "", ""}},
      {{"<|START_ACTION|>"}, {"command-r", CallShape::kJson, "<|START_ACTION|>", "<|END_ACTION|>", ""}},
      {{"<function="}, {"llama-function", CallShape::kNamed, "<function=", "</function>", ">"}},
      {{"tools", "\"parameters\""},
          {"llama3", CallShape::kJson, "<|python_tag|>", "", "", {}, {}, {}, {}, "parameters", true}},
      {{}, {"json", CallShape::kJson, "", "", "", {}, {}, {}, {}, "arguments", true}},
  };
  return rules;
}

}  // namespace

const std::vector<ToolDialect>& all_dialects() {
  static const std::vector<ToolDialect> dialects = dialects_of(all_rules());
  return dialects;
}

const ToolDialect& json_dialect() { return all_dialects().back(); }

const ToolDialect& find_dialect(std::string_view template_source) {
  const std::vector<Rule>& rules = all_rules();
  for (size_t i = 0; i < rules.size(); ++i) {
    bool all = true;
    for (const std::string_view word : rules[i].words)
      all = all && template_source.find(word) != std::string_view::npos;
    if (all) return all_dialects()[i];
  }
  return json_dialect();
}

ToolCallFormat call_format(
    const ToolDialect& dialect, const std::vector<ToolUse>& tools, int64_t min, int64_t max, bool free_text) {
  const std::string_view line = dialect.close.empty() ? "" : "\n";
  ToolCallFormat result{.forms = {},
      .trigger = std::string(free_text ? dialect.trigger : ""),
      .separator = "\n",
      .min_calls = min,
      .max_calls = max};
  for (const ToolUse& tool : tools)
    result.forms.push_back(
        {format("{}{}{{\"name\": \"{}\", \"{}\": ", dialect.trigger, line, tool.name, dialect.arguments_key),
            tool.schema, format("}}{}{}", line, dialect.close)});
  return result;
}

}  // namespace cheetah
