// SPDX-License-Identifier: MIT
#include "doctor/facts/options.h"

#include <gtest/gtest.h>

namespace cheetah::doctor {
namespace {

Fields read(const std::string& line) {
  std::vector<std::string> words;
  for (const std::string_view word : words_of(line)) words.emplace_back(word);
  return engine_settings(words);
}

TEST(Options, ACommandLineEndsWithAZeroByteAndNoEmptyWord) {
  EXPECT_EQ(command_words(std::string_view("a\0--b\0", 6)), (std::vector<std::string>{"a", "--b"}));
  EXPECT_EQ(command_words(std::string_view("a\0\0c\0", 5)), (std::vector<std::string>{"a", "", "c"}));
  EXPECT_EQ(command_words("a\n--b\n"), (std::vector<std::string>{"a", "--b"}));
  EXPECT_TRUE(command_words("").empty());
}

TEST(Options, EachEngineHasItsOwnShortOptions) {
  EXPECT_EQ(read("vllm serve m -tp 8 -pp=2 -q fp8 -O3").at("tensor_parallel_size"), "8");
  EXPECT_EQ(read("vllm serve m -tp 8 -pp=2 -q fp8 -O3").at("pipeline_parallel_size"), "2");
  EXPECT_EQ(read("vllm serve m -tp 8 -pp=2 -q fp8 -O3").at("compilation_config"), "3");
  EXPECT_EQ(read("llama-server -m x.gguf -ngl 99 -fa on -np 4").at("n_gpu_layers"), "99");
  EXPECT_EQ(read("python -m sglang.launch_server --tp 8 --mem-fraction-static=0.85").at("tp_size"), "8");
  EXPECT_EQ(read("trtllm-serve m --tp_size 4 --max_batch_size 64").at("max_batch_size"), "64");
  EXPECT_EQ(read("python train.py -tp 8").count("tensor_parallel_size"), 0u);
}

TEST(Options, ASwitchTakesNoValueAndTheLastWordCounts) {
  const Fields settings = read("vllm serve --enforce-eager meta/model --no-enable-prefix-caching");
  EXPECT_EQ(settings.at("enforce_eager"), "true");
  EXPECT_EQ(settings.at("enable_prefix_caching"), "false");
  EXPECT_EQ(read("vllm serve m --enforce-eager").at("enforce_eager"), "true");
  EXPECT_EQ(read("vllm serve m --max-num-seqs 64 --max-num-seqs=256").at("max_num_seqs"), "256");
  EXPECT_EQ(read("vllm serve m --cudagraph-capture-sizes 1 2 4 512 --seed -1").at("cudagraph_capture_sizes"),
      "512");
  EXPECT_EQ(read("vllm serve m --seed -1").at("seed"), "-1");
}

TEST(Options, UcxTransportsAreNamesNotLetters) {
  for (const char* with : {"all", "rc,cuda_copy", "rc_x,sm,self", "^tcp", "ud", "cuda,dc_mlx5"})
    EXPECT_TRUE(ucx_allows_rdma(with)) << with;
  for (const char* without : {"tcp,cuda_copy", "cuda,sm,self", "tcp", "^ib", "^rc,ud,dc", ""})
    EXPECT_FALSE(ucx_allows_rdma(without)) << without;
}

TEST(Options, ListsKeepTheirBracketsAndMarks) {
  EXPECT_EQ(keys_of_list("roundup_power2_divisions:[256:1,512:2,>:4],expandable_segments:True"),
      (std::vector<std::string>{"roundup_power2_divisions", "expandable_segments"}));
  const NameList list = parse_name_list("^=mlx5_0:1, mlx5_3");
  EXPECT_TRUE(list.excludes && list.exact);
  EXPECT_EQ(list.names, (std::vector<std::string>{"mlx5_0:1", "mlx5_3"}));
  EXPECT_EQ(nccl_integer("0x10"), 16);
  EXPECT_EQ(nccl_integer("4M"), std::nullopt);
  EXPECT_TRUE(is_plugin_variable("NCCL_FASTRAK_NUM_FLOWS"));
  EXPECT_FALSE(is_plugin_variable("NCCL_DEBGU"));
}

}  // namespace
}  // namespace cheetah::doctor
