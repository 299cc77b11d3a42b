// SPDX-License-Identifier: MIT
#include "engine/grammar/grammar.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/grammar/grammar_fixture.h"

namespace cheetah {
namespace {

TEST(GrammarVocabulary, TheTrieHoldsEveryTokenOnceAndInOrder) {
  const TokenVocabulary vocabulary(
      {"b", "a", "", "ab", "abc", "a", "\xC3\xA9", "x\"", std::string(300, 'z')}, {2});
  std::vector<std::string> found;
  std::string path;
  const auto nodes = vocabulary.nodes();
  for (size_t i = 0; i + 1 < nodes.size(); ++i) {
    path.resize(nodes[i].depth - 1u);
    path.push_back(static_cast<char>(nodes[i].byte));
    for (int32_t rank = nodes[i].first_token; rank < nodes[i + 1].first_token; ++rank) {
      EXPECT_EQ(vocabulary.bytes(vocabulary.ids_by_rank()[static_cast<size_t>(rank)]), path);
      found.push_back(path);
    }
  }
  EXPECT_EQ(found, (std::vector<std::string>{"a", "a", "ab", "abc", "b", "x\"", "\xC3\xA9"}));
}

TEST(GrammarVocabulary, KnowsWhichSubtreesAreWholeText) {
  const TokenVocabulary vocabulary({"a", "abc", "x", "x\"", "\xC3", "\xC3\xA9\xC3", "\xFF"}, {});
  std::map<std::string, int> height;
  std::string path;
  for (const TokenVocabulary::Node& node : vocabulary.nodes()) {
    if (node.depth == 0) break;
    path.resize(node.depth - 1u);
    path.push_back(static_cast<char>(node.byte));
    height[path] = node.text_height;
  }
  EXPECT_EQ(height["a"], 2);
  EXPECT_EQ(height["abc"], 0);
  EXPECT_EQ(height["x"], 1);
  EXPECT_EQ(height["\xC3"], TokenVocabulary::kNotText);  // inside a character
  EXPECT_EQ(height["\xC3\xA9"], 1);                      // the start of one more
}

TEST(GrammarState, EndOfTextIsAllowedOnlyWhereTheTextIsComplete) {
  const Vocabulary vocabulary = byte_vocabulary({"ab", "abab", "ba"});
  GrammarState state(GrammarProgram::from_regex("(?:ab){1,2}", vocabulary));
  EXPECT_FALSE(allows(mask_of(state, *vocabulary), 0));
  EXPECT_FALSE(state.accept(0));
  EXPECT_TRUE(allows(mask_of(state, *vocabulary), 258));
  EXPECT_FALSE(allows(mask_of(state, *vocabulary), 259));
  ASSERT_TRUE(state.accept(257));
  EXPECT_TRUE(allows(mask_of(state, *vocabulary), 0));
  EXPECT_FALSE(allows(mask_of(state, *vocabulary), 258));
  EXPECT_FALSE(state.accept(258));
  EXPECT_TRUE(state.is_complete());
  ASSERT_TRUE(state.accept(0));
  EXPECT_TRUE(state.has_ended());
  EXPECT_FALSE(state.is_dead_end());
  EXPECT_FALSE(state.accept(257));
  EXPECT_EQ(mask_of(state, *vocabulary), std::vector<uint64_t>(vocabulary->mask_words()));
}

TEST(GrammarState, IdsOutsideTheVocabularyAreRefusedAndLongerMasksCleared) {
  const Vocabulary vocabulary = byte_vocabulary();
  GrammarState state(GrammarProgram::from_regex("a*", vocabulary));
  EXPECT_FALSE(state.accept(-1));
  EXPECT_FALSE(state.accept(100000));
  std::vector<uint64_t> words(vocabulary->mask_words() + 3, ~uint64_t{0});
  state.fill_mask(words);
  EXPECT_EQ(words[vocabulary->mask_words()], 0u);
  EXPECT_TRUE(allows(words, 1 + 'a'));
  EXPECT_FALSE(allows(words, 1 + 'b'));
}

TEST(GrammarState, TokensMayEndInsideACharacter) {
  const Vocabulary vocabulary = byte_vocabulary({"\xE2\x82", "\xAC!", "\xE2\x82\"", "a\xE2"});
  GrammarState state(GrammarProgram::from_json_schema(R"({"type":"string","maxLength":2})", vocabulary));
  ASSERT_TRUE(state.accept_bytes("\""));
  const std::vector<uint64_t> words = mask_of(state, *vocabulary);
  EXPECT_TRUE(allows(words, 257));
  EXPECT_FALSE(allows(words, 258));
  EXPECT_FALSE(allows(words, 259));
  EXPECT_TRUE(allows(words, 260));
  ASSERT_TRUE(state.accept(257));
  EXPECT_FALSE(state.accept_bytes("\""));
  EXPECT_TRUE(allows(mask_of(state, *vocabulary), 258));
}

// Counts around those where chunks of a long repetition meet.
TEST(GrammarState, LongRepetitionsAreCountedExactly) {
  const Vocabulary vocabulary = byte_vocabulary({"aaaa"});
  const struct {
    int64_t min, max;
  } ranges[] = {{0, 2001}, {1, 3000}, {2500, 5100}, {4000, 4000}, {2999, kUnbounded}};
  for (const auto& [min, max] : ranges) {
    const std::string bounds = std::to_string(min) + "," + (max == kUnbounded ? "" : std::to_string(max));
    GrammarState state(GrammarProgram::from_regex("(?:a|bc){" + bounds + "}", vocabulary));
    const int64_t end = max == kUnbounded ? 7000 : max;
    for (int64_t count = 0; count <= end; ++count) {
      ASSERT_EQ(state.is_complete(), count >= min) << count << " of " << bounds;
      ASSERT_EQ(state.accept_bytes(count % 7 == 0 ? "bc" : "a"), count < end || max == kUnbounded)
          << count << " of " << bounds;
    }
  }
}

TEST(GrammarState, LongStringsAndArraysOfASchemaAreCountedExactly) {
  const Vocabulary vocabulary = byte_vocabulary();
  const auto text = [](size_t length) { return "\"" + std::string(length, 'x') + "\""; };
  const auto string = GrammarProgram::from_json_schema(
      R"({"type":"string","minLength":99990,"maxLength":100000})", vocabulary);
  EXPECT_FALSE(matches(string, text(99989)));
  EXPECT_TRUE(matches(string, text(99990)));
  EXPECT_TRUE(matches(string, text(100000)));
  EXPECT_FALSE(matches(string, text(100001)));
  const auto list = [](size_t length) {
    std::string result = "[";
    for (size_t i = 0; i < length; ++i) result += i == 0 ? "7" : ",7";
    return result + "]";
  };
  const auto array = GrammarProgram::from_json_schema(
      R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":5000})", vocabulary);
  EXPECT_FALSE(matches(array, list(0)));
  EXPECT_TRUE(matches(array, list(1)));
  EXPECT_TRUE(matches(array, list(5000)));
  EXPECT_FALSE(matches(array, list(5001)));
}

TEST(GrammarState, ForcedTextIsWhatMustFollow) {
  const Vocabulary vocabulary = byte_vocabulary();
  GrammarState state(GrammarProgram::from_ebnf("root ::= \"{'name':'\" [a-z]+ \"'}\"", vocabulary));
  EXPECT_EQ(state.forced_text(), "{'name':'");
  EXPECT_EQ(state.forced_text(3), "{'n");
  ASSERT_TRUE(state.accept_bytes("{'name':'ab"));
  EXPECT_EQ(state.forced_text(), "");
  ASSERT_TRUE(state.accept_bytes("'"));
  EXPECT_EQ(state.forced_text(), "}");
  ASSERT_TRUE(state.accept_bytes("}"));
  EXPECT_EQ(state.forced_text(), "");
}

TEST(GrammarState, WithoutATokenForTheNextByteItIsADeadEnd) {
  const auto vocabulary =
      std::make_shared<TokenVocabulary>(std::vector<std::string>{"", "a", "b"}, std::vector<int32_t>{0});
  GrammarState state(GrammarProgram::from_regex("abc", vocabulary));
  EXPECT_FALSE(state.is_dead_end());
  ASSERT_TRUE(state.accept(1));
  ASSERT_TRUE(state.accept(2));
  EXPECT_TRUE(state.is_dead_end());
  EXPECT_THROW(GrammarProgram::from_regex("c", vocabulary), Error);
}

TEST(GrammarState, AStateMovesToAFreshTableWithoutAChange) {
  const Vocabulary vocabulary = byte_vocabulary({"]]", "}]", "\"}"});
  const auto program = GrammarProgram::any_json_object(vocabulary);
  TokenMasks old_table(program->automaton(), *vocabulary), fresh(program->automaton(), *vocabulary);
  ConfigId at = old_table.configurations().start();
  for (const char c : std::string_view(R"({"a":[[{"b":[1,"x)"))
    at = old_table.configurations().after(at, static_cast<uint8_t>(c));
  ASSERT_NE(at, ConfigId::kDead);
  const ConfigId moved = fresh.configurations().import(old_table.configurations(), at);
  std::vector<uint64_t> before(vocabulary->mask_words()), after(vocabulary->mask_words());
  old_table.fill(at, before);
  fresh.fill(moved, after);
  EXPECT_EQ(before, after);
  ConfigId end = moved;
  for (const char c : std::string_view(R"("]}]]})"))
    end = fresh.configurations().after(end, static_cast<uint8_t>(c));
  ASSERT_NE(end, ConfigId::kDead);
  EXPECT_TRUE(fresh.configurations().complete(end));
}

