// SPDX-License-Identifier: MIT
#include "cluster/net/session.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/net/link_keys.h"

namespace cheetah::cluster {
namespace {

constexpr WorkerId kDialer{1}, kListener{2};

SessionSetup dialer(const std::string& secret = "a secret of the cluster") {
  return {.self = kDialer, .credentials = shared_secret(secret), .dials = true, .expected = kListener};
}
SessionSetup listener(const std::string& secret = "a secret of the cluster") {
  return {.self = kListener, .credentials = shared_secret(secret), .dials = false};
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

TEST(Session, AWrongSecretIsRefusedByTheListenerBeforeItSaysAnything) {
  Session a(dialer("another secret, of others")), b(listener());
  std::string said;
  std::vector<Packet> packets;
  std::string why;
  try {
    b.receive(a.opening(), said, packets);
  } catch (const Error& error) {
    why = error.what();
  }
  EXPECT_NE(why.find("--secret-file"), std::string::npos) << why;
  EXPECT_TRUE(said.empty());
  EXPECT_FALSE(b.established());
  EXPECT_NE(error_of(a, b.refusal(why)).find("another secret"), std::string::npos);
}

TEST(Session, AListenerThatKnowsAnotherSecretIsRefusedByTheDialer) {
  Session a(dialer()), b(listener("another secret, of others"));
  std::string reply;
  std::vector<Packet> packets;
  EXPECT_THROW(b.receive(a.opening(), reply, packets), Error);
  EXPECT_NE(error_of(a, reply + b.refusal("")), "");
  EXPECT_FALSE(a.established());
}

TEST(Session, AListenerThatOnlyEchoesIsRefused) {
  Session a(dialer());
  EXPECT_NE(error_of(a, a.opening()), "");  // its own hello
  Session again(dialer()), b(listener());
  std::string answer, rest;
  std::vector<Packet> packets;
  b.receive(again.opening(), answer, packets);
  again.receive(answer, rest, packets);
  EXPECT_NE(error_of(again, rest), "");  // its own proof
}

// A stranger that passes a worker's own words back to it makes it meet itself.
TEST(Session, AWorkerDoesNotLinkToItself) {
  SessionSetup same = listener();
  same.self = kDialer;
  SessionSetup any = dialer();
  any.expected = std::nullopt;
  Session a(any), b(same);
  EXPECT_THROW(talk(a, b), Error);
  EXPECT_FALSE(a.established() || b.established());
}

// old, then old and new, then new and old, then new: at every step both kinds of neighbours meet.
TEST(Session, ASecretIsReplacedWithoutAStop) {
  const std::vector<std::vector<std::string>> steps = {{"the old secret, 1"},
      {"the old secret, 1", "the new secret, 2"}, {"the new secret, 2", "the old secret, 1"},
      {"the new secret, 2"}};
  const auto meet = [&](size_t from, size_t to) {
    SessionSetup dials = dialer(), listens = listener();
    dials.credentials = {.secrets = std::make_shared<Secrets>(steps[from])};
    listens.credentials = {.secrets = std::make_shared<Secrets>(steps[to])};
    Session a(dials), b(listens);
    try {
      talk(a, b);
    } catch (const Error&) {
      return false;
    }
    return a.established() && b.established();
  };
  for (size_t step = 0; step < steps.size(); ++step) {
    EXPECT_TRUE(meet(step, step)) << step;
    if (step + 1 == steps.size()) break;
    EXPECT_TRUE(meet(step, step + 1) && meet(step + 1, step)) << step;
  }
  EXPECT_FALSE(meet(0, 3) || meet(3, 0));
}

TEST(Session, NobodyWithoutASecretMeetsOneWithIt) {
  SessionSetup open = dialer();
  open.credentials = {};
  Session a(open), b(listener());
  EXPECT_THROW(talk(a, b), Error);
}

TEST(Session, PurposesDoNotMix) {
  SessionSetup pages = dialer();
  pages.purpose = "cheetah-pages";
  Session a(pages), b(listener());
  EXPECT_THROW(talk(a, b), Error);
}

TEST(Session, PeersLearnEachOthersKeysAndShareDerivedOnes) {
  SessionSetup left = dialer(), right = listener();
  left.key = random_nonce();
  right.key = random_nonce();
  Session a(left), b(right);
  talk(a, b);
  EXPECT_EQ(a.peer_key(), right.key);
  EXPECT_EQ(b.peer_key(), left.key);
  EXPECT_EQ(a.derive_key("x"), b.derive_key("x"));
  EXPECT_NE(a.derive_key("x"), a.derive_key("y"));
  Session c(left), d(right);
  talk(c, d);
  EXPECT_NE(a.derive_key("x"), c.derive_key("x")) << "fresh for every link";
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
  try {
    talk(a, b);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("expected"), std::string::npos);
  }
}

// Plays the dialer in a tunnel of its own.
std::string refusal_of_words(const std::string& words) {
  Session b(listener());
  Tunnel raw(shared_secret("a secret of the cluster"), true);
  std::string reply, inside;
  std::vector<Packet> packets;
  for (std::string out = raw.take_output(); !out.empty(); out = raw.take_output()) {
    b.receive(out, reply, packets);
    raw.open(std::exchange(reply, {}), inside);
  }
  if (!raw.stands()) return "no tunnel";
  raw.seal(words);
  return error_of(b, raw.take_output());
}

std::string hello_of_versions(char newest, char oldest) {
  std::string body(1, 1);
  body += "cheetah-mesh";
  body += {newest, 0, oldest, 0};
  return to_frame(body + std::string(8, 7) + std::string(32, 'k'));
}

TEST(Session, AVersionThatNoneOfBothSpeaksIsNamed) {
  EXPECT_EQ(refusal_of_words(hello_of_versions(2, 2)), "");
  EXPECT_EQ(refusal_of_words(hello_of_versions(3, 2)), "")
      << "the next release speaks this one's version too";
  EXPECT_NE(refusal_of_words(hello_of_versions(9, 8)).find("versions 8 to 9"), std::string::npos);
  EXPECT_NE(refusal_of_words(hello_of_versions(1, 1)).find("versions 1 to 1"), std::string::npos);
}

TEST(Session, WhatAMemberSaysOutOfTurnIsRefused) {
  EXPECT_NE(refusal_of_words(to_frame(std::string(1, 2))), "") << "ready before the hello";
  EXPECT_NE(refusal_of_words(to_frame(std::string(1, 9))), "");
  EXPECT_NE(refusal_of_words(hello_of_versions(2, 2) + hello_of_versions(2, 2)), "");
  EXPECT_NE(refusal_of_words(hello_of_versions(2, 2).substr(0, 4) + std::string(59, 1)), "");
  EXPECT_NE(refusal_of_words(to_frame(std::string(kMaxHandshakeFrameBytes + 1, 'x')).substr(0, 4)), "");
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

TEST(Session, GarbageOfStrangersIsRefused) {
  for (const std::string& bytes : {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string(300, '\xff'),
           std::string(64, '\0'), to_frame(std::string(200, '\1'))}) {
    Session b(listener());
    EXPECT_NE(error_of(b, bytes), "");
    EXPECT_FALSE(b.established());
  }
}

TEST(SealedText, OpensOnlyUnderItsKeyAndItsContext) {
  const Digest key = random_nonce(), other = random_nonce();
  const std::string sealed = seal_text(key, "with", "text");
  EXPECT_EQ(sealed.find("text"), std::string::npos);
  EXPECT_EQ(open_text(key, "with", sealed), "text");
  EXPECT_EQ(open_text(key, "with", seal_text(key, "with", "")), "");
  EXPECT_FALSE(open_text(other, "with", sealed));
  EXPECT_FALSE(open_text(key, "without", sealed));
  for (size_t i = 0; i < sealed.size(); ++i) {
    std::string changed = sealed;
    changed[i] ^= 1;
    EXPECT_FALSE(open_text(key, "with", changed)) << i;
    EXPECT_FALSE(open_text(key, "with", sealed.substr(0, i))) << i;
  }
}

TEST(LinkKeys, OnlyThoseWithALinkOpenWhatAWorkerSeals) {
  LinkKeys a(WorkerId{1}), b(WorkerId{2}), stranger(WorkerId{3});
  const std::string sealed = a.seal("tokens of a prompt");
  EXPECT_EQ(sealed.find("prompt"), std::string::npos);
  EXPECT_EQ(a.open(sealed), "tokens of a prompt");
  EXPECT_FALSE(b.open(sealed));
  b.learn(WorkerId{1}, a.own());
  EXPECT_EQ(b.open(sealed), "tokens of a prompt");
  stranger.learn(WorkerId{1}, b.own());
  EXPECT_FALSE(stranger.open(sealed));
  std::string of_another = sealed;
  of_another[0] = 2;
  b.learn(WorkerId{2}, a.own());
  EXPECT_FALSE(b.open(of_another)) << "the sealer's id is part of it";
}

}  // namespace
}  // namespace cheetah::cluster
