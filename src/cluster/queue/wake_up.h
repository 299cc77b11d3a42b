// SPDX-License-Identifier: MIT
#pragma once
// Wakes the threads that wait for work. Rings without a waiter do not pile up.
#include <atomic>
#include <vector>

#include "base/mailbox.h"
#include "cluster/types.h"

namespace cheetah::cluster {

class WakeUp {
 public:
  void ring() {
    if (!rung_.exchange(true)) rings_.post({});
  }
  void ring_by_hand() {
    by_hand_ = true;
    ring();
  }
  // Sleeps until it rings or the time is up. True: it was rung. The caller looks for work
  // afterwards: a ring between the two lines below is not lost then.
  bool wait_until(Time until) {
    rings_.wait_until(until);
    std::vector<Ring> rings;
    rings_.take_all(rings);
    rung_ = false;
    return by_hand_.exchange(false);
  }

 private:
  struct Ring {};
  std::atomic<bool> rung_{false}, by_hand_{false};
  Mailbox<Ring> rings_;
};

}  // namespace cheetah::cluster
