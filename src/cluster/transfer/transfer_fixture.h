// SPDX-License-Identifier: MIT
#pragma once
// Two agents of one backend that talk to each other, for tests.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "cluster/transfer/kv_page_layout.h"
#include "cluster/transfer/transfer.h"

namespace cheetah::cluster {

inline std::vector<TransferBackend> available_backends() {
  std::vector<TransferBackend> all;
  for (const auto backend : {TransferBackend::kInProcess, TransferBackend::kSharedMemory,
           TransferBackend::kUcx, TransferBackend::kTcp})
    if (why_unavailable(backend).empty()) all.push_back(backend);
  return all;
}

inline std::string test_name_of(const testing::TestParamInfo<TransferBackend>& backend) {
  switch (backend.param) {
    case TransferBackend::kInProcess:
      return "InProcess";
    case TransferBackend::kSharedMemory:
      return "SharedMemory";
    case TransferBackend::kUcx:
      return "Ucx";
    case TransferBackend::kTcp:
      return "Tcp";
  }
  return "";
}

// One rank's part of these pages.
inline KvDescriptor shard(KvDescriptor kv, int32_t rank, int32_t size) {
  kv.tp_rank = rank;
  kv.tp_size = size;
  kv.page_bytes = transfer::KvPageLayout(kv).place_bytes();
  return kv;
}

inline std::vector<std::byte> pattern_bytes(size_t count, uint32_t seed) {
  std::vector<std::byte> bytes(count);
  uint64_t state = seed * 0x9E3779B97F4A7C15ull + 1;
  for (auto& byte : bytes) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    byte = static_cast<std::byte>(state >> 56);
  }
  return bytes;
}

// An agent and everything it has told so far.
class TestAgent {
 public:
  explicit TestAgent(const TransferConfig& config) : agent_(make_transfer_agent(config)) {}
  TransferAgent* operator->() const { return agent_.get(); }
  void destroy() { agent_.reset(); }
  std::vector<TransferEvent>& events() { return events_; }

  void poll(Time now = std::chrono::steady_clock::now()) { agent_->poll(now, events_); }
  template <class Event>
  const Event* seen(auto&& fits) const {
    for (const TransferEvent& event : events_)
      if (const auto* found = std::get_if<Event>(&event); found && fits(*found)) return found;
    return nullptr;
  }
  template <class Event>
  const Event* seen() const {
    return seen<Event>([](const Event&) { return true; });
  }
  // Polls until the event has come; nullptr after a time that even a loaded machine keeps.
  template <class Event>
  const Event* await(auto&& fits) {
    const Time limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    for (;;) {
      poll();
      if (const Event* found = seen<Event>(fits)) return found;
      const Time now = std::chrono::steady_clock::now();
      if (now >= limit) return nullptr;
      agent_->wait_until(now + std::chrono::milliseconds(20));
    }
  }
  template <class Event>
  const Event* await() {
    return await<Event>([](const Event&) { return true; });
  }
  const PushDone* await_done(TransferId id) {
    return await<PushDone>([id](const PushDone& done) { return done.id == id; });
  }
  bool lands(TransferId id) {
    const PushDone* done = await_done(id);
    return done != nullptr && done->done;
  }

 private:
  std::unique_ptr<TransferAgent> agent_;
  std::vector<TransferEvent> events_;
};

inline constexpr int64_t kTestSlotBytes = 64 << 10;
inline constexpr int64_t kTestSlots = 8;

class TransferTest : public testing::TestWithParam<TransferBackend> {
 protected:
  TransferConfig config(uint64_t worker) const {
    TransferConfig config;
    config.backend = GetParam();
    config.self = WorkerId{worker};
    config.credentials = shared_secret("a secret of tests");
    config.slot_bytes = kTestSlotBytes;
    config.num_slots = kTestSlots;
    config.fabric = fabric_;
    return config;
  }
  static Time soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(60); }
  static constexpr RequestKey kKey{RequestUid{7}, Attempt{1}};
  static constexpr WorkerId kReceiver{1}, kSender{2};

  std::shared_ptr<InProcessFabric> fabric_ = make_in_process_fabric();
};

}  // namespace cheetah::cluster
