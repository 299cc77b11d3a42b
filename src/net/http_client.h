// SPDX-License-Identifier: MIT
#pragma once
// Many HTTP requests at once on one thread, over connections that are kept and used again.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/tls_context.h"
#include "net/url.h"

namespace boost::asio {
class io_context;
}

namespace cheetah {

struct HttpPeer {
  Url url;  // its path comes before the path of every request
  ClientTls tls{};
  std::string user_agent = "cheetah";
  std::optional<Url> proxy{};         // plain HTTP; requests over TLS go through a tunnel of it
  std::string proxy_authorization{};  // the field's value, "" for none
};

struct ClientRequest {
  std::string method = "GET";
  std::string path{};
  std::string body{};
  std::vector<std::pair<std::string, std::string>> headers{};  // beside Host, User-Agent and Content-Length
  double timeout_s = 0;                                        // for the whole response; 0: no limit
};

enum class HttpFailure { kNone, kConnect, kTimeout, kCut, kNotHttp, kInterrupted };

struct HttpOutcome {
  HttpFailure failure = HttpFailure::kNone;  // of the transport: a status is not a failure
  std::string detail;
};

// Receives one response. on_done is the last call and comes exactly once, unless the client is destroyed first.
class ResponseHandler {
 public:
  virtual ~ResponseHandler() = default;
  // Comes before on_head, of a response that says where to go instead.
  virtual void on_location(const std::string&) {}
  virtual void on_head(int status, const std::string& content_type) = 0;
  virtual void on_body(std::string_view bytes) = 0;
  virtual void on_done(const HttpOutcome& outcome) = 0;
};

// Used on the thread that runs the context.
class HttpClient {
 public:
  // Throws Error when a file of `peer.tls` cannot be used. The context outlives the client.
  HttpClient(boost::asio::io_context& context, const HttpPeer& peer);
  ~HttpClient();

  // Looks the host up now instead of with the first connection. Throws Error when it cannot be found.
  void look_up();
  void send(const ClientRequest& request, std::shared_ptr<ResponseHandler> handler);
  // Ends every open request with kInterrupted, from within this call.
  void interrupt();
  void close_idle();

 private:
  class Exchange;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cheetah
