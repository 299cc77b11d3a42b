// SPDX-License-Identifier: MIT
#pragma once
// What the parser makes of a template.
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/template/chat_template.h"
#include "model/template/value.h"

namespace cheetah::jinja {

enum class ExprKind {
  kConstant,
  kName,          // symbol
  kNamespaceRef,  // symbol.text, only as a target
  kList,
  kTuple,
  kDict,       // items: key, value, key, value …
  kAttribute,  // items[0].text
  kItem,       // items[0][items[1]]
  kSlice,      // items[0][items[1]:items[2]:items[3]], absent parts are null
  kCall,
  kFilter,  // text; items[0] is null at the head of a filter block
  kTest,
  kNot,
  kNegative,
  kPositive,
  kAnd,
  kOr,
  kBinary,       // text: + - * / // % **
  kConcat,       // ~
  kCompare,      // items[0], then operand i with operators[i]
  kConditional,  // items: condition, then, else (null when absent)
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Filter;
struct Test;

struct Keyword {
  std::string name;
  ExprPtr value;
};

struct Expr {
  ExprKind kind = ExprKind::kConstant;
  int line = 0;
  int depth = 1;
  int symbol = -1;
  char op = 0;  // kBinary: + - * / % and 'f' for //, 'p' for **
  std::string text;
  Value constant;
  std::vector<ExprPtr> items;
  std::vector<std::string> operators;
  std::vector<ExprPtr> arguments;
  std::vector<Keyword> keywords;
  ExprPtr star;
  ExprPtr star_star;
};

enum class StatementKind {
  kOutput,  // expressions printed one after another
  kText,
  kIf,  // branches
  kFor,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kScope,  // a body with its own names: generation, autoescape and block tags
  kBreak,
  kContinue,
  kDo,
};

struct Statement;
using Body = std::vector<std::unique_ptr<Statement>>;

struct Branch {
  ExprPtr condition;  // null: else
  Body body;
};

// The head of a macro or of a call block.
struct Signature {
  std::string name;
  std::vector<int> parameters;
  std::vector<std::string> names;
  std::vector<ExprPtr> defaults;  // of the last parameters
  bool uses_caller = false;
  bool uses_varargs = false;
  bool uses_kwargs = false;
};

struct Statement {
  StatementKind kind = StatementKind::kText;
  int line = 0;
  int symbol = -1;
  std::string text;
  std::vector<ExprPtr> expressions;
  ExprPtr target;
  std::vector<ExprPtr> targets;
  ExprPtr value;  // for: the iterable; set: the value; set block, filter block: the filter; call: the call
  ExprPtr condition;  // for … if
  bool recursive = false;
  Body body;
  Body otherwise;
  std::vector<Branch> branches;
  Signature signature;
};

struct Symbols {
  std::vector<std::string> names;
  std::unordered_map<std::string, int> index;
  int intern(const std::string& name) {
    const auto [at, added] = index.emplace(name, static_cast<int>(names.size()));
    if (added) names.push_back(name);
    return at->second;
  }
};

struct Program {
  std::string name;
  TemplateLimits limits;
  Symbols symbols;
  Body body;
  int loop_symbol = -1, caller_symbol = -1, varargs_symbol = -1, kwargs_symbol = -1;
};

}  // namespace cheetah::jinja
