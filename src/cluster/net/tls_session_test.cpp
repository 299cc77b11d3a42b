// SPDX-License-Identifier: MIT
// Sessions of workers that know each other by certificates: the same words in a tunnel.
#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/net/mesh.h"
#include "cluster/net/session.h"
#include "cluster/net/test_authority.h"

namespace cheetah::cluster {
namespace {

using Names = std::shared_ptr<const Identity>;

SessionSetup setup_of(const Names& identity, bool dials, uint64_t random) {
  return {.self = identity->id_with(random), .credentials = {.identity = identity}, .dials = dials};
}

struct Ending {
  std::string at_dialer, at_listener;  // why each gave up; "": it did not
  std::vector<Packet> to_dialer, to_listener;
};

// Carries bytes both ways, a few at a time, until neither has more to say; a side that gives up says why.
Ending talk(Session& dialer, Session& listener, size_t piece = 1 << 20) {
  Ending ending;
  std::string to_listener = dialer.opening(), to_dialer;
  const auto give = [&](Session& to, std::string& bytes, std::string& back, std::string& why,
                        std::vector<Packet>& packets) {
    while (!bytes.empty() && why.empty()) {
      const std::string some = bytes.substr(0, piece);
      bytes.erase(0, some.size());
      try {
        to.receive(some, back, packets);
      } catch (const HandshakeEnd& end) {
        why = end.what();
      } catch (const Error& error) {
        why = error.what();
        if (!to.established()) back += to.refusal(why);
      }
    }
    bytes.clear();
  };
  while (!to_listener.empty() || !to_dialer.empty()) {
    give(listener, to_listener, to_dialer, ending.at_listener, ending.to_listener);
    give(dialer, to_dialer, to_listener, ending.at_dialer, ending.to_dialer);
  }
  return ending;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class TlsSession : public testing::Test {
 protected:
  TestAuthority authority_;
  Names a_ = authority_.identity("prefill-0"), b_ = authority_.identity("decode-0");
};

TEST_F(TlsSession, WorkersOfOneAuthorityKnowEachOtherHoweverTheBytesAreCut) {
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{1} << 20}) {
    Session dialer(setup_of(a_, true, 1)), listener(setup_of(b_, false, 2));
    const Ending ending = talk(dialer, listener, piece);
    EXPECT_EQ(ending.at_dialer + ending.at_listener, "");
    ASSERT_TRUE(dialer.established() && listener.established());
    EXPECT_EQ(dialer.peer(), b_->id_with(2));
    EXPECT_EQ(listener.peer(), a_->id_with(1));
    std::string reply;
    std::vector<Packet> packets;
    std::string sent = dialer.seal(PacketType::kMessage, "one");
    sent += dialer.seal(PacketType::kPing, "");
    EXPECT_FALSE(contains(sent, "one"));
    listener.receive(sent, reply, packets);
    ASSERT_EQ(packets.size(), 2u);
    EXPECT_EQ(packets[0].payload, "one");
    EXPECT_EQ(packets[1].type, PacketType::kPing);
  }
}

TEST_F(TlsSession, TheLargestMessagePasses) {
  Session dialer(setup_of(a_, true, 1)), listener(setup_of(b_, false, 2));
  talk(dialer, listener);
  ASSERT_TRUE(listener.established());
  std::string reply;
  std::vector<Packet> packets;
  dialer.receive(listener.seal(PacketType::kMessage, std::string(kMaxMessageBytes, 'x')), reply, packets);
  ASSERT_EQ(packets.size(), 1u);
  EXPECT_EQ(packets[0].payload.size(), kMaxMessageBytes);
}

TEST_F(TlsSession, ACertificateOfAnotherAuthorityIsRefusedAndBothSidesSayWhy) {
  TestAuthority others("others");
  const Names stranger = others.identity("prefill-0");
  Session dialer(setup_of(stranger, true, 1)), listener(setup_of(b_, false, 2));
  const Ending met = talk(dialer, listener);
  EXPECT_FALSE(dialer.established() || listener.established());
  EXPECT_TRUE(contains(met.at_dialer, "--cluster-ca")) << met.at_dialer;
  EXPECT_TRUE(contains(met.at_listener, "refused by the peer")) << met.at_listener;
}

// Sees no fault in the listener, so that the listener has to judge.
TEST_F(TlsSession, ADialerOfAnotherAuthorityThatTrustsTheListenerIsRefusedByIt) {
  TestAuthority others("others");
  IdentityFiles files = others.issue("prefill-0");
  const std::string both = files.certificate + ".both";
  std::filesystem::copy_file(authority_.ca(), both);
  {
    const std::unique_ptr<FILE, int (*)(FILE*)> from(fopen(others.ca().c_str(), "r"), fclose),
        to(fopen(both.c_str(), "a"), fclose);
    for (int c; (c = fgetc(from.get())) != EOF;) fputc(c, to.get());
  }
  files.authorities = both;
  const Names stranger = std::make_shared<Identity>(files);
  Session dialer(setup_of(stranger, true, 1)), listener(setup_of(b_, false, 2));
  const Ending met = talk(dialer, listener);
  EXPECT_FALSE(listener.established() || dialer.established());
  EXPECT_TRUE(contains(met.at_listener, "the peer's certificate is refused")) << met.at_listener;
  EXPECT_TRUE(contains(met.at_dialer, "does not accept the authority")) << met.at_dialer;
}

TEST_F(TlsSession, APeerWithTheSecretIsRefusedAndBothSidesSayWhy) {
  const SessionSetup secret{
      .self = WorkerId{7}, .credentials = shared_secret("a secret of the cluster"), .dials = true};
  SessionSetup waiting = secret;
  waiting.dials = false;
  Session dialer(secret), listener(setup_of(b_, false, 2));
  const Ending met = talk(dialer, listener);
  EXPECT_FALSE(dialer.established() || listener.established());
  EXPECT_TRUE(contains(met.at_dialer, "comes with a certificate")) << met.at_dialer;
  EXPECT_TRUE(contains(met.at_listener, "refused by the peer")) << met.at_listener;
  Session modern(setup_of(a_, true, 1)), old(waiting);
  const Ending again = talk(modern, old);
  EXPECT_FALSE(modern.established() || old.established());
  EXPECT_TRUE(contains(again.at_listener, "comes with a certificate")) << again.at_listener;
  EXPECT_TRUE(contains(again.at_dialer, "expects a certificate where this node has none")) << again.at_dialer;
}

TEST_F(TlsSession, AWorkerCannotTakeTheIdOfAnother) {
  SessionSetup thief = setup_of(a_, true, 1);
  thief.self = authority_.identity("router-0")->id_with(5);
  Session dialer(thief), listener(setup_of(b_, false, 2));
  const Ending met = talk(dialer, listener);
  EXPECT_FALSE(listener.established());
  EXPECT_TRUE(contains(met.at_listener, "is not prefill-0")) << met.at_listener;
  EXPECT_TRUE(contains(met.at_dialer, "refused by the peer: worker")) << met.at_dialer;
}

TEST_F(TlsSession, ALinkThatNobodyNeedsIsNoRefusal) {
  SessionSetup busy = setup_of(b_, false, 2);
  busy.objection = [](WorkerId) { return "there is one already"; };
  Session dialer(setup_of(a_, true, 1)), listener(busy);
  std::string reply, more;
  std::vector<Packet> packets;
  listener.receive(dialer.opening(), reply, packets);
  dialer.receive(reply, more, packets);
  try {
    listener.receive(more, reply, packets);
    FAIL();
  } catch (const HandshakeEnd& end) {
    EXPECT_EQ(end.kind(), HandshakeEnd::Kind::kUnneeded);
  }
  try {
    dialer.receive(listener.refusal("there is one already", true), more, packets);
    FAIL();
  } catch (const HandshakeEnd& end) {
    EXPECT_EQ(end.kind(), HandshakeEnd::Kind::kUnneededByPeer);
  }
}

TEST_F(TlsSession, ChangedBytesEndTheSession) {
  Session dialer(setup_of(a_, true, 1)), listener(setup_of(b_, false, 2));
  talk(dialer, listener);
  std::string sent = dialer.seal(PacketType::kMessage, "hello"), reply;
  sent.back() ^= 1;
  std::vector<Packet> packets;
  EXPECT_THROW(listener.receive(sent, reply, packets), Error);
  EXPECT_TRUE(packets.empty());
}

TEST_F(TlsSession, AnIdFollowsFromTheNameAndDiffersFromLifeToLife) {
  EXPECT_TRUE(id_fits_name(a_->id_with(1), "prefill-0"));
  EXPECT_TRUE(id_fits_name(a_->id_with(~uint64_t{0}), "prefill-0"));
  EXPECT_FALSE(id_fits_name(a_->id_with(1), "decode-0"));
  EXPECT_FALSE(id_fits_name(a_->id_with(1), ""));
  EXPECT_NE(a_->id_with(1), a_->id_with(2));
  EXPECT_EQ(Identity(authority_.issue_as({.common_name = "only this"})).name(), "only this");
  EXPECT_EQ(
      Identity(authority_.issue_as({.common_name = "x", .alternative_names = "IP:10.0.0.1,URI:spiffe://c/d"}))
          .name(),
      "spiffe://c/d");
}

std::string refusal_of(const IdentityFiles& files) {
  try {
    Identity{files};
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_F(TlsSession, ACertificateThatNoPeerWouldAcceptIsRefusedAtTheStart) {
  TestAuthority others("others");
  IdentityFiles files = authority_.issue("x");
  files.authorities = others.ca();
  EXPECT_TRUE(contains(refusal_of(files), "no peer would accept")) << refusal_of(files);
  files = authority_.issue_as({.common_name = "x", .valid_s = -10});
  EXPECT_TRUE(contains(refusal_of(files), "expired")) << refusal_of(files);
  EXPECT_TRUE(contains(refusal_of(authority_.issue_as({})), "no name"));
  EXPECT_TRUE(contains(refusal_of(authority_.issue_as({.common_name = "x", .usage = "serverAuth"})), "both"));
  files = authority_.issue("x");
  files.key = authority_.issue("y").key;
  EXPECT_TRUE(contains(refusal_of(files), "expected the key"));
  files.key = "/dev/null";
  EXPECT_NE(refusal_of(files), "");
  files.certificate = files.authorities = "/nowhere";
  EXPECT_TRUE(contains(refusal_of(files), "/nowhere"));
}

TEST_F(TlsSession, RenewedFilesAreTakenUpWhereTheyNameTheSameWorker) {
  const IdentityFiles files = authority_.issue_as({.common_name = "x", .valid_s = 1000});
  const auto take = [&](const IdentityFiles& renewed) {
    std::filesystem::rename(renewed.certificate, files.certificate);
    std::filesystem::rename(renewed.key, files.key);
  };
  const auto identity = std::make_shared<Identity>(files);
  const auto serial = [&] {  // of the certificate that links to come show
    return ASN1_INTEGER_get(X509_get0_serialNumber(SSL_CTX_get0_certificate(identity->tls().get())));
  };
  const long before = serial();
  identity->renew();
  EXPECT_EQ(serial(), before);
  take(authority_.issue("x"));
  identity->renew();
  const long after = serial();
  EXPECT_NE(after, before);
  take(authority_.issue("y"));
  EXPECT_THROW(identity->renew(), Error);
  identity->renew();  // said once
  EXPECT_EQ(serial(), after);
}

TEST_F(TlsSession, CredentialsAreOneOfTwoAndWhole) {
  const IdentityFiles files = authority_.issue("x");
  const auto read = [&](const CredentialFiles& named) { return read_credentials(named); };
  EXPECT_FALSE(read({}).any());
  EXPECT_EQ(read({{}, files.certificate, files.key, files.authorities}).identity->name(), "x");
  EXPECT_THROW(read({{}, files.certificate, files.key, {}}), UsageError);
  EXPECT_THROW(read({"/dev/null", files.certificate, files.key, files.authorities}), UsageError);
  std::filesystem::permissions(
      files.key, std::filesystem::perms::others_read, std::filesystem::perm_options::add);
  EXPECT_THROW(read({{}, files.certificate, files.key, files.authorities}), Error);
}

}  // namespace
}  // namespace cheetah::cluster
