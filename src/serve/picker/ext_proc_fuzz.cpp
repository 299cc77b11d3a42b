// SPDX-License-Identifier: MIT
// Messages of a proxy: any bytes are read or refused, and a call that takes them keeps its bounds.
#include <cstdint>

#include "base/error.h"
#include "serve/picker/picker_call.h"

namespace cheetah {
namespace {

struct Nobody final : GrpcReply {
  void send(std::string_view) override {}
  void finish(GrpcStatus, const std::string&) override { finished = true; }
  bool finished = false;
};
struct AtOnce final : PickerDesk {
  void choose(PickerQuestion question, std::function<bool(PickerAnswer&&)> tell) override {
    CHEETAH_ASSERT(question.body.size() <= 1000, "bodies are bounded");
    CHEETAH_ASSERT(tell({.endpoints = "10.0.0.1:8000", .ticket = 1}), "the call is there");
  }
  void ended(const PickerOutcome&) override {}
};

}  // namespace
}  // namespace cheetah

// Messages one after another: a length in one byte, and that many bytes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cheetah;
  AtOnce desk;
  const auto reply = std::make_shared<Nobody>();
  PickerBodies bodies{.most_each = 1000, .left = 1500};
  PickerCall call(desk, reply, bodies);
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  while (!rest.empty() && !reply->finished) {
    const size_t length = std::min<size_t>(static_cast<uint8_t>(rest.front()) * size_t{16}, rest.size() - 1);
    call.on_message(std::string(rest.substr(1, length)));
    rest.remove_prefix(1 + length);
  }
  call.on_half_closed();
  return 0;
}
