#pragma once
// One HTTP/1.1 connection to one host, for a thread that waits: every wait has a limit and can be broken off.
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cluster/registry/services.h"

namespace cheetah::cluster {

// Used by one thread; interrupt() may come from any. Connects by itself when it has to. Whatever goes wrong
// on the way is an Error, after which the next request starts on a new connection.
class HttpChannel {
 public:
  struct Answer {
    int status = 0;
    std::string body;
  };

  // Throws Error when the files of `login` cannot be used.
  HttpChannel(ServiceHost host, const ServiceLogin& login);
  ~HttpChannel();
  HttpChannel(const HttpChannel&) = delete;
  HttpChannel& operator=(const HttpChannel&) = delete;

  // `authorization` is the value of that header; empty: none. The answer has at most 64 MiB.
  Answer post(std::string_view path, std::string body, std::string_view authorization, Duration limit);

  // An answer that goes on: lines of JSON, each of at most 64 MiB. Returns the status.
  int open_stream(std::string_view path, std::string body, std::string_view authorization, Duration limit);
  // nullopt: nothing came within `limit`; the connection is closed then.
  std::optional<std::string> read_line(Duration limit);

  void close();
  void interrupt();  // breaks off what waits now and all that comes, with an Error

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cheetah::cluster
