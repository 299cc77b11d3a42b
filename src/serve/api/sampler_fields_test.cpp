// SPDX-License-Identifier: MIT
#include "serve/api/sampler_fields.h"

#include <gtest/gtest.h>

#include "model/dry_breakers.h"
#include "serve/api/failure.h"

namespace cheetah {
namespace {

GenerationRequest read(std::string_view body) {
  const OrderedJson json = parse_body(body);
  Fields fields(json, "");
  GenerationRequest request;
  read_samplers(fields, request);
  std::vector<std::string> warnings;
  fields.finish(true, warnings);
  return request;
}

TEST(SamplerFields, ArriveUnderLlamaCppsNames) {
  const GenerationRequest request =
      read(R"({"typical_p":0.5,"dry_multiplier":0.8,"dry_base":2,"dry_allowed_length":3,
      "dry_penalty_last_n":64,"dry_sequence_breakers":["\n","--"],"xtc_probability":0.5,"xtc_threshold":0.2,
      "top_n_sigma":1.5,"dynatemp_range":0.5,"dynatemp_exponent":2,"mirostat":2,"mirostat_tau":4,"mirostat_eta":0.2})");
  EXPECT_EQ(request.sampling,
      (SamplingParams{.dry = {.multiplier = 0.8f, .base = 2, .allowed_length = 3, .last_n = 64},
          .top_n_sigma = 1.5f,
          .xtc_probability = 0.5f,
          .xtc_threshold = 0.2f,
          .dynatemp_range = 0.5f,
          .dynatemp_exponent = 2,
          .mirostat = Mirostat::kSecond,
          .mirostat_tau = 4,
          .mirostat_eta = 0.2f}));
  EXPECT_EQ(request.typical_p, 0.5f);
  EXPECT_EQ(request.dry_breakers, (std::vector<std::string>{"\n", "--"}));
  OrderedJson settings = OrderedJson::object();
  append_samplers(request, settings);
  EXPECT_EQ(settings.size(), kSamplerFields.size());
  for (const std::string_view name : kSamplerFields) EXPECT_TRUE(settings.contains(name)) << name;
}

TEST(SamplerFields, AreOffByDefault) {
  EXPECT_EQ(read("{}").sampling, SamplingParams{});
  EXPECT_TRUE(read("{}").dry_breakers.empty());
  EXPECT_EQ(read(R"({"dry_multiplier":1})").dry_breakers, kDryBreakers);
  EXPECT_TRUE(read(R"({"dry_multiplier":1,"dry_sequence_breakers":[]})").dry_breakers.empty());
}

TEST(SamplerFields, OutOfRangeIsRefusedByName) {
  for (const auto& [body, param] :
      {std::pair(R"({"mirostat":3})", "mirostat"), {R"({"xtc_probability":1.5})", "xtc_probability"},
          {R"({"dry_base":0.5})", "dry_base"}, {R"({"dry_multiplier":"x"})", "dry_multiplier"},
          {R"({"dry_penalty_last_n":-2})", "dry_penalty_last_n"},
          {R"({"dry_sequence_breakers":[""]})", "dry_sequence_breakers[0]"}}) {
    try {
      read(body);
      ADD_FAILURE() << body;
    } catch (const ApiFailure& failure) {
      EXPECT_EQ(failure.error().param, param);
    }
  }
}

}  // namespace
}  // namespace cheetah
