// SPDX-License-Identifier: MIT
// A receive arena on the GPU, written by another process through CUDA IPC.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>

#include "cluster/transfer/slot_copy.h"
#include "cluster/transfer/transfer_fixture.h"
#include "cluster/transfer/transfer_other_process.h"
#include "gpu/check.cuh"

namespace cheetah::cluster {
namespace {

constexpr const char* kOther = "TransferOtherGpuProcess.Runs";
constexpr int64_t kDeviceSlot = 24 << 20;  // three copies of kDeviceChunk
constexpr WorkerId kHere{1}, kThere{2};

TransferConfig device_config(WorkerId self, MemoryKind arena) {
  TransferConfig config;
  config.backend = TransferBackend::kSharedMemory;
  config.self = self;
  config.credentials = shared_secret("a secret of tests");
  config.slot_bytes = kDeviceSlot;
  config.num_slots = 4;
  config.arena = arena;
  return config;
}

TEST(TransferOtherGpuProcess, Runs) {
  if (!std::getenv(kRoleVariable)) GTEST_SKIP() << "only for the tests below, which start it";
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  TestAgent agent(device_config(kThere, MemoryKind::kHost));
  agent->add_peer(kHere, read_line(kFromParent));
  const std::string ticket = read_line(kFromParent);
  const auto host = pattern_bytes(kDeviceSlot, 1), other = pattern_bytes(1000, 2);
  void* device = nullptr;
  gpu::check(cudaMalloc(&device, kDeviceSlot));
  gpu::check(cudaMemcpy(device, host.data(), kDeviceSlot, cudaMemcpyHostToDevice));
  const std::span<const std::byte> on_device(static_cast<const std::byte*>(device), kDeviceSlot);
  const TransferId first =
      agent->push({.to = kHere, .ticket = ticket, .pieces = {on_device}, .kind = MemoryKind::kDevice});
  const TransferId second = agent->push({.to = kHere, .ticket = ticket, .index = 1, .pieces = {other}});
  for (const TransferId id : {first, second}) {
    const PushDone* done = agent.await_done(id);
    write_line(kToParent, !done ? "no answer" : done->done ? "done" : done->why);
  }
  read_line(kFromParent);  // until the parent has looked
  cudaFree(device);
}

std::vector<std::byte> to_host(std::span<const std::byte> bytes) {
  std::vector<std::byte> host(bytes.size());
  transfer::copy_bytes(host.data(), MemoryKind::kHost, bytes, MemoryKind::kDevice);
  return host;
}

TEST(TransferOnDevice, AnotherProcessWritesDeviceAndHostBytesIntoAnArenaOnTheDevice) {
  TestAgent agent(device_config(kHere, MemoryKind::kDevice));
  const auto reserved = agent->reserve(
      {RequestUid{1}, Attempt{1}}, 2, std::chrono::steady_clock::now() + std::chrono::minutes(1));
  ASSERT_TRUE(reserved);
  OtherProcess sender(kOther, "sender", TransferBackend::kSharedMemory);
  sender.tell(agent->describe());
  sender.tell(reserved->ticket);
  ASSERT_EQ(sender.ask(), "done");
  ASSERT_EQ(sender.ask(), "done");
  const auto large = agent->slab(reserved->id, 0), small = agent->slab(reserved->id, 1);
  ASSERT_TRUE(large && small);
  EXPECT_TRUE(to_host(*large) == pattern_bytes(kDeviceSlot, 1));
  EXPECT_TRUE(to_host(*small) == pattern_bytes(1000, 2));
  sender.tell("end");
  ASSERT_TRUE(agent.await<TransferPeerDown>());
  agent->release(reserved->id);
  EXPECT_EQ(agent->free_slots(), 4);
}

TEST(TransferOnDevice, ADeadSenderFreesItsSlots) {
  TestAgent agent(device_config(kHere, MemoryKind::kDevice));
  const auto reserved = agent->reserve(
      {RequestUid{1}, Attempt{1}}, 4, std::chrono::steady_clock::now() + std::chrono::minutes(1));
  OtherProcess sender(kOther, "sender", TransferBackend::kSharedMemory);
  sender.tell(agent->describe());
  sender.tell(reserved->ticket);
  ASSERT_TRUE(agent.await<SlabArrived>());
  sender.kill();
  ASSERT_TRUE(agent.await<TransferPeerDown>());
  agent->cancel(reserved->id);
  EXPECT_EQ(agent->free_slots(), 4);
}

}  // namespace
}  // namespace cheetah::cluster
