// SPDX-License-Identifier: MIT
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

void meet_stranger(std::string_view bytes, bool dials, const Credentials& credentials) {
  Session session({.self = WorkerId{1}, .credentials = credentials, .dials = dials});
  std::string reply;
  std::vector<Packet> packets;
  try {
    session.receive(bytes, reply, packets);
  } catch (const Error&) {
    return;
  }
  CHEETAH_ASSERT(!session.established() && packets.empty(), "a stranger stays one");
}

// What a member of the cluster says inside its tunnel.
void meet_member(std::string_view bytes, const Credentials& credentials) {
  Session session({.self = WorkerId{1}, .credentials = credentials});
  Tunnel tunnel(credentials, true);
  std::string reply, said;
  std::vector<Packet> packets;
  for (std::string out = tunnel.take_output(); !out.empty(); out = tunnel.take_output()) {
    session.receive(out, reply, packets);
    tunnel.open(std::exchange(reply, {}), said);
  }
  if (bytes.empty()) return;
  tunnel.seal(bytes);
  try {
    session.receive(tunnel.take_output(), reply, packets);
  } catch (const Error&) {
  }
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
  static const Credentials secret = shared_secret("a secret nobody knows"),
                           certificate{.identity = authority.identity("fuzzed")};
  for (const bool dials : {false, true}) {
    meet_stranger(bytes, dials, secret);
    meet_stranger(bytes, dials, certificate);
  }
  meet_member(bytes, secret);
  return 0;
}
