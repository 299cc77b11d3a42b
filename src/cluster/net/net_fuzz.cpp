// Bytes of a connection: a stranger's must never establish a session, and framed ones must be read the same
// way however they are cut.
#include <cstdint>
#include <string>

#include "base/error.h"
#include "cluster/net/session.h"
#include "cluster/net/test_authority.h"

namespace cheetah::cluster {
namespace {

std::string frames_of(std::string_view bytes, size_t piece) {
  FrameReader reader(64);
  std::string seen;
  try {
    for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size()))) {
      reader.append(bytes.substr(0, piece));
      while (const auto body = reader.next()) seen += std::to_string(body->size()) + ":" + *body;
    }
  } catch (const Error& error) {
    seen += error.what();
  }
  return seen;
}

void meet_stranger(std::string_view bytes, bool dials, std::shared_ptr<const Identity> identity) {
  Session session({.self = WorkerId{1},
                   .secret = "a secret nobody knows",
                   .dials = dials,
                   .expected = {},
                   .identity = std::move(identity)},
                  Digest{});
  std::string reply;
  std::vector<Packet> packets;
  try {
    session.receive(bytes, reply, packets);
  } catch (const Error&) {
    return;
  }
  CHEETAH_ASSERT(!session.established() && packets.empty(), "a stranger stays one");
}

void check_proof(std::string_view bytes, const Identity& identity) {
  try {
    identity.check(bytes, "words", WorkerId{1});
  } catch (const Error&) {
    return;
  }
  CHEETAH_ASSERT(false, "nobody signs without a key");
}

}  // namespace
}  // namespace cheetah::cluster

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cheetah::cluster;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string whole = frames_of(bytes, size + 1);
  CHEETAH_ASSERT(whole == frames_of(bytes, 1), "cuts change nothing");
  CHEETAH_ASSERT(whole == frames_of(bytes, 3), "cuts change nothing");
  static TestAuthority authority;
  static const std::shared_ptr<const Identity> identity = authority.identity("fuzzed");
  for (const bool dials : {false, true}) {
    meet_stranger(bytes, dials, nullptr);
    meet_stranger(bytes, dials, identity);
  }
  check_proof(bytes, *identity);
  return 0;
}
