// SPDX-License-Identifier: MIT
#include "quantize/eval_data.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/temp_dir.h"

namespace cheetah {
namespace {

std::unique_ptr<Model> cub() {
  return Model::load(std::string(CHEETAH_SOURCE_DIR) + "/models/cub-1m", {.show_progress = false});
}

std::string message_of(const std::string& path, const Model& model) {
  try {
    read_eval_data(path, model, {.window = 8});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(EvalData, CutsTokenIdsIntoWindowsAndDropsARestOfOne) {
  const TempDir dir;
  std::string bytes;
  for (int i = 0; i < 17; ++i) bytes += {static_cast<char>(i), 0};
  const EvalData data = read_eval_data(dir.write("ids.u16", bytes), *cub(), {.window = 8});
  ASSERT_EQ(data.windows.size(), 2);
  EXPECT_EQ(data.windows[1].front(), 8);
  EXPECT_EQ(data.sha256.size(), 64);
}

TEST(EvalData, ReadsTextAndLinesOfText) {
  const TempDir dir;
  const auto model = cub();
  const EvalData text =
      read_eval_data(dir.write("a.txt", "Once upon a time there was a bear."), *model, {.window = 512});
  const EvalData lines = read_eval_data(
      dir.write("a.jsonl", "{\"text\": \"Once upon a time there was a bear.\"}\n\n{\"text\":\"The end.\"}"),
      *model, {.window = 512});
  ASSERT_EQ(text.windows.size(), 1);
  ASSERT_EQ(lines.windows.size(), 2);
  EXPECT_EQ(text.windows[0], lines.windows[0]);
}

TEST(EvalData, ReadsQuestionsWhoseAnswerIsAnIndexALetterOrAChoice) {
  const auto questions = read_questions(
      R"({"prompt": "p", "choices": ["x", "y"], "answer": 1}
{"question": "p", "choices": ["x", "y"], "answer": "A"}
{"context": "p", "choices": ["x", "yes"], "answer": "yes"})",
      "q");
  ASSERT_EQ(questions.size(), 3);
  EXPECT_EQ(questions[0].answer, 1);
  EXPECT_EQ(questions[1].answer, 0);
  EXPECT_EQ(questions[2].answer, 1);
}

TEST(EvalData, SaysWhatIsWrongWithAFile) {
  const TempDir dir;
  const auto model = cub();
  EXPECT_NE(message_of(dir.write("odd.u16", "abc"), *model).find("two bytes each"), std::string::npos);
  EXPECT_NE(
      message_of(dir.write("big.u16", "\xff\xff"), *model).find("outside the vocabulary"), std::string::npos);
  EXPECT_NE(message_of(dir.write("empty.txt", ""), *model).find("nothing to evaluate"), std::string::npos);
  EXPECT_NE(message_of(dir.write("bad.jsonl", "{\"choices\": 3}"), *model).find("line 1: field \"prompt\""),
      std::string::npos);
  EXPECT_NE(
      message_of(dir.write("far.jsonl", R"({"prompt": "p", "choices": ["a", "b"], "answer": 2})"), *model)
          .find("index below 2"),
      std::string::npos);
}

}  // namespace
}  // namespace cheetah
