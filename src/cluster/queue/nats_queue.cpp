// SPDX-License-Identifier: MIT
#include "cluster/queue/nats_queue.h"

#include <nats/nats.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "cluster/queue/job_table.h"
#include "cluster/queue/nats_messages.h"
#include "cluster/queue/nats_subscription.h"

namespace cheetah::cluster {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPushLimit{2000};
constexpr milliseconds kLongestSleep{250};
constexpr milliseconds kDepthLife{5000};  // of a number that was heard
constexpr uint32_t kAllPriorities = (1u << kNumPriorities) - 1;
constexpr int64_t kPullLimitMs = 1000;
constexpr std::chrono::seconds kSilence{5};  // a priority that did not answer does not hold up the others
constexpr int64_t kHeaderBytes = 1024;       // more than the id and its frame take

using Message = std::unique_ptr<natsMsg, void (*)(natsMsg*)>;

std::string random_inbox() {
  natsInbox* inbox = nullptr;
  if (natsInbox_Create(&inbox) != NATS_OK) throw Error("NATS: cannot name an inbox");
  std::string name = inbox;
  natsInbox_Destroy(inbox);
  return name;
}

std::string_view header_of(natsMsg* message, const char* name) {
  const char* value = nullptr;
  return natsMsgHeader_Get(message, name, &value) == NATS_OK && value != nullptr ? value : std::string_view();
}

std::string_view data_of(natsMsg* message) {
  return {natsMsg_GetData(message), static_cast<size_t>(natsMsg_GetDataLength(message))};
}

}  // namespace

struct NatsJobQueue::Subscriptions {
  NatsSubscription answers, wakes;
};

void NatsJobQueue::Inbound::answer(uint64_t number, PushResult result) {
  const PushCallback done = pushes.with([&](auto& pending) {
    const auto push = pending.find(number);
    PushCallback found;
    if (push == pending.end()) return found;
    found = std::move(push->second.done);
    pending.erase(push);
    return found;
  });
  if (done) done(result);
}

NatsJobQueue::NatsJobQueue(std::shared_ptr<NatsLink> link, const std::string& cluster, JobQueueConfig config)
    : config_(config),
      stream_(format("CHEETAH_{}_JOBS", cluster)),
      subjects_(format("cheetah.{}.jobs", cluster)),
      wake_subject_(format("cheetah.{}.wake", cluster)),
      inbox_(random_inbox()),
      link_(std::move(link)),
      inbound_(std::make_shared<Inbound>()),
      standing_(Standing{{false, Clock::now(), "not connected yet"}, 0}),
      maintenance_(link_->add_maintenance([this] { maintain(); })) {}

NatsJobQueue::~NatsJobQueue() {
  link_->remove_maintenance(maintenance_);
  subscriptions_.reset();
  expire(Time::max());
}

std::string NatsJobQueue::subject_of(int priority) const { return format("{}.{}", subjects_, priority); }
std::string NatsJobQueue::consumer_of(int priority) const { return format("priority{}", priority); }

ServiceState NatsJobQueue::state() const {
  return standing_.with([](const Standing& standing) { return standing.state; });
}

std::optional<int64_t> NatsJobQueue::depth() {
  if (!is_ready()) return std::nullopt;
  return depth_.with([](Depth& depth) {
    depth.asked = Clock::now();
    return depth.asked - depth.heard < kDepthLife ? depth.jobs : std::nullopt;
  });
}

bool NatsJobQueue::is_ready() const {
  return link_->state().up && standing_.with([](const Standing& standing) { return standing.state.up; });
}

