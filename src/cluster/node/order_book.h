// SPDX-License-Identifier: MIT
#pragma once
// What operators want of the cluster, as one node knows it. Every node has all of it, so it outlives any of
// them; of each subject the order with the highest version counts, and books that were merged in any order are
// equal.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "cluster/wire/message.h"

namespace cheetah::cluster {

// An order to take nothing new.
struct CordonWish {
  std::optional<std::chrono::milliseconds> hand_over_after;  // a drain; nullopt: what runs may end

  bool operator==(const CordonWish&) const = default;
};

class OrderBook {
 public:
  static constexpr size_t kMostSubjects = 2048;
  static constexpr size_t kMostBytes = 512;  // of a subject, and of a wish

  // Returns those that were new to it. What is malformed, or so far ahead that no later order could pass it,
  // is left out.
  std::vector<Order> merge(const std::vector<Order>& orders);
  // A new order, above all others. Throws UsageError where there are too many.
  Order give(std::string subject, std::string wish, WorkerId by);

  // "": none.
  std::string_view wish(std::string_view subject) const;
  std::vector<Order> all() const;
  bool empty() const { return orders_.empty(); }

  // By a node's name or, where it has one of its own, its id.
  std::optional<CordonWish> cordon(std::string_view name, WorkerId id) const;
  std::optional<Role> role(std::string_view name, WorkerId id) const;
  std::optional<int64_t> replicas(std::string_view pool) const;

 private:
  void drop_lifted();

  std::map<std::string, Order, std::less<>> orders_;  // by subject
  uint64_t highest_ = 0;
};

std::string id_text(WorkerId id);  // 16 hex digits
std::string cordon_subject(std::string_view node);
std::string role_subject(std::string_view node);
std::string replicas_subject(std::string_view pool);
std::string text_of(const CordonWish& wish);
// As the registry keeps an order.
std::string order_text(const Order& order);
std::optional<Order> order_of(std::string_view subject, std::string_view text);  // nullopt: it is none

}  // namespace cheetah::cluster
