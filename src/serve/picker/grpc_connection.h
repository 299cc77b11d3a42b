// SPDX-License-Identifier: MIT
#pragma once
// One HTTP/2 connection of the gRPC server, with all its calls. Belongs to the server's thread.
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "serve/http/byte_stream.h"
#include "serve/http/network_thread.h"
#include "serve/picker/grpc_server.h"

struct nghttp2_session;
struct nghttp2_session_callbacks;

namespace cheetah {

// Of all connections together.
struct GrpcTotals {
  int64_t calls = 0, held_bytes = 0;
};

class GrpcConnection : public std::enable_shared_from_this<GrpcConnection> {
 public:
  struct Setting {
    const GrpcConfig& config;
    const OpenGrpcCall& open;
    GrpcTotals& totals;
    std::function<void(GrpcConnection&)> on_closed;
  };
  GrpcConnection(std::unique_ptr<ByteStream> stream, Setting setting);
  ~GrpcConnection();
  GrpcConnection(const GrpcConnection&) = delete;
  GrpcConnection& operator=(const GrpcConnection&) = delete;

  void start();
  void close();
  void on_tick(ServeTime now);

  void send(int32_t id, std::string_view message);
  void finish(int32_t id, GrpcStatus status, const std::string& why);

 private:
  struct Call {
    std::string path;
    bool is_post = false, is_grpc = false;
    std::unique_ptr<GrpcCall> handler = nullptr;
    std::string arriving = {};  // of a message that has not all come
    std::string unsent = {};
    size_t sent = 0;        // of unsent
    bool answered = false;  // its head is sent
    bool finished = false;
    GrpcStatus status = GrpcStatus::kOk;
    std::string why = {};
  };
  struct Callbacks;  // of nghttp2
  friend struct Callbacks;

  void read();
  void pump();
  void write();
  void open_call(int32_t id, Call& call);
  void take(int32_t id, std::string_view bytes);
  void answer(int32_t id, Call& call);
  void hold(std::string& text, std::string_view more);
  void let_go(std::string& text, size_t bytes);
  void end_call(int32_t id);
  size_t fill(int32_t id, char* to, size_t room, bool& ended);

  std::unique_ptr<ByteStream> stream_;
  const Setting setting_;
  nghttp2_session* session_ = nullptr;
  std::map<int32_t, Call> calls_;
  std::string buffer_, out_;
  size_t written_ = 0;
  bool in_session_ = false;  // nghttp2 calls back: it is not to be called for input or output
  bool writing_ = false, closed_ = false, served_ = false;
  ServeTime start_, progress_;
};

}  // namespace cheetah
