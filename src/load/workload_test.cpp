// SPDX-License-Identifier: MIT
#include "load/workload.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "base/error.h"

namespace cheetah {
namespace {

class File {
 public:
  explicit File(const std::string& text)
      : path_(testing::TempDir() + "workload_" + std::to_string(getpid()) + ".jsonl") {
    std::ofstream(path_) << text;
  }
  ~File() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

int64_t count_words(const std::string& text) { return 1 + std::count(text.begin(), text.end(), ' '); }

std::string content(const std::string& body) { return Json::parse(body)["messages"][0]["content"]; }

TEST(Workload, IsAFunctionOfSeedAndNumber) {
  WorkloadPlan plan = workload_plan_from("sharegpt-like", 0, 0);
  const auto body = [&](int64_t index) {
    return request_body(Workload(plan).shape(index), plan.seed, {}, {.model = "m"});
  };
  EXPECT_EQ(body(7), body(7));
  EXPECT_NE(body(7), body(8));
  const std::string before = body(7);
  plan.seed = 1;
  EXPECT_NE(body(7), before);
}

TEST(Workload, RandomLengthsLieInTheSpreadAroundTheirMean) {
  WorkloadPlan plan = workload_plan_from("random", 100, 40);
  EXPECT_EQ(Workload(plan).shape(3).prompt_tokens(), 100);
  plan.spread = 0.5;
  const Workload workload(plan);
  double sum = 0;
  for (int64_t i = 0; i < 2000; ++i) {
    const RequestShape shape = workload.shape(i);
    EXPECT_GE(shape.prompt_tokens(), 50);
    EXPECT_LE(shape.prompt_tokens(), 150);
    EXPECT_GE(shape.output_tokens, 20);
    EXPECT_LE(shape.output_tokens, 60);
    sum += static_cast<double>(shape.prompt_tokens());
  }
  EXPECT_NEAR(sum / 2000, 100, 4);
}

TEST(Workload, ConversationLengthsHaveTheMeanAskedForAndALongTail) {
  const Workload workload(workload_plan_from("sharegpt-like", 0, 0));
  double prompt = 0, output = 0, longest = 0;
  constexpr int kRequests = 20000;
  for (int64_t i = 0; i < kRequests; ++i) {
    const RequestShape shape = workload.shape(i);
    prompt += static_cast<double>(shape.prompt_tokens()) / kRequests;
    output += static_cast<double>(shape.output_tokens) / kRequests;
    longest = std::max(longest, static_cast<double>(shape.prompt_tokens()));
  }
  EXPECT_NEAR(prompt, 161, 12);
  EXPECT_NEAR(output, 338, 18);
  EXPECT_GT(longest, 1000);
}

TEST(Workload, PrefixHeavyRequestsShareTheirPrefixAndNothingElse) {
  WorkloadPlan plan = workload_plan_from("prefix-heavy", 10, 10);
  plan.prefix_tokens = 100;
  const Workload workload(plan);
  std::map<std::string, int> beginnings;
  std::set<std::string> ends;
  for (int64_t i = 0; i < 400; ++i) {
    const std::string text =
        content(request_body(workload.shape(i), 0, {.tokens_per_word = 1}, {.model = "m"}));
    EXPECT_EQ(count_words(text), 110);
    ++beginnings[text.substr(0, 200)];
    ends.insert(text.substr(text.size() - 40));
  }
  int shared = 0;
  for (const auto& [text, count] : beginnings) shared = std::max(shared, count);
  EXPECT_NEAR(shared, 360, 24);
  EXPECT_EQ(beginnings.size(), 1 + 400u - static_cast<size_t>(shared));
  EXPECT_EQ(ends.size(), 400u);
}

TEST(Workload, WordsAreScaledToTheTokensOfTheServer) {
  const Workload workload(workload_plan_from("random", 207, 5));
  const std::string body =
      request_body(workload.shape(0), 0, {.tokens_per_word = 2, .overhead_tokens = 7}, {.model = "m"});
  EXPECT_EQ(count_words(content(body)), 100);
}

TEST(Workload, BodiesAskForAStreamWithUsageAndTakeExtraFields) {
  RequestShape shape;
  shape.prompt = "Hello";
  shape.output_tokens = 9;
  const Json body = Json::parse(request_body(shape, 0, {},
      {.chat = false,
          .model = "m",
          .temperature = 0.5,
          .ignore_eos = true,
          .extra = {{"top_k", 4}, {"model", "n"}}}));
  EXPECT_EQ(
      body, Json({{"model", "n"}, {"prompt", "Hello"}, {"max_tokens", 9}, {"stream", true}, {"top_k", 4},
                {"stream_options", {{"include_usage", true}}}, {"temperature", 0.5}, {"ignore_eos", true}}));
}

TEST(Workload, PromptsOfIdsHaveExactLengthsAndSharePrefixesToo) {
  WorkloadPlan plan = workload_plan_from("prefix-heavy", 10, 5);
  plan.prefix_tokens = 50;
  plan.prefix_share = 1;
  const Workload workload(plan);
  const auto ids = [&](int64_t index) {
    return Json::parse(
        request_body(workload.shape(index), 0, {}, {.chat = false, .id_limit = 1000}))["prompt"]
        .get<std::vector<int64_t>>();
  };
  const std::vector<int64_t> first = ids(0), second = ids(1);
  ASSERT_EQ(first.size(), 60u);
  EXPECT_TRUE(std::equal(first.begin(), first.begin() + 50, second.begin()));
  EXPECT_NE(first, second);
  for (const int64_t id : ids(2)) EXPECT_TRUE(id >= 256 && id < 1000) << id;
}

TEST(WorkloadFile, TakesPromptsMessagesAndLengths) {
  const File file(R"({"prompt": "One", "output_tokens": 3}

{"messages": [{"role": "user", "content": "Two"}]}
{"timestamp": 1500, "input_length": 1100, "output_length": 7, "hash_ids": [4, 5, 6]}
{"timestamp": 2500, "input_length": 600, "output_length": 8, "hash_ids": [4]}
)");
  const Workload workload(workload_plan_from(file.path(), 0, 55));
  ASSERT_EQ(workload.size(), 4);
  EXPECT_TRUE(workload.is_made_up());
  EXPECT_EQ(workload.shape(0).prompt, "One");
  EXPECT_EQ(workload.shape(0).output_tokens, 3);
  EXPECT_EQ(workload.shape(1).messages[0]["content"], "Two");
  EXPECT_EQ(workload.shape(1).output_tokens, 55);
  const RequestShape third = workload.shape(2), fourth = workload.shape(3);
  EXPECT_EQ(third.arrival_s, 1.5);
  ASSERT_EQ(third.pieces.size(), 3u);
  EXPECT_EQ(third.pieces[2].tokens, 1100 - 1024);
  ASSERT_EQ(fourth.pieces.size(), 2u);
  EXPECT_EQ(fourth.pieces[0].id, third.pieces[0].id);
  EXPECT_EQ(fourth.pieces[1].tokens, 600 - 512);
  EXPECT_EQ(workload.shape(5).messages, workload.shape(1).messages);
  EXPECT_THROW(request_body(workload.shape(1), 0, {}, {.chat = false}), Error);
}

TEST(WorkloadFile, NamesTheLineThatIsWrong) {
  for (const char* bad :
      {"{", "[]", "{}", R"({"prompt": 3})", R"({"messages": []})", R"({"input_length": 0})",
          R"({"input_length": 99999999999})", R"({"input_length": 5, "hash_ids": "x"})",
          R"({"input_length": 600, "hash_ids": ["x"]})", R"({"prompt": "x", "output_length": -1})"}) {
    const File file("{\"prompt\": \"fine\"}\n" + std::string(bad) + "\n");
    try {
      read_workload_file(file.path(), 1);
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("line 2"), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(read_workload_file(File("\n").path(), 1), Error);
  EXPECT_THROW(read_workload_file("/nowhere/at.all", 1), Error);
}

}  // namespace
}  // namespace cheetah
