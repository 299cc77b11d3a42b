// SPDX-License-Identifier: MIT
#pragma once
// A small gRPC server: HTTP/2 (libnghttp2) on one network thread, messages in and out, everything bounded.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace cheetah {

class NetworkThread;  // serve/http/network_thread.h

// Of gRPC, as far as this server says them.
enum class GrpcStatus : uint8_t {
  kOk = 0,
  kInvalidArgument = 3,
  kResourceExhausted = 8,
  kUnimplemented = 12,
  kUnavailable = 14,
};

// The way back to the client. All calls on the server's thread; after the end of the call they do nothing.
class GrpcReply {
 public:
  virtual ~GrpcReply() = default;
  virtual void send(std::string_view message) = 0;
  virtual void finish(GrpcStatus status, const std::string& why) = 0;
};

// One call of a client, which lives on the server's thread; destroyed when the call is over, however that came.
class GrpcCall {
 public:
  virtual ~GrpcCall() = default;
  virtual void on_message(std::string&& message) = 0;
  virtual void on_half_closed() = 0;  // the client says no more
};
// nullptr: there is no such method. `reply` is shared with those who work for the call elsewhere.
using OpenGrpcCall =
    std::function<std::unique_ptr<GrpcCall>(std::string_view path, std::shared_ptr<GrpcReply> reply)>;

struct GrpcConfig {
  std::string host = "127.0.0.1";
  uint16_t port = 0;
  std::string tls_cert, tls_key;  // both or none
  int64_t connections = 256;
  int64_t calls = 8192;                        // of all connections together
  int64_t message_bytes = (16 << 20) + 65536;  // the largest body and what is around it
  int64_t held_bytes = 256 << 20;  // of all calls together: parts of messages, and what is not sent yet
};

class GrpcServer {
 public:
  // Binds at once: throws Error when the address is not ours, or the port is taken.
  GrpcServer(const GrpcConfig& config, OpenGrpcCall open);
  ~GrpcServer();  // ends all calls; none of their functions runs afterwards

  void start();
  uint16_t port() const;
  NetworkThread& thread();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// True where this binary has it, else false, and the constructor throws.
bool grpc_is_built_in();

}  // namespace cheetah
