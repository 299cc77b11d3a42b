// SPDX-License-Identifier: MIT
#include "engine/constrained_scenario.h"

#include <chrono>
#include <memory>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/mailbox.h"
#include "base/random.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/model_vocabulary.h"
#include "engine/grammar/schema_validator.h"
#include "engine/grammar/synthetic_vocabulary.h"

namespace cheetah {
namespace {

constexpr auto kPatience = std::chrono::minutes(20);

GrammarProgram::Vocabulary vocabulary_of(const Model& model) {
  const ModelTraits& traits = model.traits();
  if (model.tokenizer()) return make_model_vocabulary(*model.tokenizer(), traits.vocab, traits.eos_ids);
  return make_synthetic_vocabulary(static_cast<size_t>(traits.vocab));
}

struct Arrival {
  size_t index = 0;
  std::vector<int32_t> tokens{};
  std::optional<FinishReason> finish{};
  std::string error{};
};

struct Generation {
  std::string text;
  std::string failure;  // empty: it ended as it should
};

class ConstrainedRun {
 public:
  ConstrainedRun(Engine& engine, const ConstrainedPlan& plan)
      : engine_(engine), plan_(plan), vocabulary_(vocabulary_of(engine.model())) {
    for (const std::string& schema : constrained_schemas())
      programs_.push_back(GrammarProgram::from_json_schema(schema, vocabulary_));
  }

  ConstrainedResult run() {
    const EngineStats before = engine_.stats();
    generations_.resize(static_cast<size_t>(plan_.generations));
    const auto open = static_cast<size_t>(engine_.config().max_queue);
    for (size_t i = 0; i < generations_.size(); ++i) {
      if (i >= open) collect(i - open + 1);
      send(i);
    }
    collect(generations_.size());
    const EngineStats after = engine_.stats();
    ConstrainedResult result{.generations = plan_.generations,
        .num_schemas = std::ssize(programs_),
        .tokens = tokens_,
        .first_failure = {},
        .step_seconds = after.step_seconds - before.step_seconds,
        .mask_seconds = after.mask_seconds - before.mask_seconds};
    for (size_t i = 0; i < generations_.size(); ++i) {
      const std::string failure = check(i);
      result.valid += failure.empty();
      if (result.first_failure.empty()) result.first_failure = failure;
    }
    return result;
  }

 private:
  size_t schema_of(size_t index) const { return index % programs_.size(); }

  void send(size_t index) {
    GenerationRequest request;
    request.id = RequestId{(uint64_t{1} << 61) + index};
    Philox random(plan_.seed, index);
    for (int i = 0; i < 4; ++i)
      request.prompt.push_back(
          static_cast<int32_t>(random.next_u32() % static_cast<uint32_t>(engine_.model().traits().vocab)));
    request.max_tokens = plan_.max_tokens;
    request.sampling.temperature = plan_.temperature;
    request.seed = plan_.seed * 7919 + index;
    request.grammar = programs_[schema_of(index)];
    if (!engine_.model().tokenizer())
      request.stop_ids.assign(vocabulary_->eos_ids().begin(), vocabulary_->eos_ids().end());
    engine_.submit(std::move(request), [this, index](GenerationEvent&& event) {
      Arrival arrival{.index = index, .finish = event.finish, .error = std::move(event.error)};
      for (const GeneratedToken& token : event.tokens) arrival.tokens.push_back(token.id);
      inbox_.post(std::move(arrival));
    });
  }

  // Until `count` have ended.
  void collect(size_t count) {
    const auto limit = std::chrono::steady_clock::now() + kPatience;
    std::vector<Arrival> arrived;
    while (finished_ < count) {
      if (!inbox_.wait_until(limit)) CHEETAH_ASSERT(false, "the engine ends every request");
      inbox_.take_all(arrived);
      for (const Arrival& arrival : arrived) {
        Generation& generation = generations_[arrival.index];
        for (const int32_t id : arrival.tokens) generation.text += vocabulary_->bytes(id);
        tokens_ += std::ssize(arrival.tokens);
        if (!arrival.finish) continue;
        ++finished_;
        if (*arrival.finish == FinishReason::kLength) generation.failure = "it did not end";
        if (*arrival.finish == FinishReason::kError) generation.failure = arrival.error;
      }
    }
  }

