// SPDX-License-Identifier: MIT
#include "cluster/node/order_book.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"

namespace cheetah::cluster {
namespace {

// Versions count up by one; a jump is a book that missed some, never this many.
constexpr uint64_t kFarthestVersion = 1'000'000;

bool newer(const Order& one, const Order& other) {
  return one.version != other.version ? one.version > other.version : one.by > other.by;
}

std::string_view wish_for(
    const OrderBook& book, std::string (*subject)(std::string_view), std::string_view name, WorkerId id) {
  const std::string_view by_id = book.wish(subject(id_text(id)));
  return by_id.empty() ? book.wish(subject(name)) : by_id;
}

}  // namespace

std::vector<Order> OrderBook::merge(const std::vector<Order>& orders) {
  std::vector<Order> taken;
  for (const Order& order : orders) {
    if (order.subject.empty() || order.subject.size() > kMostBytes || order.wish.size() > kMostBytes)
      continue;
    if (order.version == 0 || order.version > highest_ + kFarthestVersion) continue;
    const auto known = orders_.find(order.subject);
    if (known != orders_.end() ? !newer(order, known->second) : orders_.size() >= kMostSubjects) continue;
    taken.push_back(order);
    orders_[order.subject] = order;
  }
  for (const Order& order : taken) highest_ = std::max(highest_, order.version);
  drop_lifted();
  return taken;
}

Order OrderBook::give(std::string subject, std::string wish, WorkerId by) {
  drop_lifted();
  if (orders_.size() >= kMostSubjects && !orders_.contains(subject))
    throw UsageError(format("there are {} orders: lift some first", orders_.size()));
  Order order{std::move(subject), std::move(wish), ++highest_, by};
  orders_[order.subject] = order;
  return order;
}

// Lifted orders are remembered, so that no late word brings them back; the oldest go when there are many.
void OrderBook::drop_lifted() {
  while (orders_.size() > kMostSubjects / 2) {
    auto oldest = orders_.end();
    for (auto at = orders_.begin(); at != orders_.end(); ++at)
      if (at->second.wish.empty() && (oldest == orders_.end() || newer(oldest->second, at->second)))
        oldest = at;
    if (oldest == orders_.end()) return;
    orders_.erase(oldest);
  }
}

std::string_view OrderBook::wish(std::string_view subject) const {
  const auto known = orders_.find(subject);
  return known == orders_.end() ? std::string_view() : std::string_view(known->second.wish);
}

std::vector<Order> OrderBook::all() const {
  std::vector<Order> all;
  for (const auto& [subject, order] : orders_) all.push_back(order);
  return all;
}

std::optional<CordonWish> OrderBook::cordon(std::string_view name, WorkerId id) const {
  const std::string_view wish = wish_for(*this, cordon_subject, name, id);
  if (wish.empty()) return std::nullopt;
  if (!wish.starts_with("drain ")) return CordonWish{};
  return CordonWish{std::chrono::milliseconds(
      std::clamp<int64_t>(to_integer(wish.substr(6)).value_or(0), 0, int64_t{86'400'000}))};
}

std::optional<Role> OrderBook::role(std::string_view name, WorkerId id) const {
  const std::string_view wish = wish_for(*this, role_subject, name, id);
  if (wish == "prefill") return Role::kPrefill;
  if (wish == "decode") return Role::kDecode;
  if (wish == "both") return Role::kBoth;
  return std::nullopt;
}

std::optional<int64_t> OrderBook::replicas(std::string_view pool) const {
  const auto number = to_integer(wish(replicas_subject(pool)));
  if (!number || *number < 0 || *number > 100'000) return std::nullopt;
  return number;
}

std::string id_text(WorkerId id) { return format("{:016x}", static_cast<uint64_t>(id)); }
std::string cordon_subject(std::string_view node) { return format("cordon/{}", node); }
std::string role_subject(std::string_view node) { return format("role/{}", node); }
std::string replicas_subject(std::string_view pool) { return format("replicas/{}", pool); }

std::string text_of(const CordonWish& wish) {
  return wish.hand_over_after ? format("drain {}", wish.hand_over_after->count()) : "cordon";
}

std::string order_text(const Order& order) {
  return dump_json(Json{{"wish", order.wish}, {"version", order.version}, {"by", id_text(order.by)}});
}

std::optional<Order> order_of(std::string_view subject, std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto wish = json.find("wish"), version = json.find("version"), by = json.find("by");
  if (wish == json.end() || !wish->is_string() || version == json.end() || !version->is_number_unsigned())
    return std::nullopt;
  Order order{std::string(subject), wish->get<std::string>(), version->get<uint64_t>(), {}};
  if (by != json.end() && by->is_string())
    order.by = WorkerId{std::strtoull(by->get<std::string>().c_str(), nullptr, 16)};
  return order;
}

}  // namespace cheetah::cluster
