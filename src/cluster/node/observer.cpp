// SPDX-License-Identifier: MIT
#include "cluster/node/observer.h"

#include <algorithm>
#include <thread>
#include <tuple>

#include "base/error.h"
#include "base/format.h"
#include "base/table.h"
#include "cluster/net/tcp_mesh.h"
#include "cluster/node/launch.h"
#include "cluster/node/registry_keys.h"
#include "cluster/wire/codec.h"

namespace cheetah::cluster {
namespace {

constexpr size_t kMaxRefusals = 16;                     // for a person to read
constexpr Duration kSilence = std::chrono::seconds(3);  // of one that sends its load all the time

bool is_silent(const SeenWorker& worker) {
  return worker.load_at != Time{} && std::chrono::steady_clock::now() - worker.heard_at > kSilence;
}

constexpr auto kServiceCheck = std::chrono::milliseconds(200);

}  // namespace

Observer::Observer(const ClusterUrl& url, const Credentials& credentials)
    : has_queue_(!url.nats.empty()), services_(connect_services(url)) {
  TcpMeshConfig config;
  config.self = random_worker_id(credentials.identity.get());
  config.credentials = credentials;
  mesh_ = make_tcp_mesh(config);
  MeshEvents events;
  events.on_up = [this, mesh = mesh_.get()](WorkerId peer) {  // which calls no more once it is gone
    seen_.with([&](Seen& seen) {
      seen[peer].linked = true;
      seen[peer].cordon = Cordon::kNone;  // until it says otherwise
    });
    // A supervisor outlives its nodes: those that start again all at once hear of their orders from it.
    if (const OrderBook book = orders_.copy(); !book.empty()) mesh->send(peer, encode(Orders{book.all()}));
    changed();
  };
  events.on_down = [this](WorkerId peer, const std::string&) {
    seen_.with([&](Seen& seen) {
      seen[peer].linked = false;
      if (seen[peer].descriptor.role == Role::kRouter) seen[peer].heard_at = std::chrono::steady_clock::now();
    });
  };
  events.on_message = [this](WorkerId peer, std::string&& bytes) {
    on_message(peer, bytes);
    changed();
  };
  events.on_refused = [this](const std::string& address, const std::string& why) {
    refusals_.with([&](std::vector<std::string>& all) {
      if (all.size() < kMaxRefusals) all.push_back(format("{}: {}", address, why));
    });
  };
  mesh_->start(std::move(events));
  services_.registry->watch("", [this](const RegistryEvent& event) {
    on_registry(event);
    changed();
  });
}

Observer::~Observer() {
  services_ = {};
  mesh_.reset();
}

void Observer::on_registry(const RegistryEvent& event) {
  const RegistryEntry& entry = event.entry;
  if (event.kind == RegistryEvent::Kind::kSynced) {
    synced_ = true;
    return;
  }
  if (const auto address = peer_address(entry.key)) {
    const bool put = event.kind == RegistryEvent::Kind::kPut;
    addresses_.with([&](auto& all) {
      if (put)
        all[entry.key] = entry.value;
      else
        all.erase(entry.key);
    });
    if (put) mesh_->connect_to(address->host, address->port);
    return;
  }
  const auto id = worker_in_key(entry.key);
  if (!id) return;
  if (event.kind == RegistryEvent::Kind::kRemove) {
    mesh_->disconnect(*id);
    seen_.with([&](Seen& seen) { seen.erase(*id); });
    return;
  }
  try {
    const WorkerDescriptor worker = decode_descriptor(entry.value);
    seen_.with([&](Seen& seen) {
      SeenWorker& known = seen[worker.id];
      if (!known.introduced) known.descriptor = worker;  // its own word wins over the registry
    });
    mesh_->connect(worker.id, worker.host, worker.port);
  } catch (const Error&) {  // of another release: it is not shown
  }
}

void Observer::on_message(WorkerId from, std::string_view bytes) {
  try {
    const auto known = decode_known(bytes);
    if (!known) return;
    const Message& message = *known;
    if (const auto* said = std::get_if<Orders>(&message))
      return orders_.with([&](OrderBook& book) { book.merge(said->orders); });
    seen_.with([&](Seen& all) {
      SeenWorker& seen = all[from];
      seen.heard_at = std::chrono::steady_clock::now();
      if (const auto* hello = std::get_if<Hello>(&message)) {
        seen.descriptor = hello->descriptor;
        seen.introduced = true;
        std::erase_if(all, [&](const auto& other) {  // an earlier life of the same process
          const WorkerDescriptor& was = other.second.descriptor;
          return other.first != from && !other.second.linked && was.port == seen.descriptor.port &&
                 was.host == seen.descriptor.host;
        });
      }
      if (const auto* news = std::get_if<CordonNews>(&message)) seen.cordon = news->cordon;
      const auto* beat = std::get_if<Heartbeat>(&message);
      if (beat == nullptr) return;
      seen.load = beat->load;
      seen.load_at = std::chrono::steady_clock::now();
      seen.descriptor.role = beat->role;
      seen.descriptor.state = beat->state;
      seen.descriptor.epoch = beat->epoch;
    });
  } catch (const Error&) {  // not for us to judge
  }
}

std::vector<SeenWorker> Observer::workers() const {
  std::vector<SeenWorker> workers;
  for (const auto& [id, worker] : seen_.copy()) {
    if (worker.descriptor.id != id) continue;
    workers.push_back(worker);
    if (worker.linked && worker.descriptor.role == Role::kRouter)
      workers.back().heard_at = std::chrono::steady_clock::now();
  }
  for (const auto& [key, value] : addresses_.copy()) {
    const PeerAddress address = *peer_address(key);
    const auto has_it = [&](const SeenWorker& worker) {
      return worker.descriptor.host == address.host && worker.descriptor.port == address.port;
    };
    if (std::ranges::any_of(workers, has_it)) continue;
    SeenWorker missing;
    const size_t space = std::min(value.find(' '), value.size());
    missing.descriptor.role = role_from_name(value.substr(0, space));
    missing.descriptor.name = value.substr(std::min(space + 1, value.size()));
    missing.descriptor.host = address.host;
    missing.descriptor.port = address.port;
    workers.push_back(std::move(missing));
  }
  std::ranges::sort(workers, {}, [](const SeenWorker& worker) {
    return std::tuple(worker.descriptor.role, worker.descriptor.name, worker.descriptor.id);
  });
  return workers;
}

// A service that has not answered yet is not down: it is waited for as a worker is.
bool Observer::all_heard() const {
  if (!synced_ || !registry().up || (has_queue_ && !queue().up)) return false;
  return std::ranges::all_of(workers(), [](const SeenWorker& worker) {
    return worker.linked && (worker.load_at != Time{} || worker.descriptor.role == Role::kRouter);
  });
}

bool healthy(const std::vector<SeenWorker>& workers) {
  const auto decodes = [](const SeenWorker& worker) {
    const WorkerDescriptor& d = worker.descriptor;
    return d.state == WorkerState::kReady && (d.role == Role::kDecode || d.role == Role::kBoth);
  };
  const auto answers = [](const SeenWorker& worker) { return worker.linked && !is_silent(worker); };
  return std::ranges::all_of(workers, answers) && std::ranges::any_of(workers, decodes);
}

void Observer::changed() {
  if (waits_) changes_.post({});
}

void Observer::wait(std::chrono::milliseconds limit) const {
  const Time until = std::chrono::steady_clock::now() + limit;
  std::vector<Change> seen;
  waits_ = true;
  while (!all_heard() && std::chrono::steady_clock::now() < until) {
    // A service that comes up tells no watcher; it is asked now and then.
    changes_.wait_until(std::min(until, std::chrono::steady_clock::now() + kServiceCheck));
    changes_.take_all(seen);
  }
  waits_ = false;
}

void knock_at_silent(std::vector<SeenWorker>& workers, std::chrono::milliseconds limit) {
  for (SeenWorker& worker : workers)
    if (!worker.linked) worker.knock = knock(worker.descriptor.host, worker.descriptor.port, limit);
}

std::string_view standing_of(const SeenWorker& worker) {
  if (!worker.linked)
    return worker.knock == Knock::kRefused    ? "dead"
           : worker.knock == Knock::kAccepted ? "hung"
                                              : "unreachable";
  if (is_silent(worker)) return "hung";
  return standing_of(worker.cordon, worker.descriptor.state);
}

std::string workers_table(const std::vector<SeenWorker>& workers) {
  Table table({"worker", "role", "model", "state", "address", "running", "waiting", "prefill tokens",
      "pages free", "step", "prompt token", "pages sent at"});
  for (const SeenWorker& worker : workers) {
    const WorkerDescriptor& d = worker.descriptor;
    const WorkerLoad& l = worker.load;
    const bool known = worker.load_at != Time{};
    const auto shown = [&](const std::string& text) { return known ? text : std::string("–"); };
    const std::string state(standing_of(worker));
    table.add({d.name, std::string(name_of(d.role)), d.model_name.empty() ? "–" : d.model_name, state,
        format("{}:{}", d.host, d.port), shown(format("{}", l.running)), shown(format("{}", l.waiting)),
        shown(format("{}", l.prefill_tokens)), shown(format("{}/{}", l.pages_free, l.pages_total)),
        shown(format("{:.1f} ms", l.decode_step_us / 1e3)),
        shown(format("{:.0f} us", l.prefill_us_per_token)),
        l.transfer_bytes_per_s > 0 ? format("{:.2f} GB/s", l.transfer_bytes_per_s / 1e9) : "–"});
  }
  return table.render();
}

Json workers_json(const std::vector<SeenWorker>& workers) {
  Json list = Json::array();
  for (const SeenWorker& worker : workers) {
    const WorkerDescriptor& d = worker.descriptor;
    const WorkerLoad& l = worker.load;
    Json item = {{"id", format("{:016x}", static_cast<uint64_t>(d.id))}, {"name", d.name},
        {"role", name_of(d.role)}, {"state", name_of(d.state)}, {"standing", standing_of(worker)},
        {"model", d.model_name}, {"epoch", d.epoch}, {"host", d.host}, {"port", d.port},
        {"linked", worker.linked}, {"max_sequences", d.max_sequences}, {"max_context", d.max_context}};
    if (worker.load_at != Time{})
      item["load"] = {{"running", l.running}, {"waiting", l.waiting}, {"prefill_tokens", l.prefill_tokens},
          {"decode_tokens", l.decode_tokens}, {"pages_total", l.pages_total}, {"pages_free", l.pages_free},
          {"prefill_us_per_token", l.prefill_us_per_token}, {"decode_step_us", l.decode_step_us},
          {"transfer_bytes_per_s", l.transfer_bytes_per_s}};
    list.push_back(std::move(item));
  }
  return list;
}

}  // namespace cheetah::cluster
