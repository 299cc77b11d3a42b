// SPDX-License-Identifier: MIT
#include "cluster/node/operations.h"

#include <utility>

#include "base/format.h"
#include "cluster/node/launch.h"
#include "cluster/registry/keys.h"
#include "observe/event_log.h"

namespace cheetah::cluster {
namespace {

constexpr Duration kRetry = std::chrono::seconds(1);
constexpr size_t kAtOnce = 32;  // written in one transaction

}  // namespace

Operations::Operations(Setting setting) : setting_(std::move(setting)) {
  if (!setting_.registry.is_shared()) return;
  setting_.registry.watch(std::string(kOrdersPrefix), [this](const RegistryEvent& event) {
    if (event.kind == RegistryEvent::Kind::kPut) setting_.loop.post([this, event] { on_registry(event); });
  });
}

void Operations::on_registry(const RegistryEvent& event) {
  const auto order = order_of(event.entry.key.substr(kOrdersPrefix.size()), event.entry.value);
  if (order) return learn({*order}, std::nullopt);
  if (setting_.log)
    setting_.log->write(LogLevel::kWarning, "order_refused",
        {{"key", event.entry.key}, {"why", "expected a JSON object with wish, version and by"}});
}

void Operations::link_up(WorkerId peer) {
  if (!book_.empty()) setting_.send(peer, Orders{book_.all()});
}

void Operations::hear(WorkerId from, const Orders& orders) { learn(orders.orders, from); }

void Operations::give(std::string subject, std::string wish) {
  const Order order = book_.give(std::move(subject), std::move(wish), setting_.self);
  if (setting_.registry.is_shared()) unkept_[order.subject] = order;
  next_write_ = {};
  for (const auto& [id, peer] : setting_.peers.peers())
    if (peer.linked) setting_.send(id, Orders{{order}});
  obey();
}

void Operations::learn(const std::vector<Order>& orders, std::optional<WorkerId> from) {
  const std::vector<Order> taken = book_.merge(orders);
  if (taken.empty()) return;
  for (const auto& [id, peer] : setting_.peers.peers())
    if (peer.linked && id != from) setting_.send(id, Orders{taken});
  if (setting_.log)
    for (const Order& order : taken)
      setting_.log->write(LogLevel::kInfo, "order",
          {{"subject", order.subject}, {"wish", order.wish.empty() ? "lifted" : order.wish},
              {"from", from ? setting_.peers.name_of(*from) : "registry"}});
  obey();
}

void Operations::obey() {
  if (!setting_.tell_worker) return;
  const std::optional<CordonWish> wish = book_.cordon(setting_.name, setting_.self);
  if (wish == std::exchange(cordon_, wish)) return;
  setting_.tell_worker(CordonOrdered{.cordoned = wish.has_value(),
      .limit =
          wish && wish->hand_over_after ? std::optional<Duration>(*wish->hand_over_after) : std::nullopt});
}

// Written in any order and more than once: the newest of each subject counts, in whatever order they are read.
void Operations::keep(Time now) {
  if (unkept_.empty() || writing_ || now < next_write_) return;
  Transaction transaction;
  std::vector<Order> written;
  for (const auto& [subject, order] : unkept_) {
    if (written.size() >= kAtOnce) break;
    transaction.writes.push_back({format("{}{}", kOrdersPrefix, subject), order_text(order), false});
    written.push_back(order);
  }
  writing_ = true;
  next_write_ = now + kRetry;
  setting_.registry.transact(std::move(transaction), [this, written](const TransactionResult& result) {
    setting_.loop.post([this, written, done = result.kind == TransactionResult::Kind::kDone] {
      writing_ = false;
      if (!done) return;
      for (const Order& order : written)
        if (const auto kept = unkept_.find(order.subject); kept != unkept_.end() && kept->second == order)
          unkept_.erase(kept);
    });
  });
}

void Operations::move(PlannerSeat& seat, const Flip& flip, std::string_view why) {
  const std::string name = setting_.peers.name_of(flip.worker), role(name_of(flip.role.role));
  seat.act(format("{} to {} at epoch {}: {}", name, role, flip.role.epoch, why),
      [this, flip, name, role, reason = std::string(why)] {
        setting_.send(flip.worker, flip.role);
        if (setting_.log)
          setting_.log->write(LogLevel::kInfo, "flip", {{"worker", name}, {"to", role}, {"why", reason}});
      });
}

std::set<WorkerId> Operations::with_roles(const KnownWorkers& workers) const {
  std::set<WorkerId> fixed;
  for (const auto& [id, worker] : workers)
    if (book_.role(worker.descriptor.name, id)) fixed.insert(id);
  return fixed;
}

std::vector<Operations::Flip> Operations::flips(const KnownWorkers& workers, Time now) {
  std::vector<Flip> flips;
  std::erase_if(asked_, [&](const auto& entry) { return workers.count(entry.first) == 0; });
  for (const auto& [id, worker] : workers) {
    const auto role = book_.role(worker.descriptor.name, id);
    if (!role || *role == worker.descriptor.role || !worker.reachable()) continue;
    const auto asked = asked_.find(id);
    if (asked != asked_.end() && now - asked->second < kRetry) continue;
    asked_[id] = now;
    flips.push_back({id, FlipRole{.role = *role, .epoch = worker.descriptor.epoch + 1}});
  }
  return flips;
}

}  // namespace cheetah::cluster