void NatsJobQueue::push(Job job, PushCallback done) {
  check_job(job);
  const NatsLink::Connection connection = link_->connection();
  if (connection == nullptr || !is_ready()) return done(PushResult::kUnavailable);
  const auto bytes = static_cast<int64_t>(job.bytes.size());
  if (bytes + kHeaderBytes > natsConnection_GetMaxPayload(connection.get()))
    return done(PushResult::kTooLarge);

  const uint64_t number = next_push_++;
  const std::string subject = subject_of(job.priority), reply = format("{}.{}", inbox_, number);
  natsMsg* made = nullptr;
  natsStatus status =
      natsMsg_Create(&made, subject.c_str(), reply.c_str(), job.bytes.data(), static_cast<int>(bytes));
  const Message message(made, natsMsg_Destroy);
  if (status == NATS_OK) status = natsMsgHeader_Set(made, "Nats-Msg-Id", job.id.c_str());
  inbound_->pushes.with([&](auto& pending) {
    pending[number] = {std::move(done), Clock::now() + kPushLimit};
  });
  if (status == NATS_OK) status = natsConnection_PublishMsg(connection.get(), made);
  if (status != NATS_OK)
    inbound_->answer(number, PushResult::kUnavailable);
  else
    say(wake_subject_, std::to_string(job.priority));
}

std::optional<Delivery> NatsJobQueue::pull(milliseconds wait) {
  const Time deadline = Clock::now() + wait;
  uint32_t priorities = kAllPriorities;
  inbound_->rung = 0;
  while (true) {
    Pulled pulled = pull_first(priorities);
    if (pulled.delivery) return std::move(pulled.delivery);
    const Time now = Clock::now();
    if (now >= deadline || inbound_->wake_up.wait_until(std::min(deadline, now + kLongestSleep)))
      return std::nullopt;
    priorities = inbound_->rung.exchange(0);
    if (priorities == 0) priorities = kAllPriorities;  // nobody rang: a job may have come back by itself
  }
}

NatsJobQueue::Pulled NatsJobQueue::pull_first(uint32_t priorities) {
  const Time now = Clock::now();
  uint32_t silent = 0;
  for (int priority = 0; priority < kNumPriorities; ++priority)
    if (now < Time(Duration(silent_until_[static_cast<size_t>(priority)].load()))) silent |= 1u << priority;
  if ((priorities & ~silent) != 0) priorities &= ~silent;
  Pulled pulled{.delivery = {}, .answered = true};
  for (int priority = 0; priority < kNumPriorities && pulled.answered && !pulled.delivery; ++priority)
    if ((priorities >> priority & 1u) != 0) pulled = is_ready() ? pull_one(priority) : Pulled{};
  return pulled;
}

// One job of this priority if there is one now. A job that comes after the limit is lost to us, and goes to
// somebody else after the visibility timeout.
NatsJobQueue::Pulled NatsJobQueue::pull_one(int priority) {
  const NatsLink::Connection connection = link_->connection();
  if (connection == nullptr) return {};
  const std::string subject = format("$JS.API.CONSUMER.MSG.NEXT.{}.{}", stream_, consumer_of(priority));
  natsMsg* got = nullptr;
  const natsStatus status = natsConnection_RequestString(
      &got, connection.get(), subject.c_str(), R"({"batch":1,"no_wait":true})", kPullLimitMs);
  const Message message(got, natsMsg_Destroy);
  if (status == NATS_NO_RESPONDERS)
    look_again_ = true;  // the consumer is gone, or the server has no streams yet
  // nats-server 2.9 can make a consumer that never answers when several nodes make it at once.
  if (status == NATS_TIMEOUT)
    silent_until_[static_cast<size_t>(priority)] = (Clock::now() + kSilence).time_since_epoch().count();
  if (status != NATS_OK) return {};
  if (natsMsg_GetReply(got) == nullptr) return {.delivery = {}, .answered = true};
  const std::string ack_subject = natsMsg_GetReply(got);
  const auto attempt = nats::deliveries_in(ack_subject);
  if (!attempt) return {};
  const auto tag = DeliveryTag(next_tag_++);
  out_.with([&](auto& out) { out[tag] = {ack_subject, Clock::now()}; });
  return {.delivery = Delivery{.tag = tag,
              .id = std::string(header_of(got, "Nats-Msg-Id")),
              .bytes = std::string(data_of(got)),
              .priority = priority,
              .attempt = *attempt},
      .answered = true};
}

