// SPDX-License-Identifier: MIT
#include "cluster/queue/nats_bus.h"

#include <nats/nats.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "cluster/queue/nats_subscription.h"

namespace cheetah::cluster {
namespace {

constexpr size_t kMostMessageBytes = 1'000'000;

}  // namespace

NatsEventBus::NatsEventBus(std::shared_ptr<NatsLink> link, const std::string& cluster)
    : prefix_(format("cheetah.{}.events.", cluster)),
      link_(std::move(link)),
      listeners_(std::make_shared<Listeners>()),
      maintenance_(link_->add_maintenance([this] { maintain(); })) {}

NatsEventBus::~NatsEventBus() {
  link_->remove_maintenance(maintenance_);
  listeners_->close();
}

// While the link is down nothing is kept for later: news that comes late is no news.
bool NatsEventBus::publish(std::string_view subject, std::string_view bytes) {
  check_subject(subject);
  const NatsLink::Connection connection = link_->connection();
  if (bytes.size() > kMostMessageBytes || connection == nullptr || !link_->state().up) return false;
  const std::string full = prefix_ + std::string(subject);
  return natsConnection_Publish(
             connection.get(), full.c_str(), bytes.data(), static_cast<int>(bytes.size())) == NATS_OK;
}

EventBus::SubscriptionId NatsEventBus::subscribe(std::string_view pattern, Callback callback) {
  check_pattern(pattern);
  const SubscriptionId id = listeners_->add(pattern, std::move(callback));
  wanted_.with([&](auto& wanted) { wanted[id] = {std::string(pattern), nullptr}; });
  return id;
}

void NatsEventBus::unsubscribe(SubscriptionId id) {
  std::shared_ptr<NatsSubscription> ended;
  wanted_.with([&](auto& wanted) {
    const auto found = wanted.find(id);
    if (found == wanted.end()) return;
    ended = std::move(found->second.subscription);
    wanted.erase(found);
  });
  listeners_->remove(id);
}

// On the link's thread: the library renews subscriptions of a connection that came back; on a new connection
// they are begun again.
void NatsEventBus::maintain() {
  const NatsLink::Connection connection = link_->connection();
  if (connection == nullptr) return;
  std::vector<std::pair<SubscriptionId, std::string>> missing;
  wanted_.with([&](const auto& wanted) {
    for (const auto& [id, want] : wanted)
      if (!want.subscription || want.subscription->connection() != connection)
        missing.emplace_back(id, want.pattern);
  });
  for (const auto& want : missing) {
    auto begun = begin(want.first, want.second);
    wanted_.with([&](auto& wanted) {
      if (const auto found = wanted.find(want.first); found != wanted.end())
        std::swap(found->second.subscription, begun);
    });
  }
}

std::shared_ptr<NatsSubscription> NatsEventBus::begin(SubscriptionId id, const std::string& pattern) const {
  try {
    const auto hear = [listeners = listeners_, id, skip = prefix_.size()](natsConnection*, natsMsg* message) {
      const std::string_view subject = natsMsg_GetSubject(message);
      listeners->hear(
          std::make_shared<const Listeners::Message>(Listeners::Message{
              std::string(subject.substr(std::min(skip, subject.size()))),
              std::string(natsMsg_GetData(message), static_cast<size_t>(natsMsg_GetDataLength(message)))}),
          id);
    };
    return std::make_shared<NatsSubscription>(link_->connection(), prefix_ + pattern, hear);
  } catch (const Error&) {
    return nullptr;  // the next look tries again
  }
}

}  // namespace cheetah::cluster
