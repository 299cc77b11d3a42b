// SPDX-License-Identifier: MIT
#include "testing/cluster/sim_pages.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "base/format.h"
#include "testing/cluster/oracle.h"
#include "testing/cluster/sim_cluster.h"

namespace cheetah::cluster::simulation {

SimPages::SimPages(SimCluster& cluster, SimNode& node)
    : cluster_(cluster), simulation_(cluster.simulation()), node_(node) {}

void SimPages::execute(const LookUpCache& output) {
  const int64_t cached = node_.engine().cached_tokens(output.tokens, output.salt);
  cluster_.on(node_.id(), simulation_.between(0, 2), [this, key = output.key, cached] {
    node_.tell(WorkerInput(CacheLooked{key, cached}));
  });
}

void SimPages::execute(const ReserveSpace& output) {
  SpaceReserved answer{.key = output.key};
  const int64_t pages = (output.end_token - output.first_token) / kPageTokens;
  int64_t used = 0;
  for (const auto& [id, memory] : memory_) used += static_cast<int64_t>(memory.pages.size());
  if (used + pages <= node_.spec().receive_pages) {
    answer.reservation = ReservationId{next_reservation_++};
    memory_[*answer.reservation] = {.first_token = output.first_token,
        .pages = std::vector<uint64_t>(static_cast<size_t>(pages), 0xdead)};
  }
  cluster_.on(node_.id(), simulation_.between(0, 2), [this, answer] { node_.tell(WorkerInput(answer)); });
}

void SimPages::execute(const ImportSlab& output) {
  cluster_.on(node_.id(), simulation_.between(0.2, 2), [this, output] { finish_import(output); });
}

void SimPages::finish_import(const ImportSlab& output) {
  SlabImported answer{.key = output.key, .reservation = output.reservation, .index = output.slab.index};
  const auto memory = memory_.find(output.reservation);
  if (memory == memory_.end()) return simulation_.violate("pages are read from memory that was given back");
  const int64_t first = (output.slab.first_token - memory->second.first_token) / kPageTokens;
  const auto count = static_cast<size_t>(output.slab.num_tokens / kPageTokens);
  const std::span<const uint64_t> pages(memory->second.pages.data() + first, count);
  const std::vector<uint64_t> names = page_names(output.tokens, output.salt);
  const std::span<const uint64_t> slab_names(names.data() + output.slab.first_token / kPageTokens, count);
  if (checksum(pages) != output.slab.checksum)
    answer.why = "the checksum is wrong";
  else if (node_.engine().import_pages(output.key, slab_names, pages))
    answer.imported = true;
  else
    answer.why = "the cache is full";
  node_.tell(WorkerInput(std::move(answer)));
}

void SimPages::execute(const Quarantine& output) {
  const auto memory = memory_.find(output.reservation);
  if (memory == memory_.end()) return simulation_.violate("memory that was given back goes into quarantine");
  memory->second.quarantined = true;
}

void SimPages::execute(const FenceReservation& output) {
  cluster_.on(node_.id(), simulation_.between(1, 30), [this, id = output.reservation] {
    fenced_.insert(id);
    node_.tell(WorkerInput(ReservationFenced{id}));
  });
}

void SimPages::execute(const FreeReservation& output) {
  if (memory_.erase(output.reservation) == 0) simulation_.violate("memory is given back twice");
}

SimPages::Landing SimPages::land(
    WorkerId, ReservationId id, int64_t first_token, std::vector<uint64_t> pages) {
  if (fenced_.count(id) > 0) return Landing::kRefused;
  const auto memory = memory_.find(id);
  if (memory == memory_.end()) {
    simulation_.violate("pages are written to memory that was given back");
    return Landing::kRefused;
  }
  const int64_t first = (first_token - memory->second.first_token) / kPageTokens;
  std::copy(pages.begin(), pages.end(), memory->second.pages.begin() + first);
  return Landing::kLanded;
}

void SimPages::execute(const StartExport& output) {
  export_names_[output.key] = page_names(output.tokens, output.salt);
  node_.engine().start_export(output);
}
void SimPages::execute(const ReleaseExport& output) {
  node_.engine().release_export(output.key);
  export_names_.erase(output.key);
}

void SimPages::execute(const PostSlab& output) {
  const uint64_t number = next_write_++;
  writes_[number] = {output.key, output};
  const bool stalled = cluster_.fault(cluster_.rates().stall, "a transfer stalls");
  const bool damaged = cluster_.fault(cluster_.rates().damage, "a page is damaged on its way");
  const std::vector<uint64_t>& names = export_names_.at(output.key);
  std::vector<uint64_t> pages;
  for (int64_t i = 0; i < output.num_tokens / kPageTokens; ++i)
    pages.push_back(page_bytes(names[static_cast<size_t>(output.first_token / kPageTokens + i)]));
  const uint64_t sum = checksum(pages);
  if (damaged) pages[static_cast<size_t>(simulation_.below(static_cast<int64_t>(pages.size())))] ^= 1;
  // Neither this process's death nor its standing still stops what is on the wire already.
  const Duration delay = stalled ? simulation_.between(800, 4000) : simulation_.between(0.5, 6);
  simulation_.after(delay, [this, id = node_.id(), number, output, pages, sum, &cluster = cluster_] {
    const auto died = cluster.death_of(id);
    if (died && cluster.simulation().now() - *died > milliseconds(40)) return;
    if (writes_.count(number) == 0) return;  // fenced
    SimNode* receiver = cluster.find(output.to);
    const bool landed = receiver != nullptr && receiver->pages().land(id, output.reservation,
                                                   output.first_token, pages) == Landing::kLanded;
    writes_.erase(number);
    SlabSent answer{.key = output.key,
        .index = output.index,
        .sent = landed,
        .checksum = sum,
        .why = landed ? "" : "it was refused"};
    cluster.on(id, Duration{}, [this, answer] { node_.tell(WorkerInput(answer)); });
  });
}

void SimPages::execute(const FenceWrites& output) {
  cluster_.on(node_.id(), simulation_.between(1, 15), [this, key = output.key] {
    std::vector<uint32_t> ended;
    for (auto write = writes_.begin(); write != writes_.end();) {
      if (write->second.key == key) ended.push_back(write->second.slab.index);
      write = write->second.key == key ? writes_.erase(write) : std::next(write);
    }
    for (const uint32_t index : ended)
      node_.tell(WorkerInput(SlabSent{.key = key, .index = index, .sent = false, .why = "it was cancelled"}));
    node_.tell(WorkerInput(WritesFenced{key}));
  });
}

std::string SimPages::what_is_left() const {
  std::string left;
  if (!memory_.empty()) left += format("{} stretches of receive memory; ", memory_.size());
  if (!writes_.empty()) left += format("{} writes; ", writes_.size());
  return left;
}

}  // namespace cheetah::cluster::simulation
