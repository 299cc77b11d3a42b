// SPDX-License-Identifier: MIT
// The ways to make a program.
#include <algorithm>
#include <bit>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/format.h"
#include "base/random.h"
#include "engine/grammar/ebnf.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/json_text.h"
#include "engine/grammar/regex.h"
#include "engine/grammar/schema.h"

namespace cheetah {
namespace {

using Program = GrammarProgram::Program;
using Vocabulary = GrammarProgram::Vocabulary;

// How far warming goes: walks from the beginning, each of so many tokens, within so many elementary steps
// (about ten milliseconds).
constexpr int kWarmWalks = 6, kWarmTokens = 48;
constexpr int64_t kWarmWork = 2'000'000, kWarmBytes = int64_t{8} << 20;

// A random token that the mask allows, near a random place. None: -1.
int32_t pick_allowed(std::span<const uint64_t> words, Philox& random) {
  const size_t begin = random.next_u32() % words.size();
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t at = (begin + i) % words.size();
    if (words[at] != 0) return static_cast<int32_t>(at * 64) + std::countr_zero(words[at]);
  }
  return -1;
}

// Follows allowed tokens from the beginning and asks for the mask of every state on the way.
void walk(TokenMasks& masks, const TokenVocabulary& vocabulary, Philox& random, int64_t work_limit) {
  Configurations& configurations = masks.configurations();
  std::vector<uint64_t> words(vocabulary.mask_words());
  ConfigId at = configurations.start();
  for (int i = 0; i < kWarmTokens; ++i) {
    if (configurations.work() > work_limit || masks.bytes() > kWarmBytes || !masks.fill(at, words)) return;
    const int32_t id = pick_allowed(words, random);
    if (id < 0 || vocabulary.is_eos(id)) return;
    for (const char byte : vocabulary.bytes(id)) at = configurations.after(at, static_cast<uint8_t>(byte));
    if (at == ConfigId::kDead) return;
  }
}

struct Compilation {
  GrammarSource source;
  Vocabulary vocabulary;
  const GrammarLimits& limits;
};

template <class Build>
Program compile_rules(Compilation of, bool require_all, const Build& build) {
  CompileBudget budget(of.limits);
  GrammarTree tree(budget);
  build(tree);
  auto program = std::make_shared<GrammarProgram>(
      build_automaton(tree, budget, require_all), std::move(of.vocabulary), std::move(of.source));
  program->warm(budget);
  return program;
}

template <class Build>
Program compile_expression(const char* name, Compilation of, const Build& build) {
  return compile_rules(std::move(of), false, [&](GrammarTree& tree) {
    const RuleId root = tree.declare_rule(name);
    tree.define_rule(root, build(tree));
    tree.set_root(root);
  });
}

std::vector<std::string> all_triggers(const ToolCallFormat& format_spec) {
  std::vector<std::string> triggers = format_spec.more_triggers;
  if (!format_spec.trigger.empty()) triggers.insert(triggers.begin(), format_spec.trigger);
  return triggers;
}

std::optional<size_t> trigger_of(const ToolForm& form, const std::vector<std::string>& triggers) {
  for (size_t k = 0; k < triggers.size(); ++k)
    if (form.prefix.starts_with(triggers[k])) return k;
  return std::nullopt;
}

void check_format(const ToolCallFormat& format_spec) {
  if (format_spec.forms.empty()) throw Error("tool calls: expected at least one form");
  if (format_spec.min_calls < 0 || (format_spec.max_calls != kUnbounded && format_spec.max_calls < 1) ||
      (format_spec.max_calls != kUnbounded && format_spec.min_calls > format_spec.max_calls))
    throw Error("tool calls: expected 0 ≤ min_calls ≤ max_calls and at least one call allowed");
  const std::vector<std::string> triggers = all_triggers(format_spec);
  for (const std::string& trigger : triggers)
    if (trigger.empty() ||
        std::ranges::any_of(trigger, [](char c) { return static_cast<unsigned char>(c) >= 0x80; }))
      throw Error("tool calls: expected triggers in ASCII, none of them empty");
  for (const ToolForm& form : format_spec.forms)
    if (!triggers.empty() && !trigger_of(form, triggers))
      throw Error(format(
          "tool calls: expected every prefix to begin with a trigger, such as {}", printable(triggers[0])));
}

ExprId form_after(const ToolForm& form, size_t passed, GrammarTree& tree) {
  JsonText json(tree);
  const ExprId arguments =
      form.json_schema.empty() ? json.any_object() : compile_json_schema(form.json_schema, tree);
  return tree.sequence({tree.literal(form.prefix.substr(passed)), arguments, tree.literal(form.suffix)});
}

ExprId rule_of(const char* name, ExprId body, GrammarTree& tree) {
  const RuleId rule = tree.declare_rule(name);
  tree.define_rule(rule, body);
  return tree.rule(rule);
}

// Text through the first trigger, and then one of the forms that begin with it.
ExprId triggered_call(
    const ToolCallFormat& format_spec, const std::vector<std::string>& triggers, GrammarTree& tree) {
  std::vector<ExprId> ways;
  for (size_t k = 0; k < triggers.size(); ++k) {
    std::vector<ExprId> forms;
    for (const ToolForm& form : format_spec.forms)
      if (trigger_of(form, triggers) == k) forms.push_back(form_after(form, triggers[k].size(), tree));
    if (forms.empty()) continue;
    const ExprId call = rule_of("a tool call", tree.choice(std::move(forms)), tree);
    ways.push_back(tree.sequence({tree.text_through(triggers, k), call}));
  }
  return tree.choice(std::move(ways));
}

ExprId tool_calls(const ToolCallFormat& format_spec, GrammarTree& tree) {
  const std::vector<std::string> triggers = all_triggers(format_spec);
  const int64_t min = format_spec.min_calls, max = format_spec.max_calls;
  if (!triggers.empty())
    return tree.sequence(
        {tree.repeat(triggered_call(format_spec, triggers, tree), min, max), tree.text_without(triggers)});
  std::vector<ExprId> ways;
  for (const ToolForm& form : format_spec.forms) ways.push_back(form_after(form, 0, tree));
  const ExprId call = rule_of("a tool call", tree.choice(std::move(ways)), tree);
  const ExprId further = tree.sequence({tree.literal(format_spec.separator), call});
  const ExprId calls = tree.sequence(
      {call, tree.repeat(further, std::max<int64_t>(0, min - 1), max == kUnbounded ? kUnbounded : max - 1)});
  return min == 0 ? tree.optional(calls) : calls;
}

}  // namespace

