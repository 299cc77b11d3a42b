// SPDX-License-Identifier: MIT
#include "serve/api/api_fixture.h"

namespace cheetah {
namespace {

TEST(VectorApis, PoolTheTextsOfARequest) {
  const Json json = run(parse_pooling, R"({"model":"cub","input":["a cat","a dog"]})").json();
  ASSERT_EQ(json["data"].size(), 2u);
  EXPECT_EQ(json["data"][1]["object"], "pooling");
  EXPECT_GT(json["data"][0]["data"].size(), 8u);
}

TEST(VectorApis, ScoreATextAgainstOthers) {
  const Json json =
      run(parse_score, R"({"model":"cub","text_1":"a cat","text_2":["a cat","the sea"]})").json();
  ASSERT_EQ(json["data"].size(), 2u);
  EXPECT_NEAR(json["data"][0]["score"].get<double>(), 1, 1e-3);
  EXPECT_LT(json["data"][1]["score"], json["data"][0]["score"]);
  EXPECT_EQ(
      refused(parse_score, R"({"model":"cub","text_1":["a","b"],"text_2":["a","b","c"]})").param, "text_1");
}

TEST(VectorApis, RankDocumentsByTheirLikenessToAQuery) {
  const Json json = run(parse_rerank,
      R"({"model":"cub","query":"a cat","documents":["the sea",{"text":"a cat"},"a big dog"],"top_n":2})")
                        .json();
  ASSERT_EQ(json["results"].size(), 2u);
  EXPECT_EQ(json["results"][0]["index"], 1);
  EXPECT_EQ(json["results"][0]["document"]["text"], "a cat");
  EXPECT_GE(json["results"][0]["relevance_score"], json["results"][1]["relevance_score"]);
  EXPECT_EQ(refused(parse_rerank, R"({"model":"cub","query":"a","documents":[]})").param, "documents");
}

TEST(VectorApis, AnswerAsOllamaDoes) {
  const Json many = run(parse_ollama_embed, R"({"model":"cub","input":["a","b"]})").json();
  EXPECT_EQ(many["embeddings"].size(), 2u);
  EXPECT_GT(many["prompt_eval_count"].get<int>(), 1);
  const Json one = run(parse_ollama_embeddings, R"({"model":"cub","prompt":"a"})").json();
  EXPECT_EQ(one["embedding"], many["embeddings"][0]);
}

}  // namespace
}  // namespace cheetah
