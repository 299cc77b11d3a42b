// SPDX-License-Identifier: MIT
#pragma once
// One subscription of the NATS library, whose callback owns what it touches.
#include <nats/nats.h>

#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/format.h"
#include "cluster/queue/nats_link.h"

namespace cheetah::cluster {

// The library's thread may still be in the callback when the subscription ends, so the callback lives until
// the library says that it is through with it, and must hold whatever it uses.
class NatsSubscription {
 public:
  using Callback = std::function<void(natsConnection*, natsMsg*)>;

  // Throws Error when the connection does not take it.
  NatsSubscription(NatsLink::Connection connection, const std::string& subject, Callback callback)
      : connection_(std::move(connection)) {
    auto owned = std::make_unique<Callback>(std::move(callback));
    const natsStatus status =
        natsConnection_Subscribe(&subscription_, connection_.get(), subject.c_str(), on_message, owned.get());
    if (status != NATS_OK)
      throw Error(format("NATS: subscribing to {}: {}", subject, natsStatus_GetText(status)));
    natsSubscription_SetOnCompleteCB(subscription_, on_complete, owned.release());
  }
  ~NatsSubscription() {
    natsSubscription_Unsubscribe(subscription_);
    natsSubscription_Destroy(subscription_);
  }
  NatsSubscription(const NatsSubscription&) = delete;
  NatsSubscription& operator=(const NatsSubscription&) = delete;

  const NatsLink::Connection& connection() const { return connection_; }

 private:
  static void on_message(natsConnection* connection, natsSubscription*, natsMsg* message, void* closure) {
    (*static_cast<Callback*>(closure))(connection, message);
    natsMsg_Destroy(message);
  }
  static void on_complete(void* closure) { delete static_cast<Callback*>(closure); }

  NatsLink::Connection connection_;
  natsSubscription* subscription_ = nullptr;
};

}  // namespace cheetah::cluster