bool NatsJobQueue::say(const std::string& subject, std::string_view words) {
  const NatsLink::Connection connection = link_->connection();
  if (connection == nullptr || !link_->state().up) return false;
  return natsConnection_Publish(
             connection.get(), subject.c_str(), words.data(), static_cast<int>(words.size())) == NATS_OK;
}

std::optional<std::string> NatsJobQueue::take_out(DeliveryTag tag, bool keep) {
  return out_.with([&](auto& out) {
    std::optional<std::string> subject;
    const auto found = out.find(tag);
    if (found == out.end()) return subject;
    subject = found->second.ack_subject;
    if (!keep) out.erase(found);
    return subject;
  });
}

void NatsJobQueue::ack(DeliveryTag tag) {
  if (const auto subject = take_out(tag, false)) say(*subject, "+ACK");
}

void NatsJobQueue::nack(DeliveryTag tag) {
  const auto subject = take_out(tag, false);
  if (subject && say(*subject, "-NAK")) say(wake_subject_, {});
}

void NatsJobQueue::extend(DeliveryTag tag) {
  if (const auto subject = take_out(tag, true)) say(*subject, "+WPI");
}

// On the link's thread: makes sure of the stream after every connection, and gives up on old pushes.
void NatsJobQueue::maintain() {
  expire(Clock::now());
  const ServiceState link = link_->state();
  const int64_t generation = link_->generation();
  const Standing before = standing_.copy();
  Standing next = before;
  if (link.up && (before.generation != generation || look_again_.exchange(false) || !before.state.up)) {
    try {
      listen();
      make_stream();
      next = {{true, Clock::now(), {}}, generation};
    } catch (const Error& error) {
      next.state = {false, Clock::now(), error.what()};
    }
  } else if (!link.up) {
    next.state = {false, link.since, link.why};
  }
  if (next.state.up == before.state.up) next.state.since = before.state.since;
  const bool up = next.state.up;
  standing_.swap_in(next);
  if (up) measure_depth(Clock::now());
}

void NatsJobQueue::listen() {
  const NatsLink::Connection connection = link_->connection();
  if (connection == nullptr) throw Error("NATS: not connected yet");
  if (subscriptions_ && subscriptions_->answers.connection() == connection) return;
  const size_t skip = inbox_.size() + 1;
  const auto on_answer = [inbound = inbound_, skip, wake = wake_subject_](
                             natsConnection* used, natsMsg* message) {
    const auto number = to_integer(std::string_view(natsMsg_GetSubject(message)).substr(skip));
    if (!number) return;
    const bool refused = !header_of(message, "Status").empty();  // nobody there
    const PushResult result = refused ? PushResult::kUnavailable : nats::read_push_answer(data_of(message));
    inbound->answer(static_cast<uint64_t>(*number), result);
    // Only now the job is there to be found.
    if (result == PushResult::kQueued) natsConnection_Publish(used, wake.c_str(), nullptr, 0);
  };
  subscriptions_.reset();
  subscriptions_.reset(new Subscriptions{{connection, inbox_ + ".*", on_answer},
      {connection, wake_subject_, [inbound = inbound_](natsConnection*, natsMsg* message) {
         const auto priority = to_integer(data_of(message));
         const bool known = priority && *priority >= 0 && *priority < kNumPriorities;
         inbound->rung |= known ? 1u << *priority : kAllPriorities;
         inbound->wake_up.ring();
       }}});
}

// Pushes whose answer has not come by `now` are answered: nobody knows whether they are queued. Deliveries
// that nobody acknowledges are forgotten once the stream has dropped them.
void NatsJobQueue::expire(Time now) {
  const bool all = !link_->state().up;
  std::vector<uint64_t> late;
  inbound_->pushes.with([&](const auto& pending) {
    for (const auto& [number, push] : pending)
      if (all || push.deadline <= now) late.push_back(number);
  });
  for (const uint64_t number : late) inbound_->answer(number, PushResult::kUnavailable);
  out_.with([&](auto& out) {
    std::erase_if(out, [&](const auto& item) { return item.second.pulled < now - config_.max_age; });
  });
}

}  // namespace cheetah::cluster
