// SPDX-License-Identifier: MIT
#include "testing/cluster/sim_clients.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "testing/cluster/sim_cluster.h"

namespace cheetah::cluster::simulation {

SimClients::SimClients(SimCluster& cluster) : cluster_(cluster), simulation_(cluster.simulation()) {}

bool SimClients::is_poison(RequestUid uid) const {
  const auto client = clients_.find(uid);
  return client != clients_.end() && client->second.poison;
}

void SimClients::sent_in_vain(RequestUid uid) {
  if (const auto client = clients_.find(uid); client != clients_.end()) ++client->second.vain_sends;
}

void SimClients::router_died(WorkerId router) {
  for (auto& [uid, client] : clients_) {
    if (client.router != router || client.ended || client.orphaned) continue;
    client.orphaned = true;
    if (client.cancelled || client.poison || simulation_.happens(0.2)) continue;
    simulation_.after(simulation_.between(5, 400), [this, uid = uid] { come_back(uid); });
  }
}

SimNode* SimClients::any_router() {
  std::vector<SimNode*> routers;
  for (const auto& [id, node] : cluster_.nodes())
    if (node->router() != nullptr && !node->stopped()) routers.push_back(node.get());
  if (routers.empty()) return nullptr;
  return routers[static_cast<size_t>(simulation_.below(static_cast<int64_t>(routers.size())))];
}

// With its request and how far it was, which is at least an event behind what it got.
void SimClients::come_back(RequestUid uid) {
  SimNode* router = any_router();
  if (router == nullptr) {
    simulation_.after(milliseconds(200), [this, uid] { come_back(uid); });
    return;
  }
  Client client = clients_.at(uid);
  client.has.clear();
  for (size_t& got : client.got) client.has.push_back(static_cast<int64_t>(std::exchange(got, 0)) - 2);
  client.finished.assign(client.finished.size(), false);
  client.orphaned = false;
  client.vain_sends = 0;
  client.asked = simulation_.now();
  ++counts_.came_back;
  send(*router, make_uid(router->id(), ++num_asked_), std::move(client));
}

void SimClients::send(SimNode& router, RequestUid uid, Client client) {
  client.router = router.id();
  ClientRequest asked{.uid = uid, .request = client.request};
  asked.request.deadline = router.clock() + client.limit;
  asked.race = simulation_.happens(0.1);
  asked.recall = format("{:x}", client.request.seed);
  if (!client.has.empty()) asked.has = client.has;
  clients_.insert_or_assign(uid, std::move(client));
  router.tell(RouterInput(std::move(asked)));
}

GenerationRequest SimClients::make_request() {
  GenerationRequest request;
  // Few beginnings, so that caches have something to hold.
  const int64_t family = simulation_.below(4);
  const int64_t length = 3 + simulation_.below(60);
  for (int64_t i = 0; i < length; ++i)
    request.prompt.push_back(static_cast<int32_t>(i < 24 ? family * 100 + i : simulation_.below(1000)));
  request.seed = simulation_.bits();
  request.max_tokens = 1 + simulation_.below(24);
  request.n = simulation_.happens(0.25) ? static_cast<int>(2 + simulation_.below(3)) : 1;
  request.best_of = request.n;
  if (simulation_.happens(0.1)) request.best_of += 2;
  if (simulation_.happens(0.05)) {
    request.pooling = Pooling::kMean;
    request.n = request.best_of = 1;
  }
  if (simulation_.happens(0.3)) request.cache_salt = "tenant";
  return request;
}

void SimClients::ask(bool must_succeed) {
  SimNode* found = any_router();
  if (found == nullptr) return;
  SimNode& router = *found;
  const RequestUid uid = make_uid(router.id(), ++num_asked_);
  Client client;
  client.request = make_request();
  client.answer = oracle_answer(client.request);
  client.got.resize(client.answer.size());
  client.finished.resize(client.answer.size());
  client.asked = simulation_.now();
  client.limit = must_succeed ? milliseconds(15000) : simulation_.between(1500, 7000);
  client.must_succeed = must_succeed;
  client.poison = !must_succeed && simulation_.happens(0.01);
  ++counts_.requests;
  if (simulation_.logs())
    simulation_.log(format("client asks {:016x} at {}: prompt {}, n {}, best_of {}, max {}",
        static_cast<uint64_t>(uid), router.spec().name, client.request.prompt.size(), client.request.n,
        client.request.best_of, client.request.max_tokens));
  if (!must_succeed && simulation_.happens(0.12)) {
    cluster_.on(router.id(), simulation_.between(0, 700), [this, uid, id = router.id()] {
      Client& mine = clients_.at(uid);
      if (mine.ended || mine.orphaned) return;
      mine.cancelled = true;
      cluster_.find(id)->tell(RouterInput(ClientCancel{uid}));
    });
  }
  if (simulation_.happens(0.1)) {
    for (const bool paused : {true, false})
      cluster_.on(router.id(), paused ? simulation_.between(10, 100) : simulation_.between(150, 600),
          [this, uid, id = router.id(), paused] {
            cluster_.find(id)->tell(RouterInput(ClientPause{uid, paused}));
          });
  }
  send(router, uid, std::move(client));
}

void SimClients::emit(WorkerId router, const Emit& emit) {
  const auto found = clients_.find(emit.uid);
  if (found == clients_.end()) return simulation_.violate("an event for a client that never was");
  Client& client = found->second;
  if (client.router != router) return simulation_.violate("an event for another router's client");
  check_event(client, emit);
}

void SimClients::check_event(Client& client, const Emit& emit) {
  const GenerationEvent& event = emit.event;
  if (client.ended) return simulation_.violate("an event after the end");
  const auto choice = static_cast<size_t>(event.choice);
  if (choice >= client.answer.size()) return simulation_.violate("an event of a choice that is not there");
  if (client.finished[choice]) return simulation_.violate("an event of a choice that has ended");
  const std::vector<int32_t>& right = client.answer[choice].tokens;
  std::vector<int32_t> ids;
  for (const GeneratedToken& token : event.tokens) {
    if (client.got[choice] >= right.size() || right[client.got[choice]] != token.id)
      return simulation_.violate(
          format("token {} of a choice is wrong: lost, doubled or foreign", client.got[choice]));
    ++client.got[choice];
    ids.push_back(token.id);
  }
  if (event.text != oracle_text(ids)) simulation_.violate("the text is not that of the tokens");
  if (event.finish) check_finish(client, event);
  if (!event.done) return;
  client.ended = true;
  client.failed = event.finish == FinishReason::kError || event.finish == FinishReason::kDeadline;
  if (event.finish == FinishReason::kError) client.finished.assign(client.finished.size(), true);  // of all
  if (!emit.summary) return simulation_.violate("an end without a summary");
  // Three migrations are allowed: with fewer workers that really had it, it was given up for lack of luck.
  const bool given_up = event.error.find("too many times") != std::string::npos;
  if (given_up && !client.poison && emit.summary->attempts - client.vain_sends <= 3)
    simulation_.violate("a request is given up for workers that never had it");
  for (const bool finished : client.finished)
    if (!finished) simulation_.violate("an end although a choice has not ended");
  if (simulation_.logs())
    simulation_.log(format("client's {:016x} ends: {} {}", static_cast<uint64_t>(emit.uid),
        static_cast<int>(*event.finish), event.error));
}

void SimClients::check_finish(Client& client, const GenerationEvent& event) {
  const auto choice = static_cast<size_t>(event.choice);
  client.finished[choice] = true;
  const Duration waited = simulation_.now() - client.asked;
  if (waited > client.limit + cluster_.slack() + milliseconds(500))
    simulation_.violate("an end long after the deadline");
  switch (*event.finish) {
    case FinishReason::kStop:
    case FinishReason::kLength:
      if (client.request.pooling != Pooling::kNone) {
        if (event.embedding != std::vector<float>{oracle_embedding(client.request)})
          simulation_.violate("an embedding is wrong");
      } else if (client.got[choice] != client.answer[choice].tokens.size() ||
                 *event.finish != client.answer[choice].finish) {
        simulation_.violate("a choice ends before its last token");
      }
      break;
    case FinishReason::kCancelled:
      if (!client.cancelled) simulation_.violate("cancelled, but not by the client");
      break;
    case FinishReason::kDeadline:
      if (waited + cluster_.slack() + milliseconds(1) < client.limit)
        simulation_.violate("a deadline before its time");
      break;
    case FinishReason::kError:
      if (event.error_kind != ErrorKind::kQueueFull || event.error.empty())
        simulation_.violate("an error that tells the client nothing: " + event.error);
      break;
  }
}

// No worker goes on for a router that is gone.
void SimClients::check_orphans(WorkerId router) {
  for (const auto& [id, node] : cluster_.nodes()) {
    if (node->ever_stopped()) continue;  // it may not know yet
    for (const RequestKey key : node->engine().running())
      if (const auto client = clients_.find(key.uid);
          client != clients_.end() && client->second.router == router)
        simulation_.violate(format("{} works for a router that is gone", node->spec().name));
  }
}

void SimClients::check_at_end() {
  for (auto& [uid, client] : clients_) {
    if (client.orphaned) {
      ++counts_.orphaned;
      continue;
    }
    if (!client.ended) {
      simulation_.violate(format("request {:016x} never ended", static_cast<uint64_t>(uid)));
      continue;
    }
    counts_.cancelled += client.cancelled ? 1 : 0;
    counts_.failed += client.failed ? 1 : 0;
    counts_.completed += client.failed || client.cancelled ? 0 : 1;
    if (client.must_succeed && client.failed)
      simulation_.violate(
          format("request {:016x} failed after everything had healed", static_cast<uint64_t>(uid)));
  }
}

}  // namespace cheetah::cluster::simulation
