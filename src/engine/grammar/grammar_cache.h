// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "engine/grammar/grammar.h"
#include "engine/grammar/model_tables.h"

namespace cheetah {

// The grammars lately compiled for a model, least recently used ones dropped first, and the model's tables.
// Any thread may use it; it compiles outside its lock, so two threads may compile the same text at once.
class GrammarCache {
 public:
  using Program = GrammarProgram::Program;

  // The model must outlive it. Reads the whole vocabulary: belongs into loading.
  explicit GrammarCache(const Model& model, size_t max_programs = 64, GrammarLimits limits = {});

  // Throw Error with one sentence for the client.
  Program json_schema(std::string_view schema);
  Program regex(std::string_view regex);
  Program ebnf(std::string_view text);
  Program json_object();
  Program tool_calls(const ToolCallFormat& format);
  Program from_source(const GrammarSource& source);  // of a program that another process compiled

  const ModelTables& tables() const { return tables_; }
  size_t size() const;

 private:
  Program find_or_compile(std::string key, const std::function<Program()>& compile);
  GrammarProgram::Vocabulary vocabulary() const;

  ModelTables tables_;
  size_t max_programs_;
  GrammarLimits limits_;
  mutable std::mutex mutex_;
  std::list<std::pair<std::string, Program>> recent_;  // newest first
  std::unordered_map<std::string_view, std::list<std::pair<std::string, Program>>::iterator> by_key_;
};

}  // namespace cheetah
