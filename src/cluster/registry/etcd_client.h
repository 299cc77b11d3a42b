// SPDX-License-Identifier: MIT
#pragma once
// One thread's conversation with an etcd cluster: whichever of its hosts answers.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "cluster/service.h"
#include "net/http_channel.h"

namespace cheetah::cluster {

// etcd answered, and the answer was no.
class EtcdRefusal : public Error {
 public:
  EtcdRefusal(int code, const std::string& message) : Error(message), code_(code) {}
  int code() const { return code_; }  // gRPC's

  static constexpr int kNotFound = 5;  // among other things: this lease is gone

 private:
  int code_;
};

// Used by one thread; interrupt() may come from any. A host that does not answer, or says that it cannot, is
// left for the next one: the failed call throws Error, the one after it goes there.
class EtcdClient {
 public:
  EtcdClient(std::vector<ServiceHost> hosts, ServiceLogin login);

  Json call(std::string_view path, const Json& request, Duration limit);
  void open_stream(std::string_view path, const Json& request, Duration limit);
  std::optional<Json> read_line(Duration limit);  // nullopt: nothing came
  void close() { channel().close(); }
  void interrupt();

 private:
  HttpChannel& channel() { return *channels_[current_]; }
  void authenticate(Duration limit);
  void next_host();

  std::vector<ServiceHost> hosts_;
  ServiceLogin login_;
  std::vector<std::unique_ptr<HttpChannel>> channels_;
  size_t current_ = 0;
  std::string token_;
};

}  // namespace cheetah::cluster
