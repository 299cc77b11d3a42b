// SPDX-License-Identifier: MIT
#include "cluster/node/cluster_backend.h"

#include <algorithm>
#include <utility>

#include "cluster/net/crypto.h"
#include "cluster/wire/request_fields.h"
#include "engine/refusal.h"

namespace cheetah::cluster {

const ServedModel& ClusterBackend::model_of(const GenerationRequest& request) const {
  const auto named = std::ranges::find(setting_.models, origin_of(request).model, &ServedModel::name);
  return named == setting_.models.end() ? setting_.models.front() : *named;
}

namespace {

// What makes an answer what it is, so that the same request, and nobody's but its tenant's (cache_salt), is known
// again at another router.
std::string recall_name(const ClientRequest& client) {
  Writer writer(kWire.newest);
  fields(writer, client.request);
  fields(writer, client.grammar);
  writer.text(client.model);
  const Digest digest = hmac_sha256("recall", writer.take());
  return {digest.begin(), digest.end()};
}

}  // namespace

void ClusterBackend::submit(GenerationRequest request, EventSink sink) {
  const RequestId id = request.id;
  const Time now = std::chrono::steady_clock::now();
  if (refuses_) return sink(refusal_event(request, is_draining(), now));
  const ServedModel& served = model_of(request);
  if (const auto error = refusal_of(request, served.limits, served.model->traits()))
    return sink(refusal_event(request, *error, now));
  ++in_flight_;
  auto counted = [this, sink = std::move(sink)](GenerationEvent&& event) {
    const bool done = event.done;
    sink(std::move(event));
    if (done && --in_flight_ == 0 && refuses_) emptied_.post(0);
  };
  ClientRequest client;
  client.grammar = setting_.grammar_of(request);
  const RequestOrigin& origin = origin_of(request);
  client.tenant = origin.tenant;
  client.model = served.id;
  client.may_change_model = origin.may_change_model;
  client.degraded_from = origin.degraded_from;
  client.trace = origin.trace;
  client.has = origin.has;
  const bool may_come_back = origin.may_come_back;
  client.request = std::move(request);
  client.request.grammar = nullptr;  // travels as text
  if (may_come_back) client.recall = recall_name(client);
  setting_.loop.post([this, id, now, counted = std::move(counted), client = std::move(client)]() mutable {
    client.qos_class = setting_.class_of(origin_of(client.request));
    client.uid = setting_.clients.add(id, std::move(counted), now);
    setting_.feed(std::move(client));
  });
}

void ClusterBackend::cancel(RequestId id) {
  setting_.loop.post([this, id] {
    if (const auto uid = setting_.clients.find(id)) setting_.feed(ClientCancel{*uid});
  });
}

void ClusterBackend::set_paused(RequestId id, bool paused) {
  setting_.loop.post([this, id, paused] {
    if (const auto uid = setting_.clients.find(id)) setting_.feed(ClientPause{*uid, paused});
  });
}

void ClusterBackend::cancel_all() {
  setting_.loop.post([this] {
    for (const RequestUid uid : setting_.clients.all()) setting_.feed(ClientCancel{uid});
  });
}

void ClusterBackend::drain(std::chrono::milliseconds limit) {
  refuses_ = true;
  const auto wait_until = [this](Time until) {
    std::vector<char> news;
    while (in_flight_ > 0 && emptied_.wait_until(until)) emptied_.take_all(news);
  };
  wait_until(std::chrono::steady_clock::now() + limit);
  if (in_flight_ == 0) return;
  cancel_all();
  wait_until(std::chrono::steady_clock::now() + std::chrono::seconds(1));
}

}  // namespace cheetah::cluster
