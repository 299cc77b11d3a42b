// SPDX-License-Identifier: MIT
// What constrained decoding costs with a large vocabulary: compiling, the first mask of each state, and a
// mask that is already known. Prints one line per grammar; the numbers in NOTES.md come from here.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <numeric>

#include "base/random.h"
#include "base/statistics.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/synthetic_vocabulary.h"

namespace cheetah {
namespace {

constexpr size_t kVocabularySize = 128 * 1024;

// Processor time of this thread: what other programs do at the same time does not count.
double milliseconds(const std::function<void()>& work) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
  };
  const double start = now();
  work();
  return now() - start;
}

struct Costs {
  std::vector<double> first_ms, again_ms;
};

// Follows random allowed tokens, timing the mask of each step in a fresh table and then once more.
void walk(const std::shared_ptr<const GrammarProgram>& program, GrammarRuntime& runtime, uint64_t seed,
    Costs& costs) {
  const TokenVocabulary& vocabulary = program->vocabulary();
  Philox random(seed);
  GrammarState state = runtime.start(program);
  std::vector<uint64_t> words(vocabulary.mask_words());
  for (int step = 0; step < 60 && !state.has_ended(); ++step) {
    costs.first_ms.push_back(milliseconds([&] { state.fill_mask(words); }));
    costs.again_ms.push_back(milliseconds([&] { state.fill_mask(words); }));
    std::vector<int32_t> allowed;
    for (int32_t id = 0; id < vocabulary.size(); ++id)
      if (words[static_cast<size_t>(id) / 64] >> (id % 64) & 1) allowed.push_back(id);
    if (allowed.empty() || !state.accept(allowed[random.next_u32() % allowed.size()])) return;
  }
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

void measure(const char* name, const std::function<std::shared_ptr<const GrammarProgram>()>& compile) {
  std::shared_ptr<const GrammarProgram> program;
  double compile_ms = 1e9;
  for (int i = 0; i < 3; ++i) compile_ms = std::min(compile_ms, milliseconds([&] { program = compile(); }));
  GrammarRuntime runtime;
  Costs costs;
  for (uint64_t seed = 0; seed < 20; ++seed) walk(program, runtime, seed, costs);
  std::printf(
      "%-22s %9d states  compile %7.2f ms  mask mean %.4f p50 %.4f p90 %.4f p99 %.4f max %.3f ms  again p50 "
      "%.4f p99 "
      "%.4f ms\n",
      name, program->automaton().num_states, compile_ms, mean(costs.first_ms), quantile(costs.first_ms, 0.5),
      quantile(costs.first_ms, 0.9), quantile(costs.first_ms, 0.99), quantile(costs.first_ms, 1),
      quantile(costs.again_ms, 0.5), quantile(costs.again_ms, 0.99));
}

void run() {
  GrammarProgram::Vocabulary vocabulary;
  std::printf("vocabulary of %zu tokens: built in %.1f ms\n", kVocabularySize,
      milliseconds([&] { vocabulary = make_synthetic_vocabulary(kVocabularySize); }));
  const auto schema = [&](const char* text) {
    return [=] { return GrammarProgram::from_json_schema(text, vocabulary); };
  };
  measure("any JSON object", [&] { return GrammarProgram::any_json_object(vocabulary); });
  measure("person",
      schema(
          R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":130},
    "tags":{"type":"array","items":{"type":"string"}}},"required":["name","age"]})"));
  measure("bounded strings",
      schema(R"({"type":"array","items":{"type":"string","maxLength":200},"minItems":1})"));
  measure("tree",
      schema(
          R"({"$defs":{"n":{"type":"object","properties":{"v":{"type":"string"},"c":{"type":"array","items":
    {"$ref":"#/$defs/n"}}},"required":["v"]}},"$ref":"#/$defs/n"})"));
  measure("formats",
      schema(
          R"({"type":"object","properties":{"when":{"type":"string","format":"date-time"},"id":{"type":"string",
    "format":"uuid"},"mail":{"type":"string","format":"email"}},"required":["when","id","mail"]})"));
  measure("regex", [&] { return GrammarProgram::from_regex("(?:[A-Z][a-z]+ ){1,5}[0-9]{2,4}", vocabulary); });
  measure("prose regex", [&] { return GrammarProgram::from_regex("[^{}<>]{0,400}", vocabulary); });
  measure("arithmetic EBNF", [&] {
    return GrammarProgram::from_ebnf(
        "root ::= t ([-+*/] t)*\nt ::= [0-9]{1,9} | [a-z]+ | \"(\" root \")\"", vocabulary);
  });
  measure("tool call", [&] {
    ToolCallFormat format;
    format.trigger = "<tool_call>";
    format.min_calls = 0;
    format.forms = {{R"(<tool_call>{"name": "f", "arguments": )", "", "}</tool_call>"}};
    return GrammarProgram::from_tool_calls(format, vocabulary);
  });
}

}  // namespace
}  // namespace cheetah

int main() { cheetah::run(); }
