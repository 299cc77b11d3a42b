// SPDX-License-Identifier: MIT
#pragma once
// News for listeners: KV events. Delivery is at most once and without memory: what is published while
// no one listens, the service is away or a listener is slow is lost. Receivers that need to know count.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "cluster/service.h"

namespace cheetah::cluster {

class EventBus {
 public:
  using Callback = std::function<void(std::string_view subject, std::string_view bytes)>;
  enum class SubscriptionId : int64_t {};

  virtual ~EventBus() = default;

  // Subjects are words of letters, digits, '-' and '_' with dots between: "kv.00c0ffee". Never waits. False:
  // it was not sent (the service is away, or the message is over 1 MB).
  virtual bool publish(std::string_view subject, std::string_view bytes) = 0;

  // In a pattern '*' stands for one word and a last '>' for one or more. Callbacks come on the bus's own
  // thread, in the order of one publisher; they must be short and must not destroy the bus.
  virtual SubscriptionId subscribe(std::string_view pattern, Callback callback) = 0;
  // No callback of this subscription runs after it returns, unless it is called from one.
  virtual void unsubscribe(SubscriptionId id) = 0;

  virtual ServiceState state() const = 0;
  virtual int64_t num_dropped() const = 0;  // messages that this listener lost by being slow, as far as known
};

// Whether the words of `subject` are what `pattern` says.
bool matches(std::string_view pattern, std::string_view subject);
// Throws Error unless it is one of the above.
void check_subject(std::string_view subject);
void check_pattern(std::string_view pattern);

}  // namespace cheetah::cluster
