// SPDX-License-Identifier: MIT
// What one engine sent before it was lost and what another sends that takes over are together what a single
// undisturbed engine sends.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/ahead_driver.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/model_vocabulary.h"

namespace cheetah {
namespace {

using Events = std::map<int, std::vector<GenerationEvent>>;  // of each choice, in order

GrammarProgram::Vocabulary vocabulary() {
  static const auto made = make_model_vocabulary(
      *small_model()->tokenizer(), small_model()->traits().vocab, small_model()->traits().eos_ids);
  return made;
}

std::shared_ptr<const GrammarProgram> grammar_number(uint32_t which) {
  static const std::shared_ptr<const GrammarProgram> programs[] = {
      GrammarProgram::from_regex("(yes|no), [0-9]{3}(,[a-z]{1,4}){0,5}", vocabulary()),
      GrammarProgram::from_json_schema(
          R"({"type":"object","properties":{"name":{"type":"string","maxLength":8},"age":{"type":"integer"},
              "tags":{"type":"array","items":{"enum":["a","bc"]},"maxItems":3}},"required":["name","age"]})",
          vocabulary()),
      GrammarProgram::from_ebnf("root ::= item+ \nitem ::= \"(\" [a-z]* \")\" | \"é€\"", vocabulary())};
  return programs[which % 3];
}

