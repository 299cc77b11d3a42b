// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/error.h"
#include "gpu/graph.h"
#include "gpu/launch.cuh"
#include "gpu/memory.h"
#include "gpu/nvtx.h"
#include "gpu/tensor_map.h"

namespace cheetah::gpu {
namespace {

__global__ void add_number(int* values, int number, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) values[i] += number;
}

__global__ void write_nowhere(int* nowhere) { *nowhere = 1; }

class Launches : public testing::Test {
 protected:
  DeviceInfo device_ = query_device();
  DeviceMemory memory_{device_};
  Stream stream_{device_};

  void add(const DeviceBuffer& buffer, int number) {
    const int64_t count = buffer.size() / static_cast<int64_t>(sizeof(int));
    launch({.kernel = "add_number", .grid = {(count + 127) / 128}, .block = {128}, .numbers = {count}},
        stream_, add_number, buffer.as<int>(), number, static_cast<int>(count));
  }
};

TEST_F(Launches, RunInOrderWithTheCopiesAroundThem) {
  PinnedBuffer host(1000 * sizeof(int));
  std::iota(host.as<int>(), host.as<int>() + 1000, 0);
  const DeviceBuffer buffer = memory_.allocate(ArenaKind::kWorkspace, host.size(), stream_);
  copy_to_device(buffer.data(), host.data(), host.size(), stream_);
  {
    const NvtxRange range("adding");
    for (int i = 0; i < 10; ++i) add(buffer, i);
  }
  copy_to_host(host.data(), buffer.data(), host.size(), stream_);
  stream_.wait();
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(host.as<int>()[i], i + 45);
  EXPECT_EQ(stream_.log().count(), 10);
}

TEST_F(Launches, AreReplayedByAGraph) {
  PinnedBuffer host(100 * sizeof(int));
  const DeviceBuffer buffer = memory_.allocate(ArenaKind::kWorkspace, host.size(), stream_);
  fill_bytes(buffer.data(), 0, buffer.size(), stream_);
  const Graph graph = Graph::record(stream_, [&] {
    add(buffer, 1);
    add(buffer, 2);
  });
  EXPECT_EQ(graph.num_nodes(), 2);
  for (int i = 0; i < 5; ++i) graph.launch(stream_);
  copy_to_host(host.data(), buffer.data(), host.size(), stream_);
  stream_.wait();
  for (int i = 0; i < 100; ++i) ASSERT_EQ(host.as<int>()[i], 15);
}

TEST_F(Launches, LeaveTheStreamUsableWhenRecordingFails) {
  EXPECT_THROW(Graph::record(stream_, [] { throw Error("changed my mind"); }), Error);
  const DeviceBuffer buffer = memory_.allocate(ArenaKind::kWorkspace, 400, stream_);
  add(buffer, 1);
  stream_.wait();
}

TEST_F(Launches, ThatCannotStartNameTheKernel) {
  try {
    launch({.kernel = "too_wide", .grid = {1}, .block = {4096}, .numbers = {17}}, stream_, add_number,
        nullptr, 0, 0);
    FAIL() << "a block of 4096 threads started";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("too_wide(17) grid 1x1x1 block 4096x1x1"), std::string::npos)
        << error.what();
  }
  cudaGetLastError();
}

TEST_F(Launches, AreTimedByEvents) {
  Event begin(Event::Timing::kTimed), end(Event::Timing::kTimed);
  const DeviceBuffer buffer = memory_.allocate(ArenaKind::kWorkspace, 4096, stream_);
  begin.record(stream_);
  add(buffer, 1);
  end.record(stream_);
  end.wait();
  EXPECT_TRUE(end.done());
  EXPECT_GT(milliseconds_between(begin, end), 0);
}

TEST_F(Launches, CountMemoryByWhatItIsFor) {
  {
    const DeviceBuffer buffer = memory_.allocate(ArenaKind::kKv, 1 << 20, stream_);
    EXPECT_EQ(memory_.use(ArenaKind::kKv).bytes, 1 << 20);
    EXPECT_EQ(memory_.use(ArenaKind::kWeights).bytes, 0);
  }
  EXPECT_EQ(memory_.use(ArenaKind::kKv).bytes, 0);
  EXPECT_EQ(memory_.use(ArenaKind::kKv).peak_bytes, 1 << 20);
  EXPECT_THROW(memory_.allocate(ArenaKind::kKv, int64_t{1} << 50, stream_), Error);
  stream_.wait();
}

TEST_F(Launches, DescribeTensorsToTheCopyEngine) {
  if (device_.compute_major < 9) GTEST_SKIP() << "needs Hopper";
  const DeviceBuffer buffer = memory_.allocate(ArenaKind::kWorkspace, 128 * 128 * 2, stream_);
  TensorMapShape shape{.dims = {128, 128}, .strides = {256}, .box = {64, 64}};
  EXPECT_NO_THROW(make_tensor_map(buffer.data(), shape));
  shape.strides[0] = 255;  // no multiple of 16
  EXPECT_THROW(make_tensor_map(buffer.data(), shape), Error);
}

// A fault ends the process's use of the device: in a process of its own.
TEST(LaunchesDeathTest, ThatFaultAreNamed) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto fault = [] {
    Stream stream(query_device());
    launch({.kernel = "write_nowhere", .numbers = {42}}, stream, write_nowhere, reinterpret_cast<int*>(8));
    try {
      stream.wait();
    } catch (const Error& error) {
      std::fprintf(stderr, "%s", error.what());
      std::_Exit(3);
    }
  };
  EXPECT_EXIT(fault(), testing::ExitedWithCode(3), "write_nowhere\\(42\\)");
}

}  // namespace
}  // namespace cheetah::gpu
