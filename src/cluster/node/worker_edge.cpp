// SPDX-License-Identifier: MIT
#include "cluster/node/worker_edge.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "cluster/core/overloaded.h"
#include "cluster/wire/codec.h"

namespace cheetah::cluster {
namespace {

// Requests have any priority, lower first and 0 the usual; the queue has four.
int queue_priority(int priority) { return std::clamp(priority + 1, 0, kNumPriorities - 1); }

}  // namespace

WorkerEdge::WorkerEdge(const Setting& setting)
    : jobs_(setting.jobs),
      wire_(setting.wire),
      mesh_(setting.mesh),
      loop_(setting.loop),
      feed_(setting.feed),
      engine_({setting.engine, setting.grammars, setting.loop, background_, setting.feed}),
      pages_({setting.engine, setting.transfer, setting.loop, kv_background_, setting.kv, setting.feed}),
      puller_(setting.jobs, [this](Delivery&& delivery) { deliver(std::move(delivery)); }) {}

void WorkerEdge::execute(WorkerOutput& output) {
  std::visit(Overloaded{[this](EngineSubmit& what) { engine_.execute(what); },
                 [this](EngineCancel& what) { engine_.execute(what); },
                 [this](EnginePause& what) { engine_.execute(what); }, [this](WarmUp&) { engine_.warm_up(); },
                 [this](PushJob& what) { execute(what); },
                 [this](AckJob& what) { jobs_.ack(DeliveryTag{static_cast<uint64_t>(what.delivery)}); },
                 [this](NackJob& what) { jobs_.nack(DeliveryTag{static_cast<uint64_t>(what.delivery)}); },
                 [this](ExtendJob& what) { jobs_.extend(DeliveryTag{static_cast<uint64_t>(what.delivery)}); },
                 [](SendMessage&) {}, [](Count&) {}, [](LogDecision&) {}, [](Announce&) {}, [](Drained&) {},
                 [](RecordSpan&) {}, [this](auto& of_pages) { pages_.execute(of_pages); }},
      output);
}

WorkerLoad WorkerEdge::load() const {
  WorkerLoad load = engine_.load();
  load.transfer_bytes_per_s = pages_.numbers().bytes_per_s;
  return load;
}

void WorkerEdge::execute(const PushJob& push) {
  const PrefillJob& job = push.job;
  Job queued{.id = format("{:016x}.{}.{}", static_cast<uint64_t>(job.key.uid),
                 static_cast<uint32_t>(job.key.attempt), static_cast<uint64_t>(job.reservation)),
      .bytes = mesh_.seal(encode_job(job, wire_.newest)),
      .priority = queue_priority(job.priority)};
  jobs_.push(std::move(queued), [this, key = job.key, reservation = job.reservation](PushResult result) {
    if (result == PushResult::kQueued || result == PushResult::kDuplicate) return;
    // As if a prefill worker had said no: the prompt is computed here at once instead of after a while.
    loop_.post([this, key, reservation, result] {
      feed_(PeerMessage{WorkerId{}, PrefillFailed{key, reservation, format("queue: {}", name_of(result))}});
    });
  });
}

void WorkerEdge::deliver(Delivery&& delivery) {
  std::optional<PrefillJob> job;
  try {
    if (const auto opened = mesh_.open(delivery.bytes))
      job = decode_job(*opened, wire_);
    else
      jobs_.nack(delivery.tag);  // of a worker that this one has no link to, or of nobody
  } catch (const Error&) {
    jobs_.ack(delivery.tag);  // nobody can do it
  }
  loop_.post([this, tag = delivery.tag, job = std::move(job)]() mutable {
    ++jobs_handled_;
    if (job) feed_(JobDelivered{DeliveryId{static_cast<uint64_t>(tag)}, std::move(*job)});
  });
}

}  // namespace cheetah::cluster
