// SPDX-License-Identifier: MIT
#include "base/run_tool.h"

#include <gtest/gtest.h>

namespace cheetah {
namespace {

TEST(RunTool, KeepsTheOutputAndTheExitCode) {
  const ToolResult fine =
      run_tool({"sh", "-c", "echo out; echo err >&2"}, {.time = std::chrono::seconds(60)});
  EXPECT_TRUE(fine.started && fine.complete);
  EXPECT_EQ(fine.exit_code, 0);
  EXPECT_EQ(fine.output, "out\n");
  const ToolResult both =
      run_tool({"sh", "-c", "echo err >&2; exit 3"}, {.time = std::chrono::seconds(60), .with_errors = true});
  EXPECT_EQ(both.exit_code, 3);
  EXPECT_EQ(both.output, "err\n");
}

TEST(RunTool, AMissingProgramIsNotAnError) {
  EXPECT_FALSE(run_tool({"cheetah-has-no-such-tool"}).started);
  EXPECT_FALSE(run_tool({}).started);
}

TEST(RunTool, WaitsForAProgramThatClosesItsOutputBeforeItEnds) {
  const ToolResult late =
      run_tool({"sh", "-c", "exec >&-; sleep 0.05; exit 4"}, {.time = std::chrono::seconds(60)});
  EXPECT_TRUE(late.complete);
  EXPECT_EQ(late.exit_code, 4);
  const ToolResult silent =
      run_tool({"sh", "-c", "exec >&-; exec sleep 1000"}, {.time = std::chrono::milliseconds(50)});
  EXPECT_TRUE(silent.started);
  EXPECT_FALSE(silent.complete);
}

TEST(RunTool, LimitsEndIt) {
  const ToolResult slow = run_tool({"sleep", "1000"}, {.time = std::chrono::milliseconds(20)});
  EXPECT_TRUE(slow.started);
  EXPECT_FALSE(slow.complete);
  const ToolResult loud = run_tool({"yes"}, {.time = std::chrono::seconds(60), .output_bytes = 1000});
  EXPECT_FALSE(loud.complete);
  EXPECT_GE(loud.output.size(), 1000u);
}

}  // namespace
}  // namespace cheetah