  std::string check(size_t index) const {
    const Generation& generation = generations_[index];
    const std::string& schema = constrained_schemas()[schema_of(index)];
    std::string what = generation.failure;
    if (what.empty()) {
      try {
        const Json document = parse_json(schema, "schema");
        if (!SchemaValidator(document).valid(parse_json(generation.text, "text"))) what = "it is not valid";
      } catch (const Error& error) {
        what = error.what();
      }
    }
    return what.empty() ? "" : format("{}: {} under {}", what, generation.text, schema);
  }

  Engine& engine_;
  const ConstrainedPlan& plan_;
  GrammarProgram::Vocabulary vocabulary_;
  std::vector<std::shared_ptr<const GrammarProgram>> programs_;  // shared with the requests
  std::vector<Generation> generations_;
  size_t finished_ = 0;
  int64_t tokens_ = 0;
  Mailbox<Arrival> inbox_;
};

}  // namespace

// Every way of a schema that models are asked for, each with an end in sight: a random text must come to it.
const std::vector<std::string>& constrained_schemas() {
  static const std::vector<std::string> schemas = {R"({"type":"boolean"})",
      R"({"enum":["red","green","blue",null,7]})", R"({"type":"integer","minimum":-40,"maximum":1200})",
      R"({"type":"string","maxLength":24})", R"({"type":"string","pattern":"^[A-Z]{2}-[0-9]{4}$"})",
      R"({"type":"array","items":{"type":"integer","minimum":0,"maximum":99},"minItems":2,"maxItems":5})",
      R"({"type":"object","properties":{"name":{"type":"string","maxLength":20},
          "age":{"type":"integer","minimum":0,"maximum":130}},"required":["name","age"],"additionalProperties":false})",
      R"({"type":"object","properties":{"a":{"type":"boolean"},"b":{"type":"null"},"c":{"enum":["x","y"]}},
          "additionalProperties":false})",
      R"({"anyOf":[{"type":"integer","minimum":0,"maximum":9},{"type":"string","maxLength":8}]})",
      R"({"type":"object","properties":{"point":{"type":"array","prefixItems":[
          {"type":"integer","minimum":0,"maximum":500},{"type":"integer","minimum":0,"maximum":500}],
          "minItems":2,"maxItems":2}},"required":["point"],"additionalProperties":false})",
      R"({"$defs":{"leaf":{"type":"object","properties":{"v":{"type":"integer","minimum":0,"maximum":9}},
          "required":["v"],"additionalProperties":false}},"type":"object",
          "properties":{"left":{"$ref":"#/$defs/leaf"},"right":{"$ref":"#/$defs/leaf"}},
          "required":["left","right"],"additionalProperties":false})",
      R"({"type":"object","properties":{"kind":{"const":"circle"},"radius":{"type":"integer","minimum":1,
          "maximum":1000}},"required":["kind","radius"],"additionalProperties":false})",
      R"({"oneOf":[{"type":"boolean"},{"type":"object","properties":{"dog":{"type":"boolean"}},"required":["dog"],
          "additionalProperties":false},{"type":"integer","minimum":1,"maximum":12}]})",
      R"({"type":"array","items":{"type":"object","properties":{"id":{"type":"integer","minimum":1,"maximum":50},
          "tag":{"type":"string","maxLength":6}},"required":["id"],"additionalProperties":false},"maxItems":3})",
      R"({"type":"string","minLength":3,"maxLength":9,"pattern":"^[a-z]+$"})",
      R"({"type":["integer","null"],"minimum":0,"maximum":31})",
      R"({"type":"object","properties":{"when":{"type":"string","format":"date"},
          "at":{"type":"string","pattern":"^([01][0-9]|2[0-3]):[0-5][0-9]$"}},"required":["when","at"],
          "additionalProperties":false})",
      R"({"type":"object","properties":{"matrix":{"type":"array","minItems":2,"maxItems":2,"items":{"type":"array",
          "minItems":2,"maxItems":3,"items":{"enum":[0,1]}}}},"required":["matrix"],"additionalProperties":false})",
      R"({"type":"integer","minimum":0,"maximum":600,"multipleOf":5})",
      R"({"type":"object","properties":{"city":{"type":"string","maxLength":12},"unit":{"enum":["celsius","kelvin"]},
          "days":{"type":"array","items":{"enum":["mon","tue","wed"]},"maxItems":3}},"required":["city","unit"],
          "additionalProperties":false})"};
  return schemas;
}

ConstrainedResult run_constrained(Engine& engine, const ConstrainedPlan& plan) {
  return ConstrainedRun(engine, plan).run();
}

}  // namespace cheetah
