// Bytes of a connection: a stranger's must never establish a session, and framed ones must be read the same
// way however they are cut.
#include <cstdint>
#include <string>

#include "base/error.h"
#include "cluster/net/session.h"

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

void meet_stranger(std::string_view bytes, bool dials) {
  Session session({.self = WorkerId{1}, .secret = "a secret nobody knows", .dials = dials, .expected = {}},
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

}  // namespace
}  // namespace cheetah::cluster

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cheetah::cluster;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string whole = frames_of(bytes, size + 1);
  CHEETAH_ASSERT(whole == frames_of(bytes, 1), "cuts change nothing");
  CHEETAH_ASSERT(whole == frames_of(bytes, 3), "cuts change nothing");
  meet_stranger(bytes, false);
  meet_stranger(bytes, true);
  return 0;
}