GrammarProgram::GrammarProgram(Automaton automaton, Vocabulary vocabulary, GrammarSource source)
    : automaton_(std::move(automaton)), vocabulary_(std::move(vocabulary)), source_(std::move(source)) {}

void GrammarProgram::warm(CompileBudget& budget) {
  auto masks = std::make_shared<TokenMasks>(automaton_, *vocabulary_);
  const Configurations& configurations = masks->configurations();
  const bool any = masks->any(configurations.start());
  if (!any && configurations.work() > TokenMasks::kMaxWork)
    throw Error("grammar_too_complex: ambiguity: too many ways to read the same text");
  if (!any) throw Error("grammar: cannot be satisfied by this tokenizer: no token can come first");
  budget.step(configurations.work());
  Philox random(1);
  const int64_t work_limit = configurations.work() + kWarmWork;
  for (int i = 0; i < kWarmWalks; ++i) walk(*masks, *vocabulary_, random, work_limit);
  warm_.swap_in(masks);
}

std::shared_ptr<TokenMasks> GrammarProgram::take_warm_masks() const {
  std::shared_ptr<TokenMasks> taken;
  warm_.swap_in(taken);
  return taken;
}

Program GrammarProgram::from_json_schema(
    std::string_view schema, Vocabulary vocabulary, const GrammarLimits& limits) {
  return compile_expression("the schema",
      {{"json_schema", std::string(schema)}, std::move(vocabulary), limits},
      [&](GrammarTree& tree) { return compile_json_schema(schema, tree); });
}

Program GrammarProgram::from_regex(
    std::string_view regex, Vocabulary vocabulary, const GrammarLimits& limits) {
  return compile_expression(
      "the regex", {{"regex", std::string(regex)}, std::move(vocabulary), limits}, [&](GrammarTree& tree) {
        return parse_regex(regex, tree, {.in_json_string = false, .search = false});
      });
}

Program GrammarProgram::from_ebnf(std::string_view text, Vocabulary vocabulary, const GrammarLimits& limits) {
  return compile_rules({{"ebnf", std::string(text)}, std::move(vocabulary), limits}, true,
      [&](GrammarTree& tree) { parse_ebnf(text, tree); });
}

Program GrammarProgram::any_json_object(Vocabulary vocabulary, const GrammarLimits& limits) {
  return compile_expression("a JSON object", {{"json_object", ""}, std::move(vocabulary), limits},
      [](GrammarTree& tree) { return JsonText(tree).any_object(); });
}

Program GrammarProgram::any_json_value(Vocabulary vocabulary, const GrammarLimits& limits) {
  return compile_expression("a JSON value", {{"json_value", ""}, std::move(vocabulary), limits},
      [](GrammarTree& tree) { return JsonText(tree).any_value(); });
}

Program GrammarProgram::from_tool_calls(
    const ToolCallFormat& format, Vocabulary vocabulary, const GrammarLimits& limits) {
  check_format(format);
  return compile_expression("the tool calls", {source_of(format), std::move(vocabulary), limits},
      [&](GrammarTree& tree) { return tool_calls(format, tree); });
}

}  // namespace cheetah
