// SPDX-License-Identifier: MIT
// How the stream of the prefill queue is set up.
#include <nats/nats.h>

#include "base/error.h"
#include "base/format.h"
#include "cluster/queue/nats_link.h"
#include "cluster/queue/nats_queue.h"

namespace cheetah::cluster {
namespace {

constexpr int64_t kRequestLimitMs = 2000;
constexpr std::chrono::milliseconds kDepthInterval{500}, kDepthInterest{5000};
constexpr int kMostTogether = 100'000;  // deliveries out at once

using Context = std::unique_ptr<jsCtx, void (*)(jsCtx*)>;

int64_t nanoseconds(std::chrono::milliseconds time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

[[noreturn]] void fail(const std::string& what, natsStatus status, jsErrCode code) {
  throw Error(format("NATS JetStream: {}: {} (error {}): is the server started with -js?", what,
      natsStatus_GetText(status), static_cast<int>(code)));
}

}  // namespace

// Every node does this, with the same configuration: the first one makes it, the others find it as it is. One
// that was configured otherwise changes it, so a change of the settings needs no other step.
void NatsJobQueue::make_stream() {
  const NatsLink::Connection connection = link_->connection();
  jsOptions options;
  jsOptions_Init(&options);
  options.Wait = kRequestLimitMs;
  jsCtx* made = nullptr;
  natsStatus status = natsConnection_JetStream(&made, connection.get(), &options);
  if (status != NATS_OK) fail("connecting", status, jsErrCode(0));
  const Context context(made, jsCtx_Destroy);

  jsStreamConfig stream;
  jsStreamConfig_Init(&stream);
  const std::string all = subjects_ + ".*";
  const char* subjects[] = {all.c_str()};
  stream.Name = stream_.c_str();
  stream.Subjects = subjects;
  stream.SubjectsLen = 1;
  stream.Retention = js_WorkQueuePolicy;
  stream.Discard = js_DiscardNew;  // a full queue says so instead of dropping what waits
  stream.MaxMsgs = config_.max_jobs;
  stream.MaxBytes = config_.max_bytes;
  stream.Replicas = config_.replicas;
  stream.MaxAge = nanoseconds(config_.max_age);
  stream.Duplicates = nanoseconds(std::min(config_.dedup_window, config_.max_age));
  jsErrCode code = jsErrCode(0);
  status = js_AddStream(nullptr, made, &stream, nullptr, &code);
  if (status != NATS_OK && code == JSStreamNameExistErr)
    status = js_UpdateStream(nullptr, made, &stream, nullptr, &code);
  if (status != NATS_OK) fail(format("the stream {}", stream_), status, code);

  for (int priority = 0; priority < kNumPriorities; ++priority) {
    const std::string name = consumer_of(priority), subject = subject_of(priority);
    jsConsumerConfig consumer;
    jsConsumerConfig_Init(&consumer);
    consumer.Durable = name.c_str();
    consumer.FilterSubject = subject.c_str();
    consumer.AckPolicy = js_AckExplicit;
    consumer.AckWait = nanoseconds(config_.visibility);
    consumer.MaxDeliver = config_.max_deliveries;
    consumer.MaxAckPending = kMostTogether;
    code = jsErrCode(0);
    status = js_AddConsumer(nullptr, made, stream_.c_str(), &consumer, nullptr, &code);
    if (status != NATS_OK) fail(format("the consumer {}", name), status, code);
  }
}

// Only while asked: it takes a question for each priority.
void NatsJobQueue::measure_depth(Time now) {
  const Depth known = depth_.copy();
  if (now - known.asked > kDepthInterest || now - known.heard < kDepthInterval) return;
  const NatsLink::Connection connection = link_->connection();
  jsOptions options;
  jsOptions_Init(&options);
  options.Wait = kRequestLimitMs;
  jsCtx* made = nullptr;
  if (natsConnection_JetStream(&made, connection.get(), &options) != NATS_OK) return;
  const Context context(made, jsCtx_Destroy);
  int64_t jobs = 0;
  for (int priority = 0; priority < kNumPriorities; ++priority) {
    jsConsumerInfo* info = nullptr;
    if (js_GetConsumerInfo(&info, made, stream_.c_str(), consumer_of(priority).c_str(), nullptr, nullptr) !=
        NATS_OK)
      return;
    jobs += static_cast<int64_t>(info->NumPending);
    jsConsumerInfo_Destroy(info);
  }
  depth_.with([&](Depth& depth) {
    depth.jobs = jobs;
    depth.heard = now;
  });
}

}  // namespace cheetah::cluster