TEST(GrammarRuntime, StatesOfOneProgramShareTablesAndOldProgramsAreForgotten) {
  const Vocabulary vocabulary = byte_vocabulary();
  GrammarRuntime runtime(2);
  std::vector<std::shared_ptr<const GrammarProgram>> programs;
  for (int i = 0; i < 4; ++i)
    programs.push_back(GrammarProgram::from_regex("a{" + std::to_string(i + 1) + "}", vocabulary));
  std::vector<GrammarState> states;
  for (const auto& program : programs) states.push_back(runtime.start(program));
  for (size_t i = 0; i < states.size(); ++i) {
    EXPECT_TRUE(matches(states[i], std::string(i + 1, 'a')));
    EXPECT_FALSE(matches(states[i], std::string(i + 2, 'a')));
    EXPECT_TRUE(matches(runtime.start(programs[i]), std::string(i + 1, 'a')));
  }
}

ToolCallFormat weather_tools() {
  ToolCallFormat format;
  format.trigger = "<tool_call>";
  format.forms = {{R"(<tool_call>{"name": "get_weather", "arguments": )",
                      R"({"type":"object","properties":{"city":{"type":"string"}},"required":["city"]})",
                      "}</tool_call>"},
      {R"(<tool_call>{"name": "now", "arguments": )", "", "}</tool_call>"}};
  return format;
}

