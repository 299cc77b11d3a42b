// SPDX-License-Identifier: MIT
#pragma once
// One HTTP request of a gateway's client, as the gateway asks about it: its headers, its body, later its answer's
// headers and body. Decides nothing; says what the desk has decided. No sockets, no threads.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "serve/picker/ext_proc.h"
#include "serve/picker/grpc_server.h"

namespace cheetah {

struct PickerQuestion {
  std::string method, path;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::optional<std::vector<std::string>> subset;
};
struct PickerAnswer {
  std::string endpoints;                     // "ip:port,ip:port"; empty: see `refusal`
  std::optional<ImmediateAnswer> refusal{};  // what the client is told at once
  uint64_t ticket = 0;                       // 0: nobody waits for its end
};
// How a request ended that was sent somewhere.
struct PickerOutcome {
  uint64_t ticket = 0;
  bool answered = false;  // with a status that is not an error
  std::chrono::microseconds first_byte{}, total{};
};
// Where calls ask. `tell` is called on the thread of the calls, once; false: the call has gone meanwhile.
class PickerDesk {
 public:
  virtual ~PickerDesk() = default;
  virtual void choose(PickerQuestion question, std::function<bool(PickerAnswer&&)> tell) = 0;
  virtual void ended(const PickerOutcome& outcome) = 0;
};

// What bodies may take. `left` is for all calls together; on their thread.
struct PickerBodies {
  size_t most_each = 0;
  size_t left = 0;
};

class PickerCall final : public GrpcCall {
 public:
  // `bodies` outlives it.
  PickerCall(PickerDesk& desk, std::shared_ptr<GrpcReply> reply, PickerBodies& bodies);
  ~PickerCall() override;

  void on_message(std::string&& message) override;
  void on_half_closed() override;

 private:
  enum class Choice : uint8_t { kNotAsked, kAsked, kMade, kRefused };
  void take(ProcessingRequest&& request);
  void on_request_headers(ProcessingRequest& request);
  void on_request_body(ProcessingRequest& request);
  void on_request_trailers();
  void on_response(const ProcessingRequest& request);
  bool add_to_body(std::string_view piece);
  void forget_body();
  void choose(ProcessingPhase answered_phase);
  void chosen(PickerAnswer&& answer);
  void return_body();
  void refuse(ImmediateAnswer answer);
  bool duplex() const { return modes_.request == BodyMode::kFullDuplex; }

  PickerDesk& desk_;
  const std::shared_ptr<GrpcReply> reply_;  // shared with the server
  PickerBodies& bodies_;
  const std::chrono::steady_clock::time_point start_;
  BodyModes modes_;
  PickerQuestion question_;
  std::string body_;  // kept in full duplex: it goes on to the endpoint after the choice
  bool body_ended_ = false, trailers_ = false;
  bool half_closed_ = false;
  Choice choice_ = Choice::kNotAsked;
  ProcessingPhase answered_phase_ = ProcessingPhase::kRequestHeaders;  // with which the choice goes
  PickerOutcome outcome_;
  std::shared_ptr<char> alive_ = std::make_shared<char>();  // seen by answers that come too late
};

}  // namespace cheetah
