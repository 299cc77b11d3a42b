// SPDX-License-Identifier: MIT
#pragma once
// A worker's core that a test takes to any state of a request, step by step.
#include "cluster/core/core_probe.h"

namespace cheetah::cluster {

inline constexpr ReservationId kReservation{42};
inline constexpr int64_t kPromptTokens = 400;  // three slabs of 128, and a rest that is computed here

struct Worker : CoreProbe<WorkerCore, WorkerInput, WorkerOutput> {
  explicit Worker(Role role = Role::kDecode, WorkerId id = kDecodeA) : CoreProbe(config_of(role, id)) {
    tell(QueueUp{});
    for (const WorkerId peer : {kRouterR, kPrefillP, kPrefillQ, kDecodeB})
      if (peer != id) tell(PeerUp{peer});
    for (const WorkerId peer : {kPrefillP, kPrefillQ})
      if (peer != id) hear(peer, Hello{ready_worker(peer, Role::kPrefill)});
    tell(WarmedUp{});
  }
  static WorkerConfig config_of(Role role, WorkerId id) {
    WorkerConfig config;
    config.descriptor = ready_worker(id, role);
    config.descriptor.state = WorkerState::kStarting;
    return config;
  }

  // As a decode worker: a request on its way, from one state to the next.
  void generate(uint32_t attempt = 1) {
    hear(kRouterR, Generate{.key = key_of(attempt),
                       .request = request_of(kPromptTokens),
                       .prefill = PrefillPlace::kElsewhere});
  }
  void claim(WorkerId from = kPrefillP, uint32_t attempt = 1, ReservationId reservation = kReservation) {
    hear(from, Claimed{key_of(attempt), reservation});
  }
  void slab(uint32_t index, WorkerId from = kPrefillP) {
    hear(from, SlabPosted{.key = key_of(1),
                   .reservation = kReservation,
                   .index = index,
                   .first_token = 128 * static_cast<int64_t>(index),
                   .num_tokens = 128});
  }
  void imported(uint32_t index, bool good = true) {
    tell(SlabImported{key_of(1), kReservation, index, good, good ? "" : "bad checksum"});
  }
  void done(WorkerId from = kPrefillP) {
    hear(from, PrefillDone{.key = key_of(1), .reservation = kReservation, .end_token = 384, .num_slabs = 3});
  }
  void engine(GenerationEvent event, uint32_t attempt = 1) {
    tell(EngineEvent{key_of(attempt), std::move(event)});
  }

  void reach(RequestState state) {
    generate();
    if (state == RequestState::kReceived) return;
    tell(CacheLooked{key_of(1), 0});
    if (state == RequestState::kWaitSpace) return;
    tell(SpaceReserved{.key = key_of(1), .reservation = kReservation});
    if (state == RequestState::kQueuedRemote) return;
    claim();
    if (state == RequestState::kPrefilling) return;
    slab(0);
    if (state == RequestState::kTransferring) return;
    imported(0);
    for (const uint32_t index : {1u, 2u}) {
      slab(index);
      imported(index);
    }
    done();
    if (state == RequestState::kReady) return;
    engine(event_of({11}));
  }

  // As a prefill worker.
  static PrefillJob job(uint32_t attempt = 1) {
    return {.key = key_of(attempt),
        .reply_to = kDecodeB,
        .tokens = std::vector<int32_t>(256, 3),
        .first_token = 0,
        .end_token = 256,
        .slab_tokens = 128,
        .reservation = kReservation,
        .kv = ready_worker(kDecodeB, Role::kDecode).kv,
        .time_left = seconds(10)};
  }
  void deliver(uint64_t delivery = 1, uint32_t attempt = 1) {
    tell(JobDelivered{DeliveryId{delivery}, job(attempt)});
  }
  void answer_claim(bool accepted) { hear(kDecodeB, ClaimAnswer{key_of(1), kReservation, accepted}); }

  bool empty() const {
    const WorkerCore::Outstanding outstanding = core.outstanding();
    return outstanding.requests + outstanding.jobs + outstanding.reservations + outstanding.quarantined +
               outstanding.exports ==
           0;
  }
};

inline constexpr RequestState kStates[] = {RequestState::kReceived, RequestState::kWaitSpace,
    RequestState::kQueuedRemote, RequestState::kPrefilling, RequestState::kTransferring, RequestState::kReady,
    RequestState::kDecoding};

}  // namespace cheetah::cluster
