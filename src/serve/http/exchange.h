// SPDX-License-Identifier: MIT
#pragma once
// One request and its response on a connection, as the code that answers sees it. Everything here happens on
// the connection's network thread.
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "serve/http/message.h"
#include "serve/http/network_thread.h"

namespace cheetah {

class Connection;

// What an answer in the making is told.
class ExchangeListener {
 public:
  virtual ~ExchangeListener() = default;
  virtual void on_gone() = 0;  // the client left, or reads too slowly: nothing more can be sent
  virtual void on_tick(ServeTime now) = 0;
  // The client reads more slowly than it is written to, or no longer does.
  virtual void on_backlog([[maybe_unused]] bool full) {}
};

// What became of a request, for logs and metrics.
struct ExchangeRecord {
  std::string id, method, target, address;
  int status = 0;  // 0: nothing was sent
  int64_t bytes_in = 0, bytes_out = 0;
  double duration_s = 0;
  bool cut_off = false;  // the client did not get the whole response
};

class Exchange {
 public:
  Exchange(Connection* connection, NetworkThread& thread, bool keep_alive, bool chunks, bool head_only)
      : connection_(connection),
        thread_(thread),
        keep_alive_(keep_alive),
        chunks_(chunks),
        head_only_(head_only) {}

  // A whole response.
  void respond(HttpResponse response);
  // Or one in pieces: begin, write and flush as often as there is something, finish.
  void begin(const HttpResponse& head);
  void write(std::string_view bytes);
  void flush();
  void finish();

  bool open() const { return connection_ != nullptr; }  // false: nothing is sent any more
  bool begun() const { return begun_; }
  // Shared: the listener answers through the exchange; the exchange lets go of it at its end.
  void listen(std::shared_ptr<ExchangeListener> listener) { listener_ = std::move(listener); }
  NetworkThread& thread() { return thread_; }

 private:
  friend class Connection;
  void append_chunk();
  void detach();  // by the connection, when it is over

  Connection* connection_;
  NetworkThread& thread_;
  std::shared_ptr<ExchangeListener> listener_;
  std::string unframed_;  // written since the last flush
  bool keep_alive_;
  bool chunks_;  // the client understands them
  bool head_only_;
  bool begun_ = false;
  bool finished_ = false;
  int status_ = 0;
};

// Answers requests. Called on network threads.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // After the head, before the body: an answer that needs no body (a refusal), or nullopt to read on.
  virtual std::optional<HttpResponse> check_head(HttpRequest& request) = 0;
  virtual void handle(HttpRequest&& request, std::shared_ptr<Exchange> exchange) = 0;
  // The response to bytes that are not a request, or come too slowly.
  virtual HttpResponse refuse(const HttpRequest& request, const HttpError& error) = 0;
  virtual std::string new_request_id() = 0;
  virtual void on_finished(const ExchangeRecord& record) = 0;
  virtual void on_connections(int64_t open) = 0;
};

}  // namespace cheetah
