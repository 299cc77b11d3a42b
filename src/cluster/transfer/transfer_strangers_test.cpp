// SPDX-License-Identifier: MIT
// Strangers at every socket of a process that moves pages, those of UCX itself too: it lives, listens nowhere but at
// its host, and goes on.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "cluster/transfer/transfer_fixture.h"
#include "cluster/transfer/transfer_other_process.h"

namespace cheetah::cluster {
namespace {

constexpr uint32_t kLoopback = 0x0100007f;  // as /proc/net/tcp has it

struct Listening {
  uint32_t address = 0;
  uint16_t port = 0;
};

std::set<std::string> socket_inodes(pid_t pid) {
  std::set<std::string> inodes;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
  }
  return inodes;
}

// TCP sockets that the process listens on; one of IPv6 has the address 0.
std::vector<Listening> listening_sockets(pid_t pid) {
  const auto inodes = socket_inodes(pid);
  std::vector<Listening> found;
  for (const char* table : {"tcp", "tcp6"}) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/net/" + table);
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string slot, local, remote, state, queues, timer, retransmits, user, timeout, inode;
      words >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >> inode;
      if (state != "0A" || !inodes.contains(inode)) continue;
      const size_t colon = local.find(':');
      const bool is_four = colon == 8;
      found.push_back({is_four ? static_cast<uint32_t>(std::stoul(local.substr(0, 8), nullptr, 16)) : 0,
          static_cast<uint16_t>(std::stoul(local.substr(colon + 1), nullptr, 16))});
    }
  }
  return found;
}

// Open until the end: idle strangers are part of it.
class Stranger {
 public:
  ~Stranger() {
    for (const int fd : open_) ::close(fd);
  }
  bool say(uint16_t port, std::string_view bytes) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    open_.push_back(fd);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) return false;
    static_cast<void>(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL));  // it may be refused at once
    return true;
  }

 private:
  std::vector<int> open_;
};

class TransferStrangers : public testing::TestWithParam<TransferBackend> {};

TEST_P(TransferStrangers, NoBytesKillAProcessAndItListensAtItsHostAlone) {
  constexpr WorkerId kParent{1}, kChild{2};
  OtherProcess receiver("TransferOtherProcess.Runs", "receiver", GetParam());
  const std::string description = receiver.ask(), ticket = receiver.ask();
  const auto sockets = listening_sockets(receiver.pid());
  ASSERT_FALSE(sockets.empty());
  std::vector<std::string> noise = {std::string(64, '\0'), std::string(4096, '\xff'),
      "GET / HTTP/1.1\r\n\r\n", std::string("\0\xff\xff\xff\xff", 5),
      std::string("\1\0\0\1\0", 5).append(256, 'x'), std::string(1, '\x16')};
  for (uint32_t seed = 1; seed <= 30; ++seed) {
    const auto bytes = pattern_bytes(seed * 97 % 3000, seed);
    noise.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  Stranger stranger;
  for (const Listening& at : sockets) {
    EXPECT_EQ(at.address, kLoopback) << "port " << at.port;
    for (const std::string& bytes : noise) EXPECT_TRUE(stranger.say(at.port, bytes)) << "port " << at.port;
  }
  TransferConfig config;
  config.backend = GetParam();
  config.self = kParent;
  config.credentials = shared_secret("a secret of tests");
  config.slot_bytes = 4 << 20;
  config.num_slots = 1;
  TestAgent sender(config);
  sender->add_peer(kChild, description);
  const auto bytes = pattern_bytes(1 << 20, 1);
  for (uint32_t index = 0; index < 3; ++index) {
    const TransferId id = sender->push({.to = kChild, .ticket = ticket, .index = index, .pieces = {bytes}});
    const PushDone* done = sender.await_done(id);
    ASSERT_TRUE(done);
    EXPECT_TRUE(done->done) << done->why;
  }
}

std::vector<TransferBackend> backends_with_sockets() {
  std::vector<TransferBackend> backends = available_backends();
  std::erase_if(backends, [](TransferBackend backend) {
    return backend == TransferBackend::kInProcess || backend == TransferBackend::kSharedMemory;
  });
  return backends;
}

INSTANTIATE_TEST_SUITE_P(
    Backends, TransferStrangers, testing::ValuesIn(backends_with_sockets()), test_name_of);

}  // namespace
}  // namespace cheetah::cluster
