#include "cluster/core/simulation/sim_node.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "cluster/core/simulation/sim_cluster.h"
#include "cluster/policy/policy_routing.h"

namespace cheetah::cluster::simulation {
namespace {

// Times short enough that a run of some seconds sees every one of them end.
WorkerConfig worker_config(WorkerId id, const NodeSpec& spec) {
  WorkerConfig config;
  config.descriptor.id = id;
  config.descriptor.name = spec.name;
  config.descriptor.role = spec.role;
  config.descriptor.state = WorkerState::kReady;
  config.descriptor.kv.page_tokens = kPageTokens;
  config.descriptor.max_sequences = 32;
  config.descriptor.max_context = 4096;
  config.slab_tokens = 2 * kPageTokens;
  config.min_remote_tokens = 2 * kPageTokens;
  config.max_reservations = 6;
  config.space_wait = milliseconds(60);
  config.claim_wait = milliseconds(500);
  config.stall_limit = milliseconds(600);
  config.news_every = milliseconds(200);
  config.progress_limit = milliseconds(2000);
  config.claim_answer_wait = milliseconds(300);
  config.extend_every = milliseconds(1000);
  config.fence_after = milliseconds(200);
  config.remember = milliseconds(30000);
  config.breaker_open = milliseconds(700);
  config.drain_limit = milliseconds(400);
  config.min_dwell = milliseconds(800);
  return config;
}

std::unique_ptr<Routing> make_routing(bool policies) {
  if (!policies) return std::make_unique<LeastLoaded>(12);
  PolicyConfig config;
  config.routing.offload_policy = OffloadPolicy::kThreshold;
  config.routing.threshold.prefill_length = 12;
  config.routing.threshold.moderate_length = 8;
  config.qos.prefill_breaker.open_ms = config.qos.decode_breaker.open_ms = 500;
  config.qos.prefill_breaker.max_open_ms = config.qos.decode_breaker.max_open_ms = 1000;
  return std::make_unique<PolicyRouting>(config);
}

RouterConfig router_config(WorkerId id, bool prefer_self) {
  RouterConfig config;
  config.self = id;
  config.prefer_self = prefer_self;
  config.heartbeat_limit = milliseconds(1200);
  config.hold_off = milliseconds(800);
  config.probe_after = milliseconds(400);
  config.no_worker_wait = milliseconds(1500);
  config.resume_wait = milliseconds(4000);
  config.deadline_grace = milliseconds(300);
  config.default_time_limit = milliseconds(20000);
  return config;
}

}  // namespace

SimNode::SimNode(SimCluster& cluster, WorkerId id, const NodeSpec& spec, Duration clock_offset)
    : cluster_(cluster),
      world_(cluster.world()),
      id_(id),
      spec_(spec),
      clock_offset_(clock_offset),
      routing_(make_routing(cluster.uses_policies())) {
  const auto later = [this](Duration delay, std::function<void()> what) {
    cluster_.on(id_, delay, std::move(what));
  };
  const auto tell_worker = [this](WorkerInput input) {
    auto shared = std::make_shared<WorkerInput>(std::move(input));
    cluster_.on(id_, Duration{}, [this, shared] { tell(std::move(*shared)); });
  };
  EngineTimes times;
  times.failure = cluster.rates().engine;
  engine_ = std::make_unique<OracleEngine>(world_, times, later, tell_worker, [this] { return clock(); });
  if (spec.worker) {
    worker_ = std::make_unique<WorkerCore>(worker_config(id, spec));
    worker_->plant(cluster.planted().worker);
    if (cluster.queue().up()) tell(WorkerInput(QueueUp{}));
    cluster_.on(id_, world_.between(0, 300), [this] { beat(); });
  }
  if (spec.router) {
    router_ = std::make_unique<RouterCore>(router_config(id, spec.worker), *routing_);
    router_->plant(cluster.planted().router);
    if (spec.worker) tell(RouterInput(PeerUp{id}));
    if (spec.worker) tell(RouterInput(PeerMessage{id, Hello{worker_->descriptor()}}));
  }
}

Time SimNode::clock() const { return world_.now() + clock_offset_; }

void SimNode::beat() {
  tell(WorkerInput(LoadMeasured{engine_->load()}));
  if (router_) {
    const WorkerDescriptor& self = worker_->descriptor();
    tell(RouterInput(PeerMessage{
        id_,
        Heartbeat{.role = self.role, .state = self.state, .epoch = self.epoch, .load = engine_->load()}}));
  }
  cluster_.on(id_, milliseconds(300), [this] { beat(); });
}

void SimNode::tell(WorkerInput input) {
  if (dead_) return;
  std::vector<WorkerOutput> outputs;
  worker_->handle(std::move(input), clock(), outputs);
  if (!cluster_.planted().any) worker_->check_invariants();
  for (WorkerOutput& output : outputs) {
    cluster_.may_crash(*this);
    if (dead_) return;
    std::visit([&](auto& what) { execute(what); }, output);
  }
  if (dead_) return;
  arm();
  if (!cluster_.queue().empty_of_waiting() && jobs_wanted() > 0) cluster_.queue().pump();
}

void SimNode::tell(RouterInput input) {
  if (dead_) return;
  std::vector<RouterOutput> outputs;
  router_->handle(std::move(input), clock(), outputs);
  if (!cluster_.planted().any) router_->check_invariants();
  for (RouterOutput& output : outputs) {
    cluster_.may_crash(*this);
    if (dead_) return;
    std::visit([&](auto& what) { execute(what); }, output);
  }
  arm();
}

void SimNode::arm() {
  Time wake = Time::max();
  if (worker_) wake = std::min(wake, worker_->next_wake());
  if (router_) wake = std::min(wake, router_->next_wake());
  if (wake >= armed_) return;
  armed_ = wake;
  cluster_.on(id_, wake - clock(), [this, wake] {
    if (armed_ != wake) return;
    armed_ = Time::max();
    if (worker_ && worker_->next_wake() <= clock()) tell(WorkerInput(Tick{}));
    if (router_ && router_->next_wake() <= clock()) tell(RouterInput(Tick{}));
    arm();
  });
}

void SimNode::run_or_keep(std::function<void()> what) {
  if (stopped_)
    kept_.push_back(std::move(what));
  else
    what();
}

void SimNode::go_on() {
  stopped_ = false;
  std::vector<std::function<void()>> kept = std::exchange(kept_, {});
  for (auto& what : kept) {
    if (dead_) return;
    what();
  }
}

void SimNode::tell_both(const PeerUp& input) {
  if (worker_) tell(WorkerInput(input));
  if (router_) tell(RouterInput(input));
}
void SimNode::tell_both(const PeerDown& input) {
  if (worker_) tell(WorkerInput(input));
  if (router_) tell(RouterInput(input));
}
void SimNode::registry_says(const RegistryPut& input) {
  if (worker_) tell(WorkerInput(input));
  if (router_) tell(RouterInput(input));
}
void SimNode::registry_says(const RegistryGone& input) {
  if (worker_) tell(WorkerInput(input));
  if (router_) tell(RouterInput(input));
}

void SimNode::receive(WorkerId from, Message message) {
  const Audience who = audience(message);
  if (who != Audience::kWorker && router_) tell(RouterInput(PeerMessage{from, message}));
  if (who != Audience::kRouter && worker_) tell(WorkerInput(PeerMessage{from, std::move(message)}));
}

void SimNode::job_comes(DeliveryId delivery, const PrefillJob& job) {
  --jobs_coming_;
  tell(WorkerInput(JobDelivered{delivery, job}));
}

void SimNode::execute(const SendMessage& output) { cluster_.send(id_, output.to, output.message); }
void SimNode::execute(const Count& output) { cluster_.count(output.counter); }
void SimNode::execute(const LogDecision& output) {
  if (!world_.logs()) return;
  world_.log(format("{} decides {:016x}.{}: {} ({})", spec_.name, static_cast<uint64_t>(output.key.uid),
                    static_cast<uint32_t>(output.key.attempt), output.what, output.why));
}
void SimNode::execute(Emit& output) { cluster_.emit(id_, output); }
void SimNode::execute(const EngineSubmit& output) {
  engine_->submit(output);
  cluster_.request_submitted(*this, output);
}
void SimNode::execute(const LookUpCache& output) {
  const int64_t cached = engine_->cached_tokens(output.tokens, output.salt);
  cluster_.on(id_, world_.between(0, 2), [this, key = output.key, cached] {
    tell(WorkerInput(CacheLooked{key, cached}));
  });
}

void SimNode::execute(const ReserveSpace& output) {
  SpaceReserved answer{.key = output.key};
  const int64_t pages = (output.end_token - output.first_token) / kPageTokens;
  int64_t used = 0;
  for (const auto& [id, memory] : memory_) used += static_cast<int64_t>(memory.pages.size());
  if (used + pages <= spec_.receive_pages) {
    answer.reservation = ReservationId{next_reservation_++};
    memory_[*answer.reservation] = {.first_token = output.first_token,
                                    .pages = std::vector<uint64_t>(static_cast<size_t>(pages), 0xdead)};
  }
  cluster_.on(id_, world_.between(0, 2), [this, answer] { tell(WorkerInput(answer)); });
}

void SimNode::execute(const ImportSlab& output) {
  cluster_.on(id_, world_.between(0.2, 2), [this, output] { finish_import(output); });
}

void SimNode::finish_import(const ImportSlab& output) {
  SlabImported answer{.key = output.key, .reservation = output.reservation, .index = output.slab.index};
  const auto memory = memory_.find(output.reservation);
  if (memory == memory_.end()) return world_.violate("pages are read from memory that was given back");
  const int64_t first = (output.slab.first_token - memory->second.first_token) / kPageTokens;
  const auto count = static_cast<size_t>(output.slab.num_tokens / kPageTokens);
  const std::span<const uint64_t> pages(memory->second.pages.data() + first, count);
  const std::vector<uint64_t> names = page_names(output.tokens, output.salt);
  const std::span<const uint64_t> slab_names(names.data() + output.slab.first_token / kPageTokens, count);
  if (checksum(pages) != output.slab.checksum)
    answer.why = "the checksum is wrong";
  else if (engine_->import_pages(output.key, slab_names, pages))
    answer.imported = true;
  else
    answer.why = "the cache is full";
  tell(WorkerInput(std::move(answer)));
}

void SimNode::execute(const Quarantine& output) {
  const auto memory = memory_.find(output.reservation);
  if (memory == memory_.end()) return world_.violate("memory that was given back goes into quarantine");
  memory->second.quarantined = true;
}

void SimNode::execute(const FenceReservation& output) {
  cluster_.on(id_, world_.between(1, 30), [this, id = output.reservation] {
    fenced_.insert(id);
    tell(WorkerInput(ReservationFenced{id}));
  });
}

void SimNode::execute(const FreeReservation& output) {
  if (memory_.erase(output.reservation) == 0) world_.violate("memory is given back twice");
}

SimNode::Landing SimNode::land(WorkerId, ReservationId id, int64_t first_token, std::vector<uint64_t> pages) {
  if (fenced_.count(id) > 0) return Landing::kRefused;
  const auto memory = memory_.find(id);
  if (memory == memory_.end()) {
    world_.violate("pages are written to memory that was given back");
    return Landing::kRefused;
  }
  const int64_t first = (first_token - memory->second.first_token) / kPageTokens;
  std::copy(pages.begin(), pages.end(), memory->second.pages.begin() + first);
  return Landing::kLanded;
}

void SimNode::execute(const PushJob& output) { cluster_.queue().push(output.job); }
void SimNode::execute(const AckJob& output) { cluster_.queue().ack(output.delivery); }
void SimNode::execute(const NackJob& output) { cluster_.queue().nack(output.delivery); }
void SimNode::execute(const ExtendJob& output) { cluster_.queue().extend(output.delivery); }
void SimNode::execute(const StartExport& output) {
  export_names_[output.key] = page_names(output.tokens, output.salt);
  engine_->start_export(output);
}
void SimNode::execute(const ReleaseExport& output) {
  engine_->release_export(output.key);
  export_names_.erase(output.key);
}

void SimNode::execute(const PostSlab& output) {
  const uint64_t number = next_write_++;
  writes_[number] = {output.key, output};
  const bool stalled = cluster_.fault(cluster_.rates().stall, "a transfer stalls");
  const bool damaged = cluster_.fault(cluster_.rates().damage, "a page is damaged on its way");
  const std::vector<uint64_t>& names = export_names_.at(output.key);
  std::vector<uint64_t> pages;
  for (int64_t i = 0; i < output.num_tokens / kPageTokens; ++i)
    pages.push_back(page_bytes(names[static_cast<size_t>(output.first_token / kPageTokens + i)]));
  const uint64_t sum = checksum(pages);
  if (damaged) pages[static_cast<size_t>(world_.below(static_cast<int64_t>(pages.size())))] ^= 1;
  // Neither this process's death nor its standing still stops what is on the wire already.
  const Duration delay = stalled ? world_.between(800, 4000) : world_.between(0.5, 6);
  world_.after(delay, [this, id = id_, number, output, pages, sum, &cluster = cluster_] {
    const auto died = cluster.death_of(id);
    if (died && cluster.world().now() - *died > milliseconds(40)) return;
    if (writes_.count(number) == 0) return;  // fenced
    SimNode* receiver = cluster.find(output.to);
    const bool landed = receiver != nullptr &&
                        receiver->land(id, output.reservation, output.first_token, pages) == Landing::kLanded;
    writes_.erase(number);
    SlabSent answer{.key = output.key,
                    .index = output.index,
                    .sent = landed,
                    .checksum = sum,
                    .why = landed ? "" : "it was refused"};
    cluster.on(id, Duration{}, [this, answer] { tell(WorkerInput(answer)); });
  });
}

void SimNode::execute(const FenceWrites& output) {
  cluster_.on(id_, world_.between(1, 15), [this, key = output.key] {
    std::vector<uint32_t> ended;
    for (auto write = writes_.begin(); write != writes_.end();) {
      if (write->second.key == key) ended.push_back(write->second.slab.index);
      write = write->second.key == key ? writes_.erase(write) : std::next(write);
    }
    for (const uint32_t index : ended)
      tell(WorkerInput(SlabSent{.key = key, .index = index, .sent = false, .why = "it was cancelled"}));
    tell(WorkerInput(WritesFenced{key}));
  });
}

void SimNode::execute(const Announce& output) { cluster_.announce(output.descriptor); }
void SimNode::execute(const WarmUp&) {
  cluster_.on(id_, world_.between(5, 60), [this] { tell(WorkerInput(WarmedUp{})); });
}

std::string SimNode::what_is_left() const {
  std::string left;
  if (worker_) {
    const WorkerCore::Books books = worker_->books();
    if (books.requests + books.jobs + books.reservations > 0)
      left += format("{} requests, {} jobs, {} reservations in the worker's books; ", books.requests,
                     books.jobs, books.reservations);
  }
  if (router_ && router_->num_requests() > 0)
    left += format("{} requests at the router; ", router_->num_requests());
  if (engine_->num_running() > 0) left += format("{} requests in the engine; ", engine_->num_running());
  if (engine_->num_pins() > 0) left += format("{} pins; ", engine_->num_pins());
  if (engine_->num_exports() > 0) left += format("{} exports; ", engine_->num_exports());
  if (!memory_.empty()) left += format("{} stretches of receive memory; ", memory_.size());
  if (!writes_.empty()) left += format("{} writes; ", writes_.size());
  if (left.empty()) return left;
  return left + "\n" + (worker_ ? worker_->describe() : "") + (router_ ? router_->describe() : "");
}

}  // namespace cheetah::cluster::simulation
