// SPDX-License-Identifier: MIT
#include "cluster/node/admin_api.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/time.h"
#include "cluster/node/launch.h"
#include "observe/event_log.h"

namespace cheetah::cluster {
namespace {

struct AdminRefusal {
  int status = 400;
  std::string code, why;
};

[[noreturn]] void refuse(int status, std::string code, std::string why) {
  throw AdminRefusal{status, std::move(code), std::move(why)};
}

double ms_since(Time at, Time now) { return at == Time{} ? -1 : seconds(now - at) * 1e3; }

std::string text_field(const Json& body, const char* name) {
  const auto field = body.find(name);
  if (field == body.end() || !field->is_string() || field->get<std::string>().empty())
    refuse(400, "invalid_value", format("{}: expected a name", name));
  return field->get<std::string>();
}

bool flag(const Json& body, const char* name) {
  const auto field = body.find(name);
  return field != body.end() && field->is_boolean() && field->get<bool>();
}

Json service_json(const ServiceState& state) {
  return {{"up", state.up}, {"absent", state.absent}, {"why", state.why}};
}

}  // namespace

std::string_view standing_of(const KnownWorker& worker) {
  if (!worker.linked) return "unreachable";
  if (worker.silent) return "hung";
  if (worker.left) return "left";
  return standing_of(worker.cordon, worker.descriptor.state);
}

AdminAnswer AdminApi::answer(const AdminCall& call, Time now) {
  try {
    if (call.method == "GET" && call.path == "cluster") return {200, dump_json(cluster(now)), {}, {}};
    if (call.method == "GET" && call.path.starts_with("trace/")) {
      const std::string id = call.path.substr(6);
      const Json found = setting_.traces.find(id, now);
      if (found.empty())
        refuse(404, "request_not_found",
            format(
                "no request {} is known here: expected the x-request-id of a call that this router answers, "
                "or of its last {}",
                printable(id), RequestTraces::kKept));
      return {
          200, dump_json(Json{{"id", id}, {"router", setting_.config.name}, {"requests", found}}), {}, {}};
    }
    if (call.method != "POST")
      refuse(404, "unknown_route", format("there is nothing at /admin/{}", printable(call.path)));
    const Json body = Json::parse(call.body.empty() ? "{}" : call.body, nullptr, false);
    if (!body.is_object()) refuse(400, "invalid_value", "the body: expected one JSON object");
    return {200, dump_json(act(call, body, now)), {}, {}};
  } catch (const AdminRefusal& refusal) {
    return {refusal.status, {}, refusal.why, refusal.code};
  } catch (const Error& error) {
    return {400, {}, error.what(), "invalid_value"};
  }
}

Json AdminApi::act(const AdminCall& call, const Json& body, Time now) {
  const std::string& path = call.path;
  Json done;
  if (path == "cordon" || path == "uncordon" || path == "drain")
    done = cordon(path, body, now);
  else if (path == "role")
    done = role(body, now);
  else if (path == "scale")
    done = scale(body);
  else
    refuse(404, "unknown_route",
        format("there is nothing at /admin/{}: expected cordon, uncordon, drain, role or scale",
            printable(path)));
  const auto why = body.find("why");
  if (setting_.log)
    setting_.log->write(LogLevel::kInfo, "admin",
        {{"act", path}, {"order", dump_json(done)}, {"who", call.who}, {"address", call.address},
            {"why", why != body.end() && why->is_string() ? why->get<std::string>() : ""}});
  return done;
}

// By name where that is unique, so that the order outlives a restart; else by id.
std::string AdminApi::named(const Json& body) const {
  const std::string wanted = text_field(body, "node");
  std::string all;
  int64_t matches = 0;
  for (const auto& [id, worker] : setting_.router.workers()) {
    if (!worker.described) continue;
    if (wanted == id_text(id)) return wanted;
    matches += worker.descriptor.name == wanted && (worker.linked || worker.registered);
    all += (all.empty() ? "" : ", ") + worker.descriptor.name;
  }
  if (matches == 1) return wanted;
  if (matches > 1)
    refuse(409, "ambiguous_node",
        format("{} nodes are called {}: name one by its id (cheetah cluster top --json shows them)", matches,
            printable(wanted)));
  const OrderBook& book = setting_.operations.book();
  if (!book.wish(cordon_subject(wanted)).empty() || !book.wish(role_subject(wanted)).empty()) return wanted;
  refuse(404, "unknown_node",
      format("no worker is called {}: there {}", printable(wanted),
          all.empty() ? std::string("are none") : "are " + all));
}

// An operator's slip must not stop the whole cluster.
void AdminApi::check_rest(const std::string& node, bool stays_decoding, const Json& body, Time now) const {
  if (stays_decoding || flag(body, "force")) return;
  const auto is_it = [&](WorkerId id, const KnownWorker& worker) {
    return worker.descriptor.name == node || id_text(id) == node;
  };
  std::string model;
  bool decodes = false;
  for (const auto& [id, worker] : setting_.router.workers())
    if (is_it(id, worker) && worker.usable(now) && worker.decodes()) {
      decodes = true;
      model = worker.descriptor.model;
    }
  if (!decodes) return;
  for (const auto& [id, worker] : setting_.router.workers())
    if (!is_it(id, worker) && worker.reachable() && worker.decodes() && worker.descriptor.model == model)
      return;
  refuse(409, "last_decoder",
      format(
          "{} is the only worker that decodes its model: add another first, or force it", printable(node)));
}

Json AdminApi::cordon(const std::string& act, const Json& body, Time now) {
  const std::string node = named(body);
  std::string wish;
  if (act == "cordon") wish = text_of(CordonWish{});
  if (act == "drain") {
    const auto limit = body.find("limit_s");
    double limit_s = 30;
    if (limit != body.end()) {
      if (!limit->is_number() || !(limit->get<double>() >= 0) || limit->get<double>() > 86400)
        refuse(400, "invalid_value", "limit_s: expected seconds from 0 to 86400");
      limit_s = limit->get<double>();
    }
    wish = text_of(CordonWish{std::chrono::milliseconds(static_cast<int64_t>(limit_s * 1e3))});
  }
  check_rest(node, wish.empty(), body, now);
  setting_.operations.give(cordon_subject(node), wish);
  return {{"node", node}, {"order", wish.empty() ? "none" : wish}};
}

Json AdminApi::role(const Json& body, Time now) {
  const std::string node = named(body), role = text_field(body, "role");
  if (role != "prefill" && role != "decode" && role != "both" && role != "auto")
    refuse(
        400, "invalid_value", format("role: '{}': expected prefill, decode, both or auto", printable(role)));
  check_rest(node, role != "prefill", body, now);
  setting_.operations.give(role_subject(node), role == "auto" ? "" : role);
  return {{"node", node}, {"role", role}};
}

Json AdminApi::scale(const Json& body) {
  const std::string pool = text_field(body, "pool");
  if (pool != "prefill" && pool != "decode")
    refuse(400, "invalid_value", format("pool: '{}': expected prefill or decode", printable(pool)));
  const auto replicas = body.find("replicas");
  const bool automatic = replicas != body.end() && replicas->is_null();
  const int64_t least = pool == "decode" ? 1 : 0;
  if (!automatic && (replicas == body.end() || !replicas->is_number_integer() ||
                        replicas->get<int64_t>() < least || replicas->get<int64_t>() > 10'000))
    refuse(400, "invalid_value",
        format("replicas: expected a whole number from {} to 10000, or null: the autoscaler decides", least));
  setting_.operations.give(replicas_subject(pool), automatic ? "" : std::to_string(replicas->get<int64_t>()));
  return {{"pool", pool}, {"replicas", automatic ? Json() : *replicas}};
}

Json AdminApi::worker_json(const KnownWorker& worker, Time now) const {
  const WorkerDescriptor& d = worker.descriptor;
  const WorkerLoad& l = worker.load;
  return {{"id", id_text(d.id)}, {"name", d.name}, {"role", name_of(d.role)}, {"state", standing_of(worker)},
      {"model", d.model_name}, {"epoch", d.epoch}, {"address", format("{}:{}", d.host, d.port)},
      {"held_off", worker.held_off_until > now}, {"heard_ms_ago", ms_since(worker.heard_at, now)},
      {"in_flight", worker.in_flight}, {"running", l.running}, {"waiting", l.waiting},
      {"max_sequences", d.max_sequences}, {"prefill_tokens", l.prefill_tokens},
      {"pages_total", l.pages_total}, {"pages_free", l.pages_free}, {"decode_step_us", l.decode_step_us},
      {"prefill_us_per_token", l.prefill_us_per_token}, {"transfer_bytes_per_s", l.transfer_bytes_per_s}};
}

Json AdminApi::requests_json() const {
  const EngineStats stats = setting_.clients.stats();
  return {{"running", setting_.router.num_requests()}, {"prompt_tokens", stats.prompt_tokens},
      {"cached_prompt_tokens", stats.cached_prompt_tokens}, {"generated_tokens", stats.generated_tokens},
      {"finished", stats.finished_stop + stats.finished_length}, {"failed", stats.finished_error},
      {"cancelled", stats.finished_cancelled + stats.finished_deadline},
      {"ttft_s", {{"count", stats.ttft_s.count}, {"sum", stats.ttft_s.sum}}},
      {"itl_s", {{"count", stats.itl_s.count}, {"sum", stats.itl_s.sum}}}};
}

Json AdminApi::orders_json() const {
  Json orders = Json::array();
  for (const Order& order : setting_.operations.book().all())
    if (!order.wish.empty()) orders.push_back({{"subject", order.subject}, {"wish", order.wish}});
  return orders;
}

Json AdminApi::cluster(Time now) const {
  Json workers = Json::array(), counters = Json::object(), routers = Json::array();
  for (const auto& [id, worker] : setting_.router.workers())
    if (worker.described) workers.push_back(worker_json(worker, now));
  for (size_t i = 0; i < setting_.counters.size(); ++i)
    counters[counter_name(static_cast<Counter>(i))] = setting_.counters[i];
  for (const auto& [id, peer] : setting_.peers.peers())
    if (peer.descriptor.role == Role::kRouter && !peer.descriptor.name.empty())
      routers.push_back({{"name", peer.descriptor.name}, {"id", id_text(id)}, {"linked", peer.linked}});
  const ClusterNumbers& policy = setting_.routing.numbers();
  Json json = {{"router", setting_.config.name}, {"id", id_text(setting_.config.id)},
      {"plans", setting_.seat && setting_.seat->held()}, {"routers", std::move(routers)},
      {"workers", std::move(workers)}, {"requests", requests_json()}, {"counters", std::move(counters)},
      {"orders", orders_json()}, {"registry", service_json(setting_.services.registry->state())},
      {"queue", service_json(setting_.services.jobs->state())},
      {"prefill_queue_depth", policy.prefill_queue_depth}, {"kv_index_blocks", policy.kv_index_blocks},
      {"imbalance", policy.imbalance},
      {"breakers", {{"prefill", static_cast<int>(policy.prefill_breaker)},
                       {"decode", static_cast<int>(policy.decode_breaker)}}}};
  Json& desired = json["desired_replicas"] = Json::object();
  if (policy.desired_prefill) desired["prefill"] = *policy.desired_prefill;
  if (policy.desired_decode) desired["decode"] = *policy.desired_decode;
  return json;
}

}  // namespace cheetah::cluster
