// SPDX-License-Identifier: MIT
#pragma once
// Constrained decoding: a JSON schema, a regex or an EBNF grammar becomes a program once; each choice of a
// request that uses it carries a small state that says which tokens may come next.
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/published.h"
#include "engine/grammar/automaton.h"
#include "engine/grammar/limits.h"
#include "engine/grammar/token_masks.h"
#include "engine/grammar/vocabulary.h"

namespace cheetah {

// One way to write a tool call: prefix and suffix literally, between them a JSON value of the schema.
struct ToolForm {
  std::string prefix;       // e.g. <tool_call>{"name": "get_weather", "arguments":
  std::string json_schema;  // of the arguments; empty: any JSON object
  std::string suffix;       // e.g. }</tool_call>
};

struct ToolCallFormat {
  std::vector<ToolForm> forms;
  // Not empty: free text may come before, between and after calls, and a call begins where this text first
  // comes up. ASCII, and every prefix begins with it. Empty: calls and nothing else.
  std::string trigger;
  std::vector<std::string> more_triggers = {};  // beside it: a prefix then begins with one of all
  std::string separator;                        // between two calls, without free text
  int64_t min_calls = 1;                        // 0: no call is fine too
  int64_t max_calls = 1;                        // kUnbounded: as many as the model likes
};

// What a program was compiled from, as text: enough to compile it again for the same vocabulary, perhaps in
// another process, gets the same program.
struct GrammarSource {
  std::string kind;  // json_schema, regex, ebnf, json_object, json_value or tool_calls
  std::string text;  // of tool_calls: the format as JSON; of json_object and json_value: nothing

  bool operator==(const GrammarSource&) const = default;
};
GrammarSource source_of(const ToolCallFormat& format);
ToolCallFormat tool_calls_of(const GrammarSource& source);  // throws Error

// What a grammar compiles to. Immutable; any thread may share it. Compiling belongs off the engine thread: it
// may take as long as the limits say. The constructors throw Error with one sentence for the client.
class GrammarProgram {
 public:
  // Shared: every program of a model reads the same vocabulary.
  using Vocabulary = std::shared_ptr<const TokenVocabulary>;
  using Program = std::shared_ptr<const GrammarProgram>;

  static Program from_json_schema(
      std::string_view schema, Vocabulary vocabulary, const GrammarLimits& limits = {});
  static Program from_regex(std::string_view regex, Vocabulary vocabulary, const GrammarLimits& limits = {});
  static Program from_ebnf(std::string_view text, Vocabulary vocabulary, const GrammarLimits& limits = {});
  static Program any_json_object(Vocabulary vocabulary, const GrammarLimits& limits = {});
  static Program any_json_value(Vocabulary vocabulary, const GrammarLimits& limits = {});
  static Program from_tool_calls(
      const ToolCallFormat& format, Vocabulary vocabulary, const GrammarLimits& limits = {});

  static Program from_source(
      const GrammarSource& source, Vocabulary vocabulary, const GrammarLimits& limits = {});

  GrammarProgram(Automaton automaton, Vocabulary vocabulary, GrammarSource source);
  const GrammarSource& source() const { return source_; }
  const Automaton& automaton() const { return automaton_; }
  const TokenVocabulary& vocabulary() const { return *vocabulary_; }

  // Finds out that no first token exists, or that choosing one takes too long (throws Error), and computes
  // the masks of likely states, so that the first steps of a request find them ready. Compiling ends with it.
  void warm(CompileBudget& budget);
  // The masks computed so far, for the first who asks; nothing for others.
  std::shared_ptr<TokenMasks> take_warm_masks() const;

 private:
  Automaton automaton_;
  Vocabulary vocabulary_;
  GrammarSource source_;
  // Shared: moves to its taker, perhaps on another thread than the one that made it.
  mutable Published<std::shared_ptr<TokenMasks>> warm_;
};

// The tables of one program as decoding fills them: shared by the states that use the program, on one thread.
class GrammarTables {
 public:
  explicit GrammarTables(std::shared_ptr<const GrammarProgram> program);
  const GrammarProgram& program() const { return *program_; }
  const std::shared_ptr<TokenMasks>& masks();  // not full

 private:
  std::shared_ptr<const GrammarProgram> program_;  // shared: requests and the cache of compiled grammars
  std::shared_ptr<TokenMasks> masks_;              // shared: states that began before it was full
};

// How far one choice has come in its grammar: a pure function of the program and the accepted bytes, so
// replaying the tokens of a request on another worker gives an equal state. Cheap to copy.
class GrammarState {
 public:
  // With tables of its own: for a single use. An engine asks its GrammarRuntime.
  explicit GrammarState(std::shared_ptr<const GrammarProgram> program);
  explicit GrammarState(std::shared_ptr<GrammarTables> tables);

  // Bit id % 64 of word id / 64: the token may come next. End-of-text ids only where the text is complete.
  // `words` may be longer than the vocabulary needs; the rest is cleared.
  void fill_mask(std::span<uint64_t> words);
  // False, and no change, for a token the mask does not allow.
  bool accept(int32_t token);
  bool accept_bytes(std::string_view bytes);
  // The text could end here.
  bool is_complete() const;
  // An end-of-text token was accepted.
  bool has_ended() const { return ended_; }
  // No token can follow, not even end of text: generation must stop with an error, never sample.
  bool is_dead_end();
  // What must follow, up to max_bytes: the model need not be asked. Empty where there is a choice.
  std::string forced_text(size_t max_bytes = 256);

 private:
  void leave_full_table();

  std::shared_ptr<GrammarTables> tables_;  // shared: all states of the program on this thread
  std::shared_ptr<TokenMasks> masks_;      // shared: the tables' own and the states in it
  ConfigId config_;
  bool ended_ = false;
};

// The tables of recently used programs, so that requests with the same grammar share their masks. Owned and
// used by one thread, the engine's.
class GrammarRuntime {
 public:
  explicit GrammarRuntime(size_t max_programs = 32) : max_programs_(max_programs) {}
  GrammarState start(const std::shared_ptr<const GrammarProgram>& program);

 private:
  size_t max_programs_;
  std::list<std::shared_ptr<GrammarTables>> recent_;  // newest first; shared with running states
};

}  // namespace cheetah
