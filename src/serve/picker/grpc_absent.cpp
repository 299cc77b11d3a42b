// SPDX-License-Identifier: MIT
#include "base/error.h"
#include "serve/http/network_thread.h"
#include "serve/picker/grpc_server.h"

namespace cheetah {

struct GrpcServer::State {
  NetworkThread thread;
};

GrpcServer::GrpcServer(const GrpcConfig&, OpenGrpcCall) {
  throw Error(
      "--endpoint-picker-port: this binary was built without HTTP/2: install libnghttp2-dev and build again");
}
GrpcServer::~GrpcServer() = default;
void GrpcServer::start() {}
uint16_t GrpcServer::port() const { return 0; }
NetworkThread& GrpcServer::thread() { return state_->thread; }
bool grpc_is_built_in() { return false; }

}  // namespace cheetah
