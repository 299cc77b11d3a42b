// SPDX-License-Identifier: MIT
#include "serve/api/model_choice.h"

#include "serve/api/api_fixture.h"

namespace cheetah {
namespace {

ApiServices named(std::string name) {
  ApiServices services = small_services();
  services.model_name = std::move(name);
  services.aliases.clear();
  return services;
}

TEST(ModelChoice, ACallIsReadForTheModelItNames) {
  const ApiServices large = named("large"), small = named("small");
  const auto ask = [&](const std::string& model) {
    return parse_for_model(
        parse_completion, R"({"prompt":"a","model":")" + model + "\"}", {&large, &small}, test_facts());
  };
  EXPECT_EQ(ask("large").services, &large);
  EXPECT_EQ(ask("small").services, &small);
  EXPECT_TRUE(std::holds_alternative<ApiCall>(ask("small").result));
  const ChosenCall unknown = ask("medium");
  const ApiError& error = std::get<ApiError>(unknown.result);
  EXPECT_EQ(error.status, 404);
  EXPECT_NE(error.message.find("\"large\", \"small\""), std::string::npos) << error.message;
}

TEST(ModelChoice, TokenIdsBindACallToItsVocabulary) {
  const ApiServices large = named("large"), small = named("small");
  const auto again = [&](const std::string& fields, const ApiServices& other) {
    return parse_for_other_model(
        parse_completion, R"({"model":"large",)" + fields + "}", large, other, test_facts());
  };
  for (const char* fields : {R"("prompt":[7,8])", R"("prompt":"a","logit_bias":{"7":1})",
           R"("prompt":"a","stop_token_ids":[7])", R"("prompt":"a","return_token_ids":true)"})
    EXPECT_TRUE(std::holds_alternative<ApiCall>(again(fields, small))) << "the same vocabulary: " << fields;

  const std::shared_ptr<const Model> llama = load_quietly("tests/models/llama");
  GrammarCache grammars(*llama);
  ApiServices other = make_services(*llama, grammars);
  other.model_name = "other";
  for (const char* fields : {R"("prompt":[7,8])", R"("prompt":[[7],[8]])",
           R"("prompt":"a","logit_bias":{"7":1})", R"("prompt":"a","return_token_ids":true)"}) {
    const ApiResult result = again(fields, other);
    ASSERT_TRUE(std::holds_alternative<ApiError>(result)) << fields;
    EXPECT_EQ(std::get<ApiError>(result).code, "bound_to_vocabulary") << fields;
  }
  const ApiResult text = again(R"("prompt":"Once upon a time","logit_bias":{},"stop":["x"])", other);
  ASSERT_TRUE(std::holds_alternative<ApiCall>(text));
  const GenerationRequest& request = std::get<ApiCall>(text).requests.at(0);
  EXPECT_EQ(
      request.prompt, accepted(parse_completion, R"({"model":"other","prompt":"Once upon a time"})", other)
                          .requests.at(0)
                          .prompt);
  EXPECT_EQ(request.stop, std::vector<std::string>{"x"});
}

}  // namespace
}  // namespace cheetah
