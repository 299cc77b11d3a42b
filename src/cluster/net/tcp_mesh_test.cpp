// SPDX-License-Identifier: MIT
// The TCP mesh against peers that do not behave: raw sockets stand for them.
#include "cluster/net/tcp_mesh.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/error.h"
#include "cluster/net/mesh_probe.h"
#include "cluster/net/session.h"

namespace cheetah::cluster {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using std::chrono::milliseconds;

constexpr char kSecret[] = "the secret of this cluster";

TcpMeshConfig config_of(uint64_t id) {
  TcpMeshConfig config;
  config.self = WorkerId{id};
  config.credentials = shared_secret(kSecret);
  config.first_retry = milliseconds(5);
  return config;
}

struct Member {
  explicit Member(const TcpMeshConfig& config) : mesh(make_tcp_mesh(config)) { mesh->start(probe.events()); }
  MeshProbe probe;
  std::unique_ptr<Mesh> mesh;
};

// A connection under the test's control; reads give up after a while.
class RawPeer {
 public:
  explicit RawPeer(uint16_t port) : socket_(context_) {
    socket_.connect({asio::ip::address_v4::loopback(), port});
    const timeval limit{.tv_sec = 30, .tv_usec = 0};
    setsockopt(socket_.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  void write(std::string_view bytes) { asio::write(socket_, asio::buffer(bytes)); }
  std::string read() {  // "": the other side closed
    std::string bytes(65536, '\0');
    const ssize_t size = recv(socket_.native_handle(), bytes.data(), bytes.size(), 0);
    bytes.resize(size > 0 ? static_cast<size_t>(size) : 0);
    return bytes;
  }
  bool closes() {
    while (!read().empty()) {
    }
    return true;
  }
  // Plays the dialer of a session until both have proved themselves. What it said.
  std::string establish(Session& session) {
    std::string said = session.opening();
    write(said);
    std::vector<Packet> packets;
    while (!session.established()) {
      std::string reply;
      session.receive(read(), reply, packets);
      write(reply);
      said += reply;
    }
    return said;
  }
  tcp::socket& socket() { return socket_; }

 private:
  asio::io_context context_;
  tcp::socket socket_;
};

SessionSetup dialer(uint64_t id, uint64_t to, const std::string& secret = kSecret) {
  return {
      .self = WorkerId{id}, .credentials = shared_secret(secret), .dials = true, .expected = WorkerId{to}};
}

TEST(TcpMesh, APeerWithAnotherSecretNeverComesUp) {
  TcpMeshConfig other = config_of(2);
  other.credentials = shared_secret("the secret of another cluster");
  Member a(config_of(1)), b(other);
  a.mesh->connect(WorkerId{2}, b.mesh->host(), b.mesh->port());
  RawPeer raw(a.mesh->port());
  Session session(dialer(3, 1, "guessed, and guessed wrong"));
  raw.write(session.opening());
  std::string reply, why;
  std::vector<Packet> packets;
  try {
    session.receive(raw.read(), reply, packets);
  } catch (const Error& error) {
    why = error.what();
  }
  EXPECT_NE(why.find("another secret"), std::string::npos) << why;  // the operator is told what is wrong
  EXPECT_TRUE(raw.closes());
  a.mesh.reset();
  b.mesh.reset();
  EXPECT_FALSE(a.probe.wait_for(MeshReport::kUp, 1, milliseconds(0)));
  EXPECT_FALSE(b.probe.wait_for(MeshReport::kUp, 1, milliseconds(0)));
}

TEST(TcpMesh, GarbageAndLargeClaimsOfStrangersAreCutOff) {
  Member a(config_of(1));
  for (const std::string& bytes : {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string(300, '\xff'),
           to_frame(std::string(200, '\0')), std::string("\0\0\0\0", 4)}) {
    RawPeer raw(a.mesh->port());
    raw.write(bytes);
    EXPECT_TRUE(raw.closes());
  }
}

TEST(TcpMesh, AStrangerThatSaysNothingIsTimedOut) {
  TcpMeshConfig config = config_of(1);
  config.handshake_time = milliseconds(50);
  Member a(config);
  RawPeer silent(a.mesh->port()), stuck(a.mesh->port());
  Session session(dialer(2, 1));
  stuck.write(session.opening());  // and never the proof
  EXPECT_TRUE(silent.closes());
  EXPECT_TRUE(stuck.closes());
}

// The newest may be a peer: the longest silent one gives way.
TEST(TcpMesh, StrangersAreFewAndDoNotKeepPeersOut) {
  TcpMeshConfig config = config_of(1);
  config.max_strangers = 2;
  config.handshake_time = std::chrono::seconds(20);
  Member a(config);
  RawPeer first(a.mesh->port()), second(a.mesh->port()), peer(a.mesh->port());
  EXPECT_TRUE(first.closes());
  Session session(dialer(2, 1));
  peer.establish(session);
  EXPECT_TRUE(a.probe.wait_for(MeshReport::kUp));
}

// A refused peer lingers for a moment, and does not count meanwhile.
TEST(TcpMesh, NoiseDoesNotDelayPeers) {
  TcpMeshConfig config = config_of(1);
  config.max_strangers = 2;
  Member a(config);
  std::vector<std::unique_ptr<RawPeer>> noise;
  for (int i = 0; i < 100; ++i) {
    noise.push_back(std::make_unique<RawPeer>(a.mesh->port()));
    noise.back()->write(std::string(64, '\0'));
  }
  RawPeer peer(a.mesh->port());
  Session session(dialer(2, 1));
  peer.establish(session);
  EXPECT_TRUE(a.probe.wait_for(MeshReport::kUp));
}

TEST(TcpMesh, AChangedSecretIsTakenUpForLinksToCome) {
  char path[] = "/tmp/cheetah_secret_XXXXXX";
  close(mkstemp(path));
  std::ofstream(path) << "the old secret of all\n";
  TcpMeshConfig config = config_of(1);
  config.credentials = {.secrets = std::make_shared<Secrets>(std::string(path))};
  Member a(config);
  RawPeer old_peer(a.mesh->port());
  Session old_session(dialer(2, 1, "the old secret of all"));
  old_peer.establish(old_session);
  ASSERT_TRUE(a.probe.wait_for(MeshReport::kUp));
  std::ofstream(path) << "the old secret of all\nthe new secret of all\n";
  RawPeer new_peer(a.mesh->port());
  Session new_session(dialer(3, 1, "the new secret of all"));
  new_peer.establish(new_session);
  EXPECT_TRUE(a.probe.wait_for(MeshReport::kUp, 2));
  std::remove(path);
}

TEST(TcpMesh, MeshesThatAreLinkedOpenWhatTheOtherSeals) {
  Member a(config_of(1)), b(config_of(2)), c(config_of(3));
  a.mesh->connect(WorkerId{2}, b.mesh->host(), b.mesh->port());
  ASSERT_TRUE(a.probe.wait_for(MeshReport::kUp) && b.probe.wait_for(MeshReport::kUp));
  EXPECT_EQ(b.mesh->open(a.mesh->seal("a job")), "a job");
  EXPECT_EQ(a.mesh->open(b.mesh->seal("a job")), "a job");
  EXPECT_FALSE(c.mesh->open(a.mesh->seal("a job")));
}

TEST(TcpMesh, ARecordedConversationDoesNotOpenALink) {
  Member a(config_of(1));
  std::string recorded;
  {
    RawPeer raw(a.mesh->port());
    Session session(dialer(2, 1));
    recorded = raw.establish(session);
    ASSERT_TRUE(a.probe.wait_for(MeshReport::kUp));
  }
  ASSERT_TRUE(a.probe.wait_for(MeshReport::kDown));
  RawPeer again(a.mesh->port());
  again.write(recorded);
  EXPECT_TRUE(again.closes());
  EXPECT_EQ(MeshProbe::count(a.probe.seen, MeshReport::kUp), 1u);
}

TEST(TcpMesh, ALinkWhosePeerFallsSilentIsReportedDown) {
  TcpMeshConfig config = config_of(1);
  config.ping_interval = milliseconds(20);
  config.dead_after = milliseconds(200);
  Member a(config);
  RawPeer raw(a.mesh->port());
  Session session(dialer(2, 1));
  raw.establish(session);
  ASSERT_TRUE(a.probe.wait_for(MeshReport::kUp));  // and no answer to a ping from here on
  ASSERT_TRUE(a.probe.wait_for(MeshReport::kDown));
  EXPECT_NE(a.probe.texts(MeshReport::kDown)[0].find("silent"), std::string::npos);
}

TEST(TcpMesh, ASecondConnectionOfAPeerReplacesItsFirst) {
  Member a(config_of(1));
  RawPeer first(a.mesh->port()), second(a.mesh->port());
  Session one(dialer(2, 1)), two(dialer(2, 1));
  first.establish(one);
  ASSERT_TRUE(a.probe.wait_for(MeshReport::kUp));
  second.establish(two);
  ASSERT_TRUE(a.probe.wait_for(MeshReport::kUp, 2));
  EXPECT_TRUE(first.closes());
  second.write(two.seal(PacketType::kMessage, "here"));
  ASSERT_TRUE(a.probe.wait_for(MeshReport::kMessage));
  std::vector<MeshReport::Kind> order;
  for (const MeshReport& report : a.probe.seen) order.push_back(report.kind);
  using enum MeshReport::Kind;
  EXPECT_EQ(order, (std::vector{kUp, kDown, kUp, kMessage}));
}

TEST(TcpMesh, APeerThatReadsSlowlyPressesAndOneThatReadsNothingIsCutOff) {
  TcpMeshConfig config = config_of(1);
  config.pressed_bytes = 1 << 20;
  config.relieved_bytes = 1 << 19;
  config.most_bytes = 32 << 20;
  config.dead_after = std::chrono::seconds(60);
  Member a(config);
  RawPeer raw(a.mesh->port());
  Session session(dialer(2, 1));
  raw.establish(session);
  ASSERT_TRUE(a.probe.wait_for(MeshReport::kUp));
  const std::string block(1 << 20, 'x');
  for (int i = 0; i < 24; ++i) a.mesh->send(WorkerId{2}, block);  // more than any socket buffer holds
  ASSERT_TRUE(a.probe.wait_for(MeshReport::kPressed));
  size_t read = 0;
  while (read < 24 * block.size()) {
    const std::string bytes = raw.read();
    ASSERT_FALSE(bytes.empty());
    read += bytes.size();
  }
  ASSERT_TRUE(a.probe.wait_for(MeshReport::kRelieved));
  for (int i = 0; i < 64; ++i) a.mesh->send(WorkerId{2}, block);
  ASSERT_TRUE(a.probe.wait_for(MeshReport::kDown));
  EXPECT_NE(a.probe.texts(MeshReport::kDown)[0].find("slowly"), std::string::npos);
}

TEST(TcpMesh, ADamagedStreamClosesTheLink) {
  Member a(config_of(1));
  RawPeer raw(a.mesh->port());
  Session session(dialer(2, 1));
  raw.establish(session);
  ASSERT_TRUE(a.probe.wait_for(MeshReport::kUp));
  std::string bytes = session.seal(PacketType::kMessage, "hello");
  bytes.back() ^= 1;
  raw.write(bytes);
  ASSERT_TRUE(a.probe.wait_for(MeshReport::kDown));
  EXPECT_TRUE(a.probe.texts(MeshReport::kMessage).empty());
}

TEST(TcpMesh, PeersThatKnowOnlyAddressesFindEachOtherAndWhoeverComesAfter) {
  auto a = std::make_unique<Member>(config_of(1));
  auto b = std::make_unique<Member>(config_of(2));
  a->mesh->connect_to("127.0.0.1", b->mesh->port());
  b->mesh->connect_to("127.0.0.1", a->mesh->port());
  ASSERT_TRUE(a->probe.wait_for(MeshReport::kUp) && b->probe.wait_for(MeshReport::kUp));
  TcpMeshConfig config = config_of(3);
  config.port = b->mesh->port();
  b.reset();
  ASSERT_TRUE(a->probe.wait_for(MeshReport::kDown));
  Member c(config);  // at the address where b was
  c.mesh->connect_to("127.0.0.1", a->mesh->port());
  ASSERT_TRUE(a->probe.wait([](const auto& seen) {
    return std::ranges::any_of(
        seen, [](const MeshReport& r) { return r.kind == MeshReport::kUp && r.peer == WorkerId{3}; });
  }));
  // A link that was made stays: neither side keeps on dialing.
  EXPECT_FALSE(a->probe.wait(
      [](const auto& seen) { return MeshProbe::count(seen, MeshReport::kUp) > 6; }, milliseconds(200)));
}

TEST(TcpMesh, AnAddressThatIsNoLongerWantedIsLeftAlone) {
  Member a(config_of(1)), b(config_of(2));
  a.mesh->connect_to("127.0.0.1", b.mesh->port());
  ASSERT_TRUE(a.probe.wait_for(MeshReport::kUp) && b.probe.wait_for(MeshReport::kUp));
  a.mesh->disconnect_from("127.0.0.1", b.mesh->port());
  ASSERT_TRUE(a.probe.wait_for(MeshReport::kDown) && b.probe.wait_for(MeshReport::kDown));
  EXPECT_FALSE(a.probe.wait_for(MeshReport::kUp, 2, milliseconds(200)));
}

TEST(TcpMesh, BeyondThisMachineASecretIsNeeded) {
  TcpMeshConfig config = config_of(1);
  config.credentials = {};
  EXPECT_GT(make_tcp_mesh(config)->port(), 0);
  config.host = "0.0.0.0";
  EXPECT_THROW(make_tcp_mesh(config), Error);
  config.credentials = shared_secret(kSecret);
  EXPECT_GT(make_tcp_mesh(config)->port(), 0);
}

TEST(TcpMesh, SecretsAreReadFromPrivateFilesOnly) {
  char path[] = "/tmp/cheetah_secret_XXXXXX";
  const int file = mkstemp(path);
  ASSERT_GE(file, 0);
  close(file);
  const auto write = [&](const std::string& text) { std::ofstream(path) << text; };
  using Secret = std::vector<std::string>;
  write("0123456789abcdef\n\n");
  EXPECT_EQ(read_secret_file(path), Secret{"0123456789abcdef"});
  write("0123456789abcdef\r\nfedcba9876543210\n");
  EXPECT_EQ(read_secret_file(path), (Secret{"0123456789abcdef", "fedcba9876543210"}));
  write("0123456789abcdef\nnot this\n");
  EXPECT_THROW(read_secret_file(path), Error) << "a second secret as short as that";
  write("0123456789abcdef\nfedcba9876543210\n0123456789abcdef\n");
  EXPECT_THROW(read_secret_file(path), Error) << "three";
  write("0123456789abcdef\n");
  chmod(path, 0644);
  EXPECT_THROW(read_secret_file(path), Error);
  chmod(path, 0600);
  write("short\n");
  EXPECT_THROW(read_secret_file(path), Error);
  std::remove(path);
  EXPECT_THROW(read_secret_file(path), Error);
}

}  // namespace
}  // namespace cheetah::cluster
