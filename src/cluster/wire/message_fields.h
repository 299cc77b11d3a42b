// SPDX-License-Identifier: MIT
#pragma once
// The fields of each message, in the order of the wire. What a release adds goes to the end of its message, whichever
// struct it belongs to, so that the release before can skip it.
#include "cluster/wire/archive.h"
#include "cluster/wire/message.h"
#include "cluster/wire/request_fields.h"

namespace cheetah::cluster {

inline constexpr size_t kMaxSlabTimes = 1 << 16;
inline constexpr size_t kMaxOrders = 4096;

template <class A, MaybeConst<RequestKey> M>
void fields(A& a, M& m) {
  a.number(m.uid);
  a.number(m.attempt);
}

template <class A, MaybeConst<KvDescriptor> M>
void fields(A& a, M& m) {
  a.text(m.model);
  a.text(m.dtype);
  a.text(m.order);
  a.between(m.page_tokens, 0, 1 << 20);
  a.between(m.num_layers, 0, 1 << 20);
  a.between(m.num_kv_heads, 0, 1 << 20);
  a.between(m.key_dim, 0, 1 << 20);
  a.between(m.value_dim, 0, 1 << 20);
  a.between(m.tp_rank, 0, 1 << 20);
  a.between(m.tp_size, 1, 1 << 20);
  a.list(m.windows, 4096, 8, [&](auto& window) { a.between(window, int64_t{0}, kMaxCount); });
  a.between(m.page_bytes, int64_t{0}, kMaxCount);
}

template <class A, MaybeConst<WorkerDescriptor> M>
void fields(A& a, M& m) {
  a.number(m.id);
  a.text(m.name);
  a.choice(m.role, Role::kBoth);
  a.choice(m.state, WorkerState::kDraining);
  a.number(m.epoch);
  a.text(m.host);
  a.number(m.port);
  a.text(m.transfer);
  fields(a, m.kv);
  a.text(m.model);
  a.text(m.model_name);
  a.between(m.max_sequences, int64_t{0}, kMaxCount);
  a.between(m.num_pages, int64_t{0}, kMaxCount);
  a.between(m.max_context, int64_t{0}, kMaxCount);
  if (a.version() >= 5) a.number(m.wire);
}

template <class A, MaybeConst<WorkerLoad> M>
void fields(A& a, M& m) {
  for (auto* count :
      {&m.running, &m.waiting, &m.prefill_tokens, &m.decode_tokens, &m.pages_total, &m.pages_free})
    a.between(*count, int64_t{0}, kMaxCount);
  a.finite(m.prefill_us_per_token);
  a.finite(m.decode_step_us);
  a.finite(m.bandwidth_share);
  a.finite(m.transfer_bytes_per_s);
}

template <class A, MaybeConst<SlabTimes> M>
void fields(A& a, M& m) {
  a.between(m.first_token, int64_t{0}, kMaxCount);
  a.between(m.num_tokens, int64_t{0}, kMaxCount);
  a.span(m.posted);
  a.span(m.landed);
  a.span(m.imported);
}

template <class A, MaybeConst<Waterfall> M>
void fields(A& a, M& m) {
  a.span(m.queued);
  a.span(m.prefill);
  a.span(m.transfer);
  a.span(m.decode);
  a.between(m.remote_tokens, int64_t{0}, kMaxCount);
  a.number(m.prefill_worker);
  a.span(m.computed);
  a.between(m.slabs_hidden, int64_t{0}, kMaxCount);
  a.list(m.slabs, kMaxSlabTimes, 40, [&](auto& slab) { fields(a, slab); });
  a.text(m.fallback);
}

template <class A, MaybeConst<Hello> M>
void fields(A& a, M& m) {
  fields(a, m.descriptor);
}

template <class A, MaybeConst<Heartbeat> M>
void fields(A& a, M& m) {
  a.choice(m.role, Role::kBoth);
  a.choice(m.state, WorkerState::kDraining);
  a.number(m.epoch);
  fields(a, m.load);
}

template <class A, MaybeConst<Generate> M>
void fields(A& a, M& m) {
  fields(a, m.key);
  fields(a, m.request);
  fields(a, m.grammar);
  a.list(m.resume, kMaxChoices, 5, [&](auto& choice) { fields(a, choice); });
  a.choice(m.prefill, PrefillPlace::kElsewhere);
  a.number(m.prefill_hint);
  maybe(a, m.time_left, [&](auto& left) { a.span(left); });
  a.text(m.trace);
  if (a.version() < 5) return;
  a.text(m.recall);
  a.list(m.told, kMaxChoices, 8, [&](auto& count) { a.between(count, int64_t{0}, kMaxCount); });
}

template <class A, MaybeConst<Tokens> M>
void fields(A& a, M& m) {
  fields(a, m.key);
  a.number(m.sequence);
  a.between(m.first_index, int64_t{0}, kMaxCount);
  fields(a, m.event);
  fields(a, m.waterfall);
}

template <class A, MaybeConst<GaveUp> M>
void fields(A& a, M& m) {
  fields(a, m.key);
  a.choice(m.reason, GiveUpReason::kNotMyRole);
  a.text(m.why);
}

template <class A, class M>
requires MaybeConst<M, Cancel> || MaybeConst<M, Probe> || MaybeConst<M, WritesStopped>
void fields(A& a, M& m) { fields(a, m.key); }

template <class A, MaybeConst<Pause> M>
void fields(A& a, M& m) {
  fields(a, m.key);
  a.number(m.paused);
}

template <class A, MaybeConst<ProbeAnswer> M>
void fields(A& a, M& m) {
  fields(a, m.key);
  a.number(m.next_sequence);
}

template <class A, MaybeConst<PrefillJob> M>
void fields(A& a, M& m) {
  fields(a, m.key);
  a.number(m.reply_to);
  token_ids(a, m.tokens);
  a.text(m.salt);
  a.between(m.first_token, int64_t{0}, kMaxCount);
  a.between(m.end_token, m.first_token, static_cast<int64_t>(m.tokens.size()));
  a.between(m.slab_tokens, int64_t{0}, kMaxCount);
  a.number(m.reservation);
  a.text(m.memory);
  fields(a, m.kv);
  a.number(m.priority);
  a.span(m.time_left);
  a.text(m.trace);
}

template <class A, MaybeConst<Claimed> M>
void fields(A& a, M& m) {
  fields(a, m.key);
  a.number(m.reservation);
  a.between(m.end_token, int64_t{0}, kMaxCount);
}

template <class A, MaybeConst<ClaimAnswer> M>
void fields(A& a, M& m) {
  fields(a, m.key);
  a.number(m.reservation);
  a.number(m.accepted);
}

template <class A, MaybeConst<PrefillNews> M>
void fields(A& a, M& m) {
  fields(a, m.key);
  a.number(m.reservation);
  a.between(m.tokens_ready, int64_t{0}, kMaxCount);
}

template <class A, MaybeConst<SlabPosted> M>
void fields(A& a, M& m) {
  fields(a, m.key);
  a.number(m.reservation);
  a.number(m.index);
  a.between(m.first_token, int64_t{0}, kMaxCount);
  a.between(m.num_tokens, int64_t{0}, kMaxCount);
  a.number(m.checksum);
  a.span(m.spent);
}

template <class A, MaybeConst<PrefillDone> M>
void fields(A& a, M& m) {
  fields(a, m.key);
  a.number(m.reservation);
  a.between(m.end_token, int64_t{0}, kMaxCount);
  a.number(m.num_slabs);
  a.span(m.queued);
  a.span(m.prefill);
  a.span(m.since_computed);
  a.number(m.slabs_hidden);
}

template <class A, MaybeConst<PrefillFailed> M>
void fields(A& a, M& m) {
  fields(a, m.key);
  a.number(m.reservation);
  a.text(m.why);
}

template <class A, MaybeConst<Drain> M>
void fields(A& a, M& m) {
  a.span(m.limit);
}

template <class A, MaybeConst<FlipRole> M>
void fields(A& a, M& m) {
  a.choice(m.role, Role::kBoth);
  a.number(m.epoch);
}

template <class A, MaybeConst<Order> M>
void fields(A& a, M& m) {
  a.text(m.subject);
  a.text(m.wish);
  a.number(m.version);
  a.number(m.by);
}

template <class A, MaybeConst<Orders> M>
void fields(A& a, M& m) {
  a.list(m.orders, kMaxOrders, 24, [&](auto& order) { fields(a, order); });
}

template <class A, MaybeConst<CordonNews> M>
void fields(A& a, M& m) {
  a.choice(m.cordon, Cordon::kDrained);
}

template <class A, MaybeConst<FetchFrom> M>
void fields(A& a, M& m) {
  fields(a, m.key);
  a.number(m.from);
  a.between(m.tokens, int64_t{0}, kMaxCount);
}

template <class A, MaybeConst<FetchJob> M>
void fields(A& a, M& m) {
  fields(a, m.job);
}

template <class A, MaybeConst<KvEvents> M>
void fields(A& a, M& m) {
  a.number(m.worker);
  a.number(m.first_number);
  a.list(m.changes, kMaxListItems, 17, [&](auto& change) {
    a.choice(change.kind, CacheChange::Kind::kCleared);
    a.number(change.block);
    a.number(change.parent);
  });
}

template <class A, MaybeConst<Recall> M>
void fields(A& a, M& m) {
  a.number(m.uid);
  a.text(m.recall);
}

template <class A, MaybeConst<Recalled> M>
void fields(A& a, M& m) {
  a.number(m.uid);
  a.number(m.known);
  a.between(m.max_tokens, int64_t{0}, kMaxCount);
  a.between(m.min_tokens, int64_t{0}, kMaxCount);
  a.list(m.choices, kMaxChoices, 4, [&](auto& tokens) { token_ids(a, tokens); });
}

template <class A, MaybeConst<AskCache> M>
void fields(A&, M&) {}

template <class A, MaybeConst<KvSnapshot> M>
void fields(A& a, M& m) {
  a.number(m.next_number);
  a.list(m.blocks, kMaxListItems, 8, [&](auto& block) { a.number(block); });
}

template <class A, MaybeConst<QuotaNews> M>
void fields(A& a, M& m) {
  a.list(m.entries, kMaxListItems, 20, [&](auto& entry) {
    a.text(entry.tenant);
    a.finite(entry.taken);
    a.finite(entry.left);
  });
}

}  // namespace cheetah::cluster
