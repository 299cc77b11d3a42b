// SPDX-License-Identifier: MIT
#include "engine/grammar/grammar_cache.h"

#include "base/error.h"
#include "base/format.h"

namespace cheetah {

GrammarCache::GrammarCache(const Model& model, size_t max_programs, GrammarLimits limits)
    : tables_(model), max_programs_(max_programs), limits_(limits) {}

size_t GrammarCache::size() const {
  const std::lock_guard lock(mutex_);
  return recent_.size();
}

GrammarProgram::Vocabulary GrammarCache::vocabulary() const {
  if (!tables_.vocabulary()) throw Error("grammar: the model has no tokenizer, so its text cannot be guided");
  return tables_.vocabulary();
}

GrammarCache::Program GrammarCache::find_or_compile(
    std::string key, const std::function<Program()>& compile) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = by_key_.find(key); known != by_key_.end()) {
      recent_.splice(recent_.begin(), recent_, known->second);
      return recent_.front().second;
    }
  }
  Program program = compile();
  const std::lock_guard lock(mutex_);
  if (by_key_.contains(key)) return program;  // another thread was faster
  recent_.emplace_front(std::move(key), program);
  by_key_.emplace(recent_.front().first, recent_.begin());
  if (recent_.size() > max_programs_) {
    by_key_.erase(recent_.back().first);
    recent_.pop_back();
  }
  return program;
}

GrammarCache::Program GrammarCache::json_schema(std::string_view schema) {
  return find_or_compile(format("schema\n{}", schema),
      [&] { return GrammarProgram::from_json_schema(schema, vocabulary(), limits_); });
}

GrammarCache::Program GrammarCache::regex(std::string_view regex) {
  return find_or_compile(
      format("regex\n{}", regex), [&] { return GrammarProgram::from_regex(regex, vocabulary(), limits_); });
}

GrammarCache::Program GrammarCache::ebnf(std::string_view text) {
  return find_or_compile(
      format("ebnf\n{}", text), [&] { return GrammarProgram::from_ebnf(text, vocabulary(), limits_); });
}

GrammarCache::Program GrammarCache::json_object() {
  return find_or_compile("object", [&] { return GrammarProgram::any_json_object(vocabulary(), limits_); });
}

GrammarCache::Program GrammarCache::tool_calls(const ToolCallFormat& wanted) {
  // Lengths in front of the texts: no two formats share a key.
  std::string key = format("tools\n{} {} {}:{} {}:{}", wanted.min_calls, wanted.max_calls,
      wanted.trigger.size(), wanted.trigger, wanted.separator.size(), wanted.separator);
  for (const std::string& trigger : wanted.more_triggers) key += format(" t{}:{}", trigger.size(), trigger);
  for (const ToolForm& form : wanted.forms)
    for (const std::string* part : {&form.prefix, &form.json_schema, &form.suffix})
      key += format(" {}:{}", part->size(), *part);
  return find_or_compile(
      std::move(key), [&] { return GrammarProgram::from_tool_calls(wanted, vocabulary(), limits_); });
}

GrammarCache::Program GrammarCache::from_source(const GrammarSource& source) {
  if (source.kind == "json_schema") return json_schema(source.text);
  if (source.kind == "regex") return regex(source.text);
  if (source.kind == "ebnf") return ebnf(source.text);
  if (source.kind == "json_object") return json_object();
  if (source.kind == "tool_calls") return tool_calls(tool_calls_of(source));
  return GrammarProgram::from_source(source, vocabulary(), limits_);
}

}  // namespace cheetah
