// SPDX-License-Identifier: MIT
#include "model/template/chat_template.h"

#include "base/error.h"
#include "base/format.h"
#include "model/template/ast.h"
#include "model/template/interpreter.h"
#include "model/template/parser.h"

namespace cheetah {
namespace {

std::unique_ptr<const jinja::Program> parse(
    std::string_view source, std::string name, TemplateLimits limits) {
  auto program = std::make_unique<jinja::Program>();
  program->name = std::move(name);
  program->limits = limits;
  if (static_cast<int64_t>(source.size()) > limits.max_source_bytes) {
    throw Error(format("{}: chat template of {} bytes, more than the limit of {}", program->name,
        source.size(), limits.max_source_bytes));
  }
  try {
    jinja::Parser(jinja::tokenize(source), *program).parse();
  } catch (const jinja::SyntaxError& problem) {
    throw Error(
        format("{}: chat template error at line {}: {}", program->name, problem.line(), problem.what()));
  }
  return program;
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view source, std::string name, TemplateLimits limits)
    : source_(source), program_(parse(source, std::move(name), limits)) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

std::string ChatTemplate::render(std::string_view variables_json, int64_t now) const {
  const jinja::Value variables = jinja::read_json(variables_json, program_->name + ": template variables");
  if (!variables.is_dict())
    throw Error(format("{}: template variables must be a JSON object", program_->name));
  jinja::Interpreter interpreter(*program_, now);
  try {
    return interpreter.render(variables.dict_of());
  } catch (const jinja::Failure& problem) {
    throw Error(
        format("{}: chat template error at line {}: {}", program_->name, interpreter.line(), problem.what()));
  }
}

}  // namespace cheetah
