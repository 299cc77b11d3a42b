#include "cluster/net/session.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace cheetah::cluster {
namespace {

constexpr WorkerId kDialer{1}, kListener{2};

SessionSetup dialer(std::string secret = "a secret of the cluster") {
  return {.self = kDialer, .secret = std::move(secret), .dials = true, .expected = kListener};
}
SessionSetup listener(std::string secret = "a secret of the cluster") {
  return {.self = kListener, .secret = std::move(secret), .dials = false, .expected = {}};
}

struct Conversation {
  std::string to_listener, to_dialer;  // all that was said
  std::vector<Packet> at_dialer, at_listener;
};

// Carries bytes between the two until neither has more to say.
Conversation talk(Session& a, Session& b) {
  Conversation said;
  std::string to_b = a.opening(), to_a;
  while (!to_b.empty() || !to_a.empty()) {
    said.to_listener += to_b;
    said.to_dialer += to_a;
    std::string next_a, next_b;
    b.receive(to_b, next_a, said.at_listener);
    a.receive(to_a, next_b, said.at_dialer);
    to_a = next_a;
    to_b = next_b;
  }
  return said;
}

std::string error_of(Session& session, std::string_view bytes) {
  std::string reply;
  std::vector<Packet> packets;
  try {
    session.receive(bytes, reply, packets);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Session, PeersThatShareASecretKnowEachOtherAndExchangePackets) {
  Session a(dialer()), b(listener());
  talk(a, b);
  ASSERT_TRUE(a.established() && b.established());
  EXPECT_EQ(a.peer(), kListener);
  EXPECT_EQ(b.peer(), kDialer);
  std::string reply;
  std::vector<Packet> packets;
  std::string sent = a.seal(PacketType::kMessage, "one");
  sent += a.seal(PacketType::kPing, "");
  b.receive(sent, reply, packets);
  ASSERT_EQ(packets.size(), 2u);
  EXPECT_EQ(packets[0].payload, "one");
  EXPECT_EQ(packets[1].type, PacketType::kPing);
  EXPECT_TRUE(reply.empty());
}

TEST(Session, AWrongSecretIsRefusedByTheListenerBeforeItProvesItself) {
  Session a(dialer("another secret, of others")), b(listener());
  std::string hello, proof, nothing;
  std::vector<Packet> packets;
  b.receive(a.opening(), hello, packets);
  a.receive(hello, proof, packets);
  EXPECT_THROW(b.receive(proof, nothing, packets), Error);
  EXPECT_TRUE(nothing.empty());
  EXPECT_FALSE(b.established());
}

TEST(Session, AListenerThatOnlyEchoesIsRefused) {
  Session a(dialer());
  EXPECT_NE(error_of(a, a.opening()), "");  // its own hello
  Session again(dialer()), b(listener());
  std::string hello, proof;
  std::vector<Packet> packets;
  b.receive(again.opening(), hello, packets);
  again.receive(hello, proof, packets);
  EXPECT_NE(error_of(again, proof), "");  // its own proof
}

TEST(Session, AnOldConversationCannotBePlayedAgain) {
  Session a(dialer()), b(listener());
  const Conversation old = talk(a, b);
  Session fresh(listener());
  EXPECT_NE(error_of(fresh, old.to_listener), "");
  EXPECT_FALSE(fresh.established());
}

TEST(Session, AnotherWorkerThanTheExpectedIsRefused) {
  SessionSetup setup = dialer();
  setup.expected = WorkerId{77};
  Session a(setup), b(listener());
  std::string hello;
  std::vector<Packet> packets;
  b.receive(a.opening(), hello, packets);
  EXPECT_NE(error_of(a, hello).find("expected"), std::string::npos);
}

TEST(Session, AnotherVersionIsNamed) {
  Session a(dialer()), b(listener());
  std::string hello = a.opening();
  hello[4 + 1 + 12] = 9;  // after the length, the type and the magic
  EXPECT_NE(error_of(b, hello).find("version 9"), std::string::npos);
}

TEST(Session, ChangedDoubledAndMovedPacketsDoNotOpen) {
  for (const int fault : {0, 1, 2}) {
    Session a(dialer()), b(listener());
    talk(a, b);
    std::string first = a.seal(PacketType::kMessage, "first");
    std::string second = a.seal(PacketType::kMessage, "second");
    if (fault == 0) first[7] ^= 1;
    if (fault == 1) second = first;
    if (fault == 2) std::swap(first, second);
    EXPECT_NE(error_of(b, first + second), "") << fault;
  }
}

TEST(Session, AStrangerCannotSendLargeFramesOrPackets) {
  Session b(listener());
  EXPECT_NE(error_of(b, to_frame(std::string(kMaxHandshakeFrameBytes + 1, 'x')).substr(0, 4)), "");
  Session c(listener());
  EXPECT_NE(error_of(c, to_frame(std::string(1, 1) + "GET / HTTP/1.1")), "");
}

}  // namespace
}  // namespace cheetah::cluster