TEST(GrammarToolCalls, FreeTextRunsUntilTheTriggerAndThenTheFormHolds) {
  const Vocabulary vocabulary = byte_vocabulary();
  ToolCallFormat format = weather_tools();
  format.min_calls = 0;
  const GrammarState state(GrammarProgram::from_tool_calls(format, vocabulary));
  const std::string call = R"(<tool_call>{"name": "get_weather", "arguments": {"city":"Kyiv"}}</tool_call>)";
  EXPECT_TRUE(matches(state, ""));
  EXPECT_TRUE(matches(state, "Just text, <b>no</b> <tool_cal> call, <<tool_cal \xC3\xA9"));
  EXPECT_TRUE(matches(state, "Let me see. <<" + call));
  EXPECT_TRUE(matches(state, call + " done"));
  EXPECT_FALSE(matches(state, call + call));
  EXPECT_FALSE(is_prefix(state, "<tool_call>x"));
  EXPECT_FALSE(is_prefix(state, R"(hm <tool_call>{"name": "other)"));
  EXPECT_FALSE(matches(state, "x <tool_call>{\"name\": \"now\""));
  EXPECT_FALSE(is_prefix(state, "\xFF"));
}

// Aho-Corasick by its definition: the first place where a trigger ends, whatever began before it.
TEST(GrammarToolCalls, TheFirstOfSeveralTriggersDecides) {
  const Vocabulary vocabulary = byte_vocabulary();
  ToolCallFormat format;
  format.trigger = "<fun";
  format.more_triggers = {"[call", "<f>"};
  format.forms = {{"<function=a>", R"({"const":1})", "</function>"},
      {"<function=b>", R"({"const":2})", "</function>"}, {"[call:", R"({"const":3})", "]"},
      {"<f>", R"({"const":4})", ";"}};
  format.min_calls = 0;
  format.max_calls = kUnbounded;
  const GrammarState state(GrammarProgram::from_tool_calls(format, vocabulary));
  EXPECT_TRUE(matches(state, ""));
  EXPECT_TRUE(matches(state, "<f [cal <fu <<f [ca text"));
  EXPECT_TRUE(matches(state, "a <function=b>2</function> b [call:3] c <<f>4; <fu"));
  EXPECT_TRUE(matches(state, "<f<function=a>1</function>"));
  EXPECT_TRUE(matches(state, "[cal[call:3]"));
  EXPECT_FALSE(is_prefix(state, "<function=c"));
  EXPECT_FALSE(is_prefix(state, "x [call!"));
  EXPECT_FALSE(is_prefix(state, "<function=a>2"));
  EXPECT_FALSE(matches(state, "<function=a>1"));
  format.forms.push_back({"{", "", "}"});
  EXPECT_THROW(GrammarProgram::from_tool_calls(format, vocabulary), Error) << "it begins with none";
}

TEST(GrammarToolCalls, RequiredAndParallelCalls) {
  const Vocabulary vocabulary = byte_vocabulary();
  ToolCallFormat format = weather_tools();
  const std::string now = R"(<tool_call>{"name": "now", "arguments": {}}</tool_call>)";
  {
    const GrammarState state(GrammarProgram::from_tool_calls(format, vocabulary));
    EXPECT_FALSE(matches(state, "no call"));
    EXPECT_TRUE(matches(state, "so: " + now));
  }
  format.trigger.clear();
  format.separator = "\n";
  format.max_calls = kUnbounded;
  const GrammarState state(GrammarProgram::from_tool_calls(format, vocabulary));
  EXPECT_TRUE(matches(state, now + "\n" + now + "\n" + now));
  EXPECT_FALSE(matches(state, now + now));
  EXPECT_FALSE(is_prefix(state, "text"));
  format.trigger = "{";
  EXPECT_THROW(GrammarProgram::from_tool_calls(format, vocabulary), Error);
}

TEST(GrammarProgram, IsCompiledAgainFromItsSource) {
  const Vocabulary vocabulary = model_vocabulary();
  ToolCallFormat tools = weather_tools();
  tools.max_calls = kUnbounded;
  const GrammarProgram::Program programs[] = {
      GrammarProgram::from_json_schema(R"({"enum":["a","b"]})", vocabulary),
      GrammarProgram::from_regex("[a-c]{3}", vocabulary),
      GrammarProgram::from_ebnf("root ::= \"x\" | \"yz\"", vocabulary),
      GrammarProgram::any_json_object(vocabulary), GrammarProgram::any_json_value(vocabulary),
      GrammarProgram::from_tool_calls(tools, vocabulary)};
  const std::string texts[] = {"\"b\"", "abc", "yz", "{\"k\":1}", "12",
      "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>"};
  for (size_t i = 0; i < std::size(texts); ++i) {
    const auto again = GrammarProgram::from_source(programs[i]->source(), vocabulary);
    EXPECT_EQ(again->source(), programs[i]->source());
    EXPECT_TRUE(matches(GrammarState(programs[i]), texts[i])) << i;
    EXPECT_TRUE(matches(GrammarState(again), texts[i])) << i;
    EXPECT_FALSE(matches(GrammarState(again), texts[i] + "<tool_call>!")) << i;
  }
  EXPECT_THROW(GrammarProgram::from_source({"sql", ""}, vocabulary), Error);
  EXPECT_THROW(GrammarProgram::from_source({"tool_calls", "{}"}, vocabulary), Error);
  EXPECT_THROW(GrammarProgram::from_source({"tool_calls", "["}, vocabulary), Error);
}

}  // namespace
}  // namespace cheetah
