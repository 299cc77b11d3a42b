#pragma once
// Many HTTP requests at once on one thread, over connections that are kept and used again. Internal to the
// load client: includes Asio.
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "load/load_client.h"
#include "load/record.h"
#include "load/server_connection.h"

namespace cheetah {

struct HttpOutcome {
  RequestFailure failure = RequestFailure::kNone;  // of the transport: a status is none
  std::string detail;
};

// Hears of one request. on_done is the last call and comes exactly once, unless the client dies first.
class ResponseHandler {
 public:
  virtual ~ResponseHandler() = default;
  virtual void on_head(int status, const std::string& content_type) = 0;
  virtual void on_body(std::string_view bytes) = 0;
  virtual void on_done(const HttpOutcome& outcome) = 0;
};

class HttpClient {
 public:
  // Looks the host up. Throws Error when it cannot be found or the certificates cannot be read.
  HttpClient(boost::asio::io_context& context, const ServerOptions& options);
  ~HttpClient();

  // `method` GET or POST, `path` after the URL's own. `handler` lives until on_done.
  void send(std::string_view method, const std::string& path, std::string body,
            std::shared_ptr<ResponseHandler> handler);
  // Every open request ends with RequestFailure::kInterrupted, soon.
  void interrupt();

 private:
  class Exchange;
  std::unique_ptr<ServerConnection> take_idle();  // null: none is left

  boost::asio::io_context& context_;
  ServerOptions options_;
  std::optional<boost::asio::ssl::context> tls_;
  ServerConnection::Endpoints endpoints_;
  std::vector<std::unique_ptr<ServerConnection>> idle_;
  std::unordered_set<Exchange*> open_;
};

}  // namespace cheetah
