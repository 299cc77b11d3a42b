// Clients that know every token of their answer beforehand.
#include <algorithm>

#include "base/format.h"
#include "cluster/core/simulation/sim_cluster.h"

namespace cheetah::cluster::simulation {

GenerationRequest SimCluster::make_request() {
  GenerationRequest request;
  // Few beginnings, so that caches have something to hold.
  const int64_t family = world_.below(4);
  const int64_t length = 3 + world_.below(60);
  for (int64_t i = 0; i < length; ++i)
    request.prompt.push_back(static_cast<int32_t>(i < 24 ? family * 100 + i : world_.below(1000)));
  request.seed = world_.bits();
  request.max_tokens = 1 + world_.below(24);
  request.n = world_.happens(0.25) ? static_cast<int>(2 + world_.below(3)) : 1;
  request.best_of = request.n;
  if (world_.happens(0.1)) request.best_of += 2;
  if (world_.happens(0.05)) {
    request.pooling = Pooling::kMean;
    request.n = request.best_of = 1;
  }
  if (world_.happens(0.3)) request.cache_salt = "tenant";
  return request;
}

void SimCluster::ask(bool must_succeed) {
  std::vector<SimNode*> routers;
  for (const auto& [id, node] : nodes_)
    if (node->router() != nullptr && !node->stopped()) routers.push_back(node.get());
  if (routers.empty()) return;
  SimNode& router = *routers[static_cast<size_t>(world_.below(static_cast<int64_t>(routers.size())))];
  const RequestUid uid = make_uid(router.id(), ++num_asked_);
  Client client;
  client.router = router.id();
  client.request = make_request();
  client.answer = oracle_answer(client.request);
  client.got.resize(client.answer.size());
  client.finished.resize(client.answer.size());
  client.asked = world_.now();
  client.limit = must_succeed ? milliseconds(15000) : world_.between(1500, 7000);
  client.must_succeed = must_succeed;
  client.poison = !must_succeed && world_.happens(0.01);
  ++verdict_.requests;
  if (world_.logs())
    world_.log(format("client asks {:016x} at {}: prompt {}, n {}, best_of {}, max {}",
                      static_cast<uint64_t>(uid), router.spec().name, client.request.prompt.size(),
                      client.request.n, client.request.best_of, client.request.max_tokens));
  ClientRequest asked{.uid = uid, .request = client.request};
  asked.request.deadline = router.clock() + client.limit;
  asked.race = world_.happens(0.1);
  clients_.emplace(uid, std::move(client));
  if (!must_succeed && world_.happens(0.12)) {
    on(router.id(), world_.between(0, 700), [this, uid, id = router.id()] {
      Client& mine = clients_.at(uid);
      if (mine.ended) return;
      mine.cancelled = true;
      find(id)->tell(RouterInput(ClientCancel{uid}));
    });
  }
  if (world_.happens(0.1)) {
    for (const bool paused : {true, false})
      on(router.id(), paused ? world_.between(10, 100) : world_.between(150, 600),
         [this, uid, id = router.id(), paused] {
           find(id)->tell(RouterInput(ClientPause{uid, paused}));
         });
  }
  router.tell(RouterInput(std::move(asked)));
}

void SimCluster::emit(WorkerId router, const Emit& emit) {
  const auto found = clients_.find(emit.uid);
  if (found == clients_.end()) return world_.violate("an event for a client that never was");
  Client& client = found->second;
  if (client.router != router) return world_.violate("an event for another router's client");
  check_event(client, emit);
}

void SimCluster::check_event(Client& client, const Emit& emit) {
  const GenerationEvent& event = emit.event;
  if (client.ended) return world_.violate("an event after the end");
  const auto choice = static_cast<size_t>(event.choice);
  if (choice >= client.answer.size()) return world_.violate("an event of a choice that is not there");
  if (client.finished[choice]) return world_.violate("an event of a choice that has ended");
  const std::vector<int32_t>& right = client.answer[choice].tokens;
  std::vector<int32_t> ids;
  for (const GeneratedToken& token : event.tokens) {
    if (client.got[choice] >= right.size() || right[client.got[choice]] != token.id)
      return world_.violate(
          format("token {} of a choice is wrong: lost, doubled or foreign", client.got[choice]));
    ++client.got[choice];
    ids.push_back(token.id);
  }
  if (event.text != oracle_text(ids)) world_.violate("the text is not that of the tokens");
  if (event.finish) check_finish(client, event);
  if (!event.done) return;
  client.ended = true;
  client.failed = event.finish == FinishReason::kError || event.finish == FinishReason::kDeadline;
  if (event.finish == FinishReason::kError) client.finished.assign(client.finished.size(), true);  // of all
  if (!emit.summary) world_.violate("an end without a summary");
  for (const bool finished : client.finished)
    if (!finished) world_.violate("an end although a choice has not ended");
  if (world_.logs())
    world_.log(format("client's {:016x} ends: {} {}", static_cast<uint64_t>(emit.uid),
                      static_cast<int>(*event.finish), event.error));
}

void SimCluster::check_finish(Client& client, const GenerationEvent& event) {
  const auto choice = static_cast<size_t>(event.choice);
  client.finished[choice] = true;
  const Duration waited = world_.now() - client.asked;
  if (waited > client.limit + slack_ + milliseconds(500)) world_.violate("an end long after the deadline");
  switch (*event.finish) {
    case FinishReason::kStop:
    case FinishReason::kLength:
      if (client.request.pooling != Pooling::kNone) {
        if (event.embedding != std::vector<float>{oracle_embedding(client.request)})
          world_.violate("an embedding is wrong");
      } else if (client.got[choice] != client.answer[choice].tokens.size() ||
                 *event.finish != client.answer[choice].finish) {
        world_.violate("a choice ends before its last token");
      }
      break;
    case FinishReason::kCancelled:
      if (!client.cancelled) world_.violate("cancelled, but not by the client");
      break;
    case FinishReason::kDeadline:
      if (waited + slack_ + milliseconds(1) < client.limit) world_.violate("a deadline before its time");
      break;
    case FinishReason::kError:
      if (event.error_kind != ErrorKind::kQueueFull || event.error.empty())
        world_.violate("an error that tells the client nothing: " + event.error);
      break;
  }
}

// Nobody goes on working for a router that is gone.
void SimCluster::check_orphans(WorkerId router) {
  for (const auto& [id, node] : nodes_) {
    if (node->ever_stopped()) continue;  // it may not know yet
    for (const RequestKey key : node->engine().running())
      if (const auto client = clients_.find(key.uid);
          client != clients_.end() && client->second.router == router)
        world_.violate(format("{} works for a router that is gone", node->spec().name));
  }
}

void SimCluster::check_clients() {
  for (auto& [uid, client] : clients_) {
    if (client.orphaned) {
      ++verdict_.orphaned;
      continue;
    }
    if (!client.ended) {
      world_.violate(format("request {:016x} never ended", static_cast<uint64_t>(uid)));
      continue;
    }
    verdict_.cancelled += client.cancelled ? 1 : 0;
    verdict_.failed += client.failed ? 1 : 0;
    verdict_.completed += client.failed || client.cancelled ? 0 : 1;
    if (client.must_succeed && client.failed)
      world_.violate(
          format("request {:016x} failed after everything had healed", static_cast<uint64_t>(uid)));
  }
}

}  // namespace cheetah::cluster::simulation
