// SPDX-License-Identifier: MIT
#pragma once
// Reserved shares of the cluster's places among classes, with borrowing.
// A place beyond all reservations goes to the request that comes first. A class below its reservation is never refused
// for what others hold: where they borrowed its places, the answer names who gives back how many (the lowest
// priority first). Borrowing stops at borrow_limit of what is idle.
#include <cstdint>
#include <string>
#include <vector>

#include "cluster/policy/qos_config.h"

namespace cheetah::cluster {

struct GiveBack {
  int class_index = 0;
  int64_t places = 0;

  bool operator==(const GiveBack&) const = default;
};

struct ShareAnswer {
  bool granted = false;
  int64_t borrowed = 0;                  // of the places granted
  std::vector<GiveBack> give_back = {};  // to be preempted, or left to finish first
};

class Shares {
 public:
  explicit Shares(const std::vector<QosClass>& classes = {}, double borrow_limit = 0.9);
  void reconfigure(const std::vector<QosClass>& classes,
      double borrow_limit);       // what is in use stays, by name
  void resize(int64_t capacity);  // places of the cluster; what is in use stays

  ShareAnswer ask(int class_index, int64_t places) const;
  // What was granted; those named in give_back are counted as leaving from now on.
  void take(int class_index, int64_t places, const std::vector<GiveBack>& give_back);
  // By name: a request may end after the classes were configured anew; one of a class that is gone held
  // nothing.
  void release(const std::string& class_name, int64_t places);

  const std::string& name(int class_index) const { return at(class_index).name; }
  int64_t capacity() const { return capacity_; }
  int64_t in_use(int class_index) const { return at(class_index).in_use; }
  int64_t reserved(int class_index) const { return at(class_index).reserved; }
  int64_t total_in_use() const;
  // Of all that is in use, what is as urgent as this class or more; 1 when nothing is.
  double share_ahead_of(int class_index) const;
  void check_invariants() const;

 private:
  struct Share {
    std::string name;
    double fraction = 0;
    int32_t priority = 0;
    bool may_borrow = true;
    int64_t reserved = 0, in_use = 0;
    int64_t recalled = 0;  // of in_use, on their way back
  };
  const Share& at(int class_index) const { return shares_.at(static_cast<size_t>(class_index)); }
  Share& at(int class_index) { return shares_.at(static_cast<size_t>(class_index)); }
  static int64_t own(const Share& share);   // used of the reservation
  static int64_t over(const Share& share);  // used beyond it, without what is on its way back
  int64_t settled() const;                  // in use without what is on its way back
  std::vector<GiveBack> recall(int class_index, int64_t places) const;
  void resize_reservations();

  std::vector<Share> shares_ = {};
  double borrow_limit_ = 0.9;
  int64_t capacity_ = 0;
};

}  // namespace cheetah::cluster
