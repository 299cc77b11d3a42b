// SPDX-License-Identifier: MIT
// Agents of different processes, one of which dies or stops. The other process is this program again, running
// only TransferOtherProcess.
#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <algorithm>

#include "base/error.h"
#include "cluster/transfer/transfer_fixture.h"
#include "cluster/transfer/transfer_other_process.h"

namespace cheetah::cluster {
namespace {

constexpr int64_t kLargeSlot = 4 << 20;
constexpr uint32_t kLargeSlots = 6;
constexpr WorkerId kParent{1}, kChild{2};

TransferConfig large_config(TransferBackend backend, WorkerId self) {
  TransferConfig config;
  config.backend = backend;
  config.self = self;
  config.credentials = shared_secret("a secret of tests");
  config.slot_bytes = kLargeSlot;
  config.num_slots = kLargeSlots;
  return config;
}

Time in_a_minute() { return std::chrono::steady_clock::now() + std::chrono::minutes(1); }

// ---- The other process ----

void send_for_ever(TransferBackend backend) {
  TestAgent agent(large_config(backend, kChild));
  agent->add_peer(kParent, read_line(kFromParent));
  const std::string ticket = read_line(kFromParent);
  std::vector<std::vector<std::byte>> slabs;
  for (uint32_t i = 0; i < kLargeSlots; ++i) slabs.push_back(pattern_bytes(kLargeSlot, i));
  for (const Time end = in_a_minute(); std::chrono::steady_clock::now() < end;)
    for (uint32_t i = 0; i < kLargeSlots; ++i) {
      const TransferId id = agent->push({.to = kParent, .ticket = ticket, .index = i, .pieces = {slabs[i]}});
      if (!agent.await_done(id)) return;
      agent.events().clear();
    }
}

void receive_for_ever(TransferBackend backend) {
  TestAgent agent(large_config(backend, kChild));
  const auto reserved = agent->reserve({RequestUid{1}, Attempt{1}}, kLargeSlots, in_a_minute());
  write_line(kToParent, agent->describe());
  write_line(kToParent, reserved->ticket);
  for (const Time end = in_a_minute(); std::chrono::steady_clock::now() < end;) {
    agent->wait_until(end);
    agent.poll();
  }
}

TEST(TransferOtherProcess, Runs) {
  const char* role = std::getenv(kRoleVariable);
  if (!role) GTEST_SKIP() << "only for the tests below, which start it";
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto backend = transfer_backend_from_name(std::getenv(kBackendVariable));
  std::string(role) == "sender" ? send_for_ever(*backend) : receive_for_ever(*backend);
}

// ---- This process ----

class TransferProcesses : public testing::TestWithParam<TransferBackend> {
 protected:
  static bool all_free(TestAgent& agent) {
    const Time limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    for (; agent->free_slots() < kLargeSlots && std::chrono::steady_clock::now() < limit;) {
      agent->wait_until(std::chrono::steady_clock::now() + std::chrono::milliseconds(10));
      agent.poll();
    }
    return agent->free_slots() == kLargeSlots;
  }
  static constexpr RequestKey kKey{RequestUid{1}, Attempt{1}};
};

TEST_P(TransferProcesses, SlabsOfAnotherProcessArriveAndItsDeathFreesWhatItHeld) {
  TestAgent agent(large_config(GetParam(), kParent));
  auto reserved = agent->reserve(kKey, kLargeSlots, in_a_minute());
  OtherProcess sender("TransferOtherProcess.Runs", "sender", GetParam());
  sender.tell(agent->describe());
  sender.tell(reserved->ticket);
  const auto* arrived = agent.await<SlabArrived>();
  ASSERT_TRUE(arrived);
  const auto bytes = agent->slab(reserved->id, arrived->index);
  ASSERT_TRUE(bytes);
  EXPECT_TRUE(std::ranges::equal(*bytes, pattern_bytes(kLargeSlot, arrived->index)));
  sender.kill();  // most often in the middle of a slab
  ASSERT_TRUE(agent.await<TransferPeerDown>());
  agent->cancel(reserved->id);
  EXPECT_TRUE(all_free(agent));
}

TEST_P(TransferProcesses, AStoppedSenderKeepsItsSlotInQuarantineAtMostUntilItDies) {
  TestAgent agent(large_config(GetParam(), kParent));
  for (int round = 0; round < 2; ++round) {
    OtherProcess sender("TransferOtherProcess.Runs", "sender", GetParam());
    sender.tell(agent->describe());
    const auto reserved = agent->reserve(kKey, kLargeSlots, in_a_minute());
    ASSERT_TRUE(reserved);
    sender.tell(reserved->ticket);
    agent.events().clear();
    ASSERT_TRUE(agent.await<SlabArrived>());
    sender.send(SIGSTOP);
    agent->cancel(reserved->id);
    agent->drop_peer(kChild);
    agent.poll();
    // Whatever is free now is really free: it can be reserved, and nothing of the stopped process lands
    // there.
    const auto rest = agent->reserve(kKey, static_cast<uint32_t>(agent->free_slots()), in_a_minute());
    ASSERT_TRUE(rest);
    sender.send(SIGCONT);
    sender.kill();
    ASSERT_TRUE(agent.await<TransferPeerDown>());
    for (const ReservationStatus& status : agent->reservations())
      EXPECT_TRUE(status.id != rest->id || status.state == ReservationState::kReserved);
    agent->cancel(rest->id);
    ASSERT_TRUE(all_free(agent));
  }
}

TEST_P(TransferProcesses, PushesToAReceiverThatIsKilledEnd) {
  OtherProcess receiver("TransferOtherProcess.Runs", "receiver", GetParam());
  const std::string description = receiver.ask(), ticket = receiver.ask();
  TestAgent agent(large_config(GetParam(), kParent));
  agent->add_peer(kChild, description);
  const auto slab = pattern_bytes(kLargeSlot, 1);
  const TransferId first = agent->push({.to = kChild, .ticket = ticket, .pieces = {slab}});
  const PushDone* done = agent.await_done(first);
  ASSERT_TRUE(done);
  EXPECT_TRUE(done->done) << done->why;
  std::vector<TransferId> rest;
  for (uint32_t i = 1; i < kLargeSlots; ++i)
    rest.push_back(agent->push({.to = kChild, .ticket = ticket, .index = i, .pieces = {slab}}));
  receiver.kill();
  for (const TransferId id : rest) EXPECT_TRUE(agent.await_done(id));
  EXPECT_TRUE(agent.await<TransferPeerDown>());
}

std::vector<TransferBackend> backends_between_processes() {
  std::vector<TransferBackend> backends = available_backends();
  std::erase(backends, TransferBackend::kInProcess);
  return backends;
}

INSTANTIATE_TEST_SUITE_P(
    Backends, TransferProcesses, testing::ValuesIn(backends_between_processes()), test_name_of);

}  // namespace
}  // namespace cheetah::cluster