// Tokens that are pieces of characters, so that most cuts go through one.
std::vector<int32_t> pieces_of_characters() {
  std::vector<int32_t> ids = small_model()->tokenizer()->encode("é€漢字😀🐆 ü", {});
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

GenerationRequest request_number(uint64_t number) {
  Philox random(number);
  const auto one_in = [&](uint32_t times) { return random.next_u32() % times == 0; };
  GenerationRequest request;
  request.prompt = random_prompt(1 + random.next_u32() % 40, number);
  request.max_tokens = 1 + random.next_u32() % 20;
  request.n = request.best_of = one_in(2) ? 2 + static_cast<int>(random.next_u32() % 2) : 1;
  request.seed = number * 977;
  request.ignore_eos = one_in(2);
  if (!one_in(4)) request.sampling = {.temperature = 1.4f, .top_k = one_in(2) ? 50 : 0, .top_p = 0.97f};
  if (one_in(3)) request.sampling.repetition_penalty = 1.4f;
  if (one_in(3)) request.sampling.frequency_penalty = 0.7f;
  if (one_in(3)) request.sampling.presence_penalty = 0.4f;
  if (one_in(4)) request.min_tokens = 6;
  if (one_in(3)) request.top_logprobs = 3;
  if (one_in(5)) request.typical_p = 0.9f;
  if (one_in(4)) request.sampling.mirostat = one_in(2) ? Mirostat::kFirst : Mirostat::kSecond;
  if (one_in(5)) request.sampling.dry = {.multiplier = 0.8f, .allowed_length = 1};
  if (one_in(5)) request.sampling.xtc_probability = 0.5f;
  if (one_in(5)) request.prompt_logprobs = true;
  if (one_in(4)) request.logit_bias = {{5, 3.f}, {9, -4.f}};
  if (one_in(3))
    request.grammar = grammar_number(random.next_u32());
  else if (one_in(3))
    request.allowed_ids = pieces_of_characters();
  if (one_in(2)) request.include_stop_in_text = true;
  return request;
}

Events run(CoreDriver& driver, GenerationRequest request) {
  Events events;
  request.id = RequestId{uint64_t{1} << 40};
  bool done = false;
  driver.core.submit(
      std::move(request),
      [&](GenerationEvent&& event) {
        EXPECT_FALSE(done);
        done = event.done;
        events[event.choice].push_back(std::move(event));
      },
      driver.now);
  driver.core.deliver(driver.now);
  driver.run();
  EXPECT_TRUE(done);
  return events;
}

// A stop string out of the middle of what would be generated: it lies across tokens, and so across cuts.
void add_stop(GenerationRequest& request, const Events& undisturbed, Philox& random) {
  std::string text;
  for (const GenerationEvent& event : undisturbed.at(0)) text += event.text;
  if (text.size() < 6) return;
  const size_t at = random.next_u32() % (text.size() - 4);
  request.stop = {text.substr(at, 2 + random.next_u32() % 4), "never seen"};
}

struct Whole {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  std::string text;
  std::optional<FinishReason> finish;
  std::string stop_string, error;
  int64_t prompt_tokens = 0, completion_tokens = 0;
  size_t num_prompt_logprobs = 0;

  bool operator==(const Whole&) const = default;
  void add(const GenerationEvent& event) {
    EXPECT_FALSE(finish);
    for (const GeneratedToken& token : event.tokens) {
      tokens.push_back(token.id);
      logprobs.push_back(token.logprob);
    }
    text += event.text;
    if (!event.finish) return;
    finish = event.finish;
    stop_string = event.stop_string;
    error = event.error;
    prompt_tokens = event.prompt_tokens;
    completion_tokens = event.completion_tokens;
    num_prompt_logprobs = event.prompt_logprobs.size();
  }
};

// The client has got a random number of events of each choice. Not of all of them all: then nothing is left.
std::map<int, size_t> random_cut(const Events& events, Philox& random) {
  std::map<int, size_t> cut;
  for (;;) {
    bool any_left = false;
    for (const auto& [choice, sent] : events) {
      cut[choice] = random.next_u32() % (sent.size() + 1);
      any_left = any_left || cut[choice] < sent.size();
    }
    if (any_left) return cut;
  }
}

void expect_same_after(const GenerationRequest& request, const Events& undisturbed,
    const std::map<int, size_t>& cut, CoreDriver& second) {
  std::map<int, Whole> expected, got;
  GenerationRequest resumed = request;
  for (const auto& [choice, events] : undisturbed) {
    ResumedChoice before;
    for (size_t i = 0; i < events.size(); ++i) {
      expected[choice].add(events[i]);
      if (i >= cut.at(choice)) continue;
      got[choice].add(events[i]);
      for (const GeneratedToken& token : events[i].tokens) before.tokens.push_back(token.id);
      if (!events[i].tokens.empty()) before.mirostat_mu = events[i].mirostat_mu;
      before.finished = events[i].finish.has_value();
    }
    resumed.resume.push_back(before);
  }
  for (const auto& [choice, events] : run(second, resumed))
    for (const GenerationEvent& event : events) got[choice].add(event);
  for (const auto& [choice, whole] : expected) {
    EXPECT_EQ(got[choice].tokens, whole.tokens) << "choice " << choice;
    EXPECT_EQ(got[choice].text, whole.text) << "choice " << choice;
    EXPECT_TRUE(got[choice] == whole) << "choice " << choice;
  }
}

EngineConfig config_with(int64_t num_pages, int64_t batch) {
  EngineConfig config = small_config(num_pages, *small_model());
  config.max_context = 100;
  config.max_batch_tokens = batch;
  return config;
}

TEST(Resume, AnotherEngineGoesOnWhereTheFirstWasCut) {
  CoreDriver first(config_with(60, 64)), second(config_with(40, 16));
  AheadDriver ahead(config_with(60, 64));
  for (uint64_t number = 1; number <= 150; ++number) {
    SCOPED_TRACE(number);
    Philox random(number, 7);
    GenerationRequest request = request_number(number);
    Events undisturbed = run(first, request);
    if (number % 2 == 0) {
      add_stop(request, undisturbed, random);
      undisturbed = run(first, request);
    }
    expect_same_after(request, undisturbed, random_cut(undisturbed, random), number % 3 ? second : ahead);
    if (HasFailure()) return;
  }
  for (const CoreDriver* driver : {&first, &second, static_cast<CoreDriver*>(&ahead)}) {
    const EngineStats stats = driver->core.stats();
    EXPECT_EQ(stats.pages_free + stats.pages_cached, stats.pages_total);
  }
}

TEST(Resume, EveryCutOfAChoiceGivesTheSameWhole) {
  CoreDriver first(config_with(60, 64)), second(config_with(40, 16));
  for (const uint32_t grammar : {0u, 1u, 2u, 3u}) {
    GenerationRequest request;
    request.prompt = random_prompt(21, 3);
    request.max_tokens = 24;
    request.seed = 5 + grammar;
    request.sampling = {.temperature = 1.3f};
    if (grammar < 3)
      request.grammar = grammar_number(grammar);
    else
      request.allowed_ids = pieces_of_characters();
    const Events undisturbed = run(first, request);
    for (size_t cut = 0; cut < undisturbed.at(0).size(); ++cut) {
      SCOPED_TRACE(cut);
      expect_same_after(request, undisturbed, {{0, cut}}, second);
    }
  }
}

TEST(Resume, SendsTheEndOfAChoiceThatHasItsTokens) {
  CoreDriver driver(config_with(60, 64));
  GenerationRequest request;
  request.prompt = random_prompt(12, 4);
  request.max_tokens = 9;
  request.ignore_eos = true;
  const Received whole = driver.generate(request);
  request.resume = {{whole.choices.at(0).tokens, false}};
  const Received rest = driver.generate(request);
  EXPECT_TRUE(rest.done);
  EXPECT_TRUE(rest.choices.at(0).tokens.empty());
  EXPECT_EQ(rest.choices.at(0).finish, FinishReason::kLength);
  EXPECT_EQ(rest.choices.at(0).completion_tokens, 9);
}

// For one who has to read it all: the first `told` of the resumed tokens are silent, the others come as they did.
TEST(Resume, WhatIsNotToldYetIsSaidAgainEventByEvent) {
  CoreDriver first(config_with(60, 64)), second(config_with(40, 16));
  for (uint64_t number = 1; number <= 60; ++number) {
    SCOPED_TRACE(number);
    Philox random(number, 9);
    GenerationRequest request = request_number(number);
    request.prompt_logprobs = false;
    const Events undisturbed = run(first, request);
    GenerationRequest resumed = request;
    std::map<int, size_t> skipped;
    for (const auto& [choice, events] : undisturbed) {
      ResumedChoice before;
      const size_t known = random.next_u32() % events.size();
      for (size_t i = 0; i < known; ++i)
        for (const GeneratedToken& token : events[i].tokens) {
          before.tokens.push_back(token.id);
          before.mirostat_mu = events[i].mirostat_mu;
        }
      skipped[choice] = std::min<size_t>(random.next_u32() % (events.size() + 1), known);
      before.told = static_cast<int64_t>(skipped[choice]);
      resumed.resume.push_back(before);
    }
    const Events again = run(second, resumed);
    for (const auto& [choice, events] : undisturbed) {
      const auto& got = again.at(choice);
      ASSERT_EQ(got.size() + skipped[choice], events.size());
      for (size_t i = 0; i < got.size(); ++i) {
        const GenerationEvent& expected = events[i + skipped[choice]];
        EXPECT_EQ(got[i].text, expected.text);
        EXPECT_EQ(got[i].finish, expected.finish);
        ASSERT_EQ(got[i].tokens.size(), expected.tokens.size());
        for (size_t j = 0; j < got[i].tokens.size(); ++j)
          EXPECT_EQ(got[i].tokens[j].id, expected.tokens[j].id);
      }
    }
    if (HasFailure()) return;
  }
}

TEST(Resume, RefusesWhatCannotHaveBeenGenerated) {
  CoreDriver driver(config_with(60, 64));
  GenerationRequest request;
  request.prompt = random_prompt(12, 4);
  const auto error_of = [&](std::vector<ResumedChoice> resume) {
    GenerationRequest with = request;
    with.resume = std::move(resume);
    const Received received = driver.generate(with);
    EXPECT_TRUE(received.done);
    EXPECT_EQ(received.error_kind, ErrorKind::kBadRequest);
    return received.error;
  };
  EXPECT_NE(error_of({{{1}, true}}).find("are finished"), std::string::npos);
  EXPECT_NE(error_of({{{1}, false}, {{1}, false}}).find("2 choices are resumed"), std::string::npos);
  EXPECT_NE(error_of({{{1, 1 << 20}, false}}).find("outside the model's vocabulary"), std::string::npos);
  EXPECT_NE(error_of({{{small_model()->traits().eos_ids.at(0)}, false}}).find("could have generated"),
      std::string::npos);
  request.grammar = grammar_number(0);
  EXPECT_NE(error_of({{small_model()->tokenizer()->encode("maybe", {}), false}}).find("could have generated"),
      std::string::npos);
  request.grammar = nullptr;
  request.best_of = 3;
  EXPECT_NE(error_of({{{1}, false}}).find("cannot be resumed"), std::string::npos);
  EXPECT_TRUE(driver.core.idle());
}

}  // namespace
}  // namespace cheetah
