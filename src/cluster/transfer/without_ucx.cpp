// SPDX-License-Identifier: MIT
// This build has no UCX.
#include "base/error.h"
#include "cluster/transfer/transport.h"

namespace cheetah::cluster {

std::string why_unavailable(TransferBackend backend) {
  if (backend != TransferBackend::kUcx) return {};
  return "this cheetah was built without UCX: install libucx-dev and build it again";
}

namespace transfer {

std::unique_ptr<Transport> make_ucx_transport(const TransferConfig&, EventSink&) {
  throw Error(why_unavailable(TransferBackend::kUcx));
}

}  // namespace transfer
}  // namespace cheetah::cluster
