// SPDX-License-Identifier: MIT
#include "cluster/policy/shares.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace cheetah::cluster {

Shares::Shares(const std::vector<QosClass>& classes, double borrow_limit) {
  reconfigure(classes, borrow_limit);
}

void Shares::reconfigure(const std::vector<QosClass>& classes, double borrow_limit) {
  std::vector<Share> shares;
  for (const QosClass& c : classes) {
    Share share{.name = c.name, .fraction = c.reserved, .priority = c.priority, .may_borrow = c.may_borrow};
    const auto old = std::ranges::find(shares_, c.name, &Share::name);
    if (old != shares_.end()) share.in_use = old->in_use, share.recalled = old->recalled;
    shares.push_back(std::move(share));
  }
  shares_ = std::move(shares);
  borrow_limit_ = borrow_limit;
  resize_reservations();
}

void Shares::resize(int64_t capacity) {
  capacity_ = std::max<int64_t>(0, capacity);
  resize_reservations();
}

void Shares::resize_reservations() {
  for (Share& share : shares_) {
    // The small addend: 0.29 * 100 places are 29, not the 28 that doubles make of it.
    share.reserved = static_cast<int64_t>(std::floor(share.fraction * static_cast<double>(capacity_) + 1e-9));
    share.recalled = std::min(share.recalled, std::max<int64_t>(0, share.in_use - share.reserved));
  }
}

int64_t Shares::own(const Share& share) { return std::min(share.in_use, share.reserved); }
int64_t Shares::over(const Share& share) {
  return std::max<int64_t>(0, share.in_use - share.reserved) - share.recalled;
}

int64_t Shares::total_in_use() const {
  int64_t sum = 0;
  for (const Share& share : shares_) sum += share.in_use;
  return sum;
}

double Shares::share_ahead_of(int class_index) const {
  int64_t ahead = 0;
  for (const Share& share : shares_)
    if (share.priority >= at(class_index).priority) ahead += share.in_use;
  const int64_t total = total_in_use();
  return total > 0 ? static_cast<double>(ahead) / static_cast<double>(total) : 1;
}

int64_t Shares::settled() const {
  int64_t sum = 0;
  for (const Share& share : shares_) sum += share.in_use - share.recalled;
  return sum;
}

ShareAnswer Shares::ask(int class_index, int64_t places) const {
  const Share& asking = at(class_index);
  const int64_t within = std::min(places, asking.reserved - own(asking));
  const int64_t beyond = places - within;
  int64_t reserved = 0, all_over = 0, lendable = 0;
  for (const Share& share : shares_) {
    reserved += share.reserved;
    all_over += over(share);
    const int64_t idle = share.reserved - own(share) - (&share == &asking ? within : 0);
    lendable += static_cast<int64_t>(std::floor(borrow_limit_ * static_cast<double>(idle) + 1e-9));
  }
  const int64_t unreserved = std::max<int64_t>(0, capacity_ - reserved);
  const int64_t borrowed_before = std::max<int64_t>(0, all_over - unreserved);
  const int64_t borrowed_after = std::max<int64_t>(0, all_over + beyond - unreserved);
  ShareAnswer answer;
  answer.borrowed = beyond > 0 ? borrowed_after - borrowed_before : 0;
  if (answer.borrowed > 0 && (!asking.may_borrow || borrowed_after > lendable)) return answer;
  if (beyond > 0 && settled() + places > capacity_) return answer;
  answer.granted = true;
  answer.give_back = recall(class_index, settled() + places - capacity_);
  return answer;
}

std::vector<GiveBack> Shares::recall(int class_index, int64_t places) const {
  std::vector<int> order;
  for (int i = 0; i < static_cast<int>(shares_.size()); ++i)
    if (i != class_index && over(at(i)) > 0) order.push_back(i);
  std::ranges::stable_sort(order, {}, [&](int i) { return at(i).priority; });
  std::vector<GiveBack> back;
  for (const int i : order) {
    if (places <= 0) break;
    const int64_t from_this = std::min(places, over(at(i)));
    back.push_back({.class_index = i, .places = from_this});
    places -= from_this;
  }
  return back;
}

void Shares::take(int class_index, int64_t places, const std::vector<GiveBack>& give_back) {
  at(class_index).in_use += places;
  for (const GiveBack& back : give_back) at(back.class_index).recalled += back.places;
}

void Shares::release(const std::string& class_name, int64_t places) {
  const auto found = std::ranges::find(shares_, class_name, &Share::name);
  if (found == shares_.end()) return;
  found->in_use = std::max<int64_t>(0, found->in_use - places);
  found->recalled = std::max<int64_t>(0, found->recalled - places);
  found->recalled = std::min(found->recalled, std::max<int64_t>(0, found->in_use - found->reserved));
}

void Shares::check_invariants() const {
  int64_t reserved = 0;
  for (const Share& share : shares_) {
    reserved += share.reserved;
    CHEETAH_ASSERT(share.in_use >= 0 && share.recalled >= 0 && over(share) >= 0,
        "only what is used beyond the reservation is recalled");
  }
  CHEETAH_ASSERT(reserved <= capacity_, "reservations fit into the cluster");
}

}  // namespace cheetah::cluster
