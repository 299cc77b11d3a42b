// SPDX-License-Identifier: MIT
// NET: RDMA ports. Rails are judged; storage and management cards have cables and speeds of their own.
#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"
#include "doctor/check.h"

namespace cheetah::doctor {
namespace {

constexpr double kMostLossPerSecond = 100;
constexpr double kMostPausesPerSecond = 10'000;

std::string name_of(const RdmaPort& port) { return port.device + "/" + port.port; }

std::vector<const RdmaPort*> rails(const Facts& facts) {
  std::vector<const RdmaPort*> found;
  if (facts.network.rdma)
    for (const RdmaPort& port : *facts.network.rdma)
      if (facts.machine.is_rail(port)) found.push_back(&port);
  return found;
}

// Counters since boot grow with age: what is allowed is a start and a little a day.
double allowed(const Facts& facts, double at_once, double a_day) {
  return at_once + a_day * facts.host.uptime_s / 86400;
}

// A second port without a cable is how most cards are wired: not a fault when its twins are down as well.
bool is_spare(const std::vector<const RdmaPort*>& ports, const RdmaPort& port) {
  const auto function = [](const RdmaPort& one) {
    return one.pci.substr(std::min(one.pci.size(), one.pci.find('.'))) + "/" + one.port;
  };
  const bool has_twin = std::any_of(ports.begin(), ports.end(), [&](const RdmaPort* other) {
    return slot_of(other->pci) == slot_of(port.pci) && function(*other) != function(port) &&
           is_active(*other);
  });
  const bool same_is_used = std::any_of(ports.begin(), ports.end(),
      [&](const RdmaPort* other) { return function(*other) == function(port) && is_active(*other); });
  return has_twin && !same_is_used;
}

Outcome rdma_ports_are_active(const Facts& facts) {
  if (!facts.network.has_rdma()) return without(facts.network.rdma);
  const auto ports = rails(facts);
  std::vector<Subject> down;
  int told = 0;
  for (const RdmaPort* port : ports) {
    if (!port->state || is_spare(ports, *port)) continue;
    ++told;
    if (!is_active(*port))
      down.push_back({name_of(*port), *port->state + ", " + port->physical_state.value_or("?")});
  }
  if (told == 0) return unknown("no RDMA port tells its state");
  const bool none_is_used = down.size() == static_cast<size_t>(told);
  if (none_is_used && !facts.intent.multi_node && !facts.machine.has_near_rails)
    return note("no RDMA port is in use; one machine needs none");
  const double share = static_cast<double>(down.size()) / told;
  Outcome outcome =
      bad_if_any(std::move(down), "RDMA ports are not in use", format("{} RDMA ports are active", told));
  outcome.evidence.push_back({facts.network.rdma.source(), format("{} ports", told)});
  return outcome.verdict == Verdict::kBad ? with_risk(std::move(outcome), 0.9 * share) : outcome;
}

Outcome rdma_rates_are_equal(const Facts& facts) {
  if (!facts.network.has_rdma()) return without(facts.network.rdma);
  const auto ports = rails(facts);
  double best = 0, least = 0;
  for (const RdmaPort* port : ports)
    if (is_active(*port)) best = std::max(best, gigabits(*port));
  least = best;
  std::vector<Subject> slow;
  for (const RdmaPort* port : ports) {
    if (!is_active(*port) || !port->rate || gigabits(*port) >= best) continue;
    least = std::min(least, gigabits(*port));
    slow.push_back({name_of(*port), *port->rate});
  }
  if (ports.size() < 2) return not_applicable("there are no two rails");
  if (best == 0) return unknown("no rail tells its rate");
  Outcome outcome =
      bad_if_any(std::move(slow), format("RDMA ports are slower than the other rails ({:.0f} Gb/s)", best),
          format("{} rails at {:.0f} Gb/s", ports.size(), best));
  return outcome.verdict == Verdict::kBad ? with_risk(std::move(outcome), 0.3 * (1 - least / best)) : outcome;
}

struct ErrorCounter {
  const char* name;
  double at_once, a_day;  // what a healthy link may have counted
};
constexpr ErrorCounter kErrors[] = {{"link_downed", 8, 0.1}, {"link_error_recovery", 20, 1},
    {"symbol_error", 100, 50}, {"port_rcv_errors", 100, 20}};

Outcome rdma_counts_no_errors(const Facts& facts) {
  if (!facts.network.has_rdma()) return without(facts.network.rdma);
  std::vector<Subject> noisy;
  int told = 0;
  for (const RdmaPort& port : *facts.network.rdma) {
    if (!is_active(port)) continue;
    for (const ErrorCounter& error : kErrors) {
      const std::string counter = format("rdma.{}.{}", port.device, error.name);
      const auto total = facts.counters.total(counter);
      if (!total) continue;
      ++told;
      const double change = facts.counters.delta(counter).value_or(0);
      if (change > 0)
        noisy.push_back({port.device, format("{} +{:.0f}", error.name, change)});
      else if (*total > allowed(facts, error.at_once, error.a_day))
        noisy.push_back({port.device, format("{} {:.0f} since boot", error.name, *total)});
    }
  }
  if (told == 0) return not_applicable("the ports keep no error counters");
  return bad_if_any(std::move(noisy), "RDMA links have errors", "RDMA links are clean");
}

// Adaptive routing delivers out of order by design: only repeats and refusals count as loss since boot.
Outcome rdma_is_not_congested(const Facts& facts) {
  if (!facts.network.has_rdma()) return without(facts.network.rdma);
  std::vector<Subject> busy;
  int told = 0;
  for (const RdmaPort& port : *facts.network.rdma) {
    for (const char* name : {"out_of_sequence", "local_ack_timeout_err", "rnr_nak_retry_err",
             "packet_seq_err", "roce_adp_retrans", "roce_slow_restart"}) {
      const std::string counter = format("rdma.{}.{}", port.device, name);
      const auto total = facts.counters.total(counter);
      if (!total) continue;
      ++told;
      const auto rate = facts.counters.per_second(counter);
      if (rate.value_or(0) > kMostLossPerSecond) {
        busy.push_back({port.device, format("{} {:.0f}/s", name, *rate)});
      } else if (std::string_view(name) != "out_of_sequence" && *total > allowed(facts, 20'000, 2'000)) {
        busy.push_back({port.device, format("{} {:.0f} since boot", name, *total)});
      }
    }
  }
  if (told == 0) return not_applicable("the adapters count no lost packets");
  return bad_if_any(std::move(busy), "RDMA packets are lost or refused", "RDMA loses no packets");
}

Outcome rdma_can_be_opened(const Facts& facts) {
  if (!facts.network.has_rdma()) return without(facts.network.rdma);
  if (!facts.gpu.device_nodes) return without(facts.gpu.device_nodes);
  int open = 0, closed = 0;
  for (const auto& [path, access] : *facts.gpu.device_nodes)
    if (starts_with(path, "dev/infiniband/uverbs")) (access == "rw" ? open : closed) += 1;
  if (open > 0 && closed == 0) return good(format("{} RDMA devices can be opened", open));
  // A container sees the host's adapters in /sys whether or not it was given one.
  if (facts.machine.is_container && !facts.intent.multi_node)
    return note("the container was given no RDMA device; one machine needs none");
  return bad(open + closed == 0 ? "no /dev/infiniband/uverbs is here: RDMA programs fall back to TCP"
                                : format("{} RDMA devices may not be opened", closed));
}

Outcome roce_has_version_2(const Facts& facts) {
  if (!facts.network.has_rdma()) return without(facts.network.rdma);
  std::vector<Subject> wrong;
  int told = 0;
  for (const RdmaPort* port : rails(facts)) {
    if (!port->is_ethernet() || !is_active(*port)) continue;
    ++told;
    const bool second = std::any_of(port->gid_types.begin(), port->gid_types.end(),
        [](const std::string& type) { return contains(type, "RoCE v2"); });
    if (!second)
      wrong.push_back({name_of(*port), port->gids.empty() ? "all addresses are zero" : "version 1 only"});
  }
  if (told == 0) return not_applicable("no rail runs on Ethernet");
  if (facts.machine.is_container && !facts.intent.multi_node && !wrong.empty())
    return note("the container's network has no address on the RoCE ports; one machine needs none");
  return bad_if_any(std::move(wrong), "RoCE ports have no usable address",
      format("{} RoCE ports have a version 2 address", told));
}

Outcome roce_is_lossless(const Facts& facts) {
  if (!facts.network.has_rdma()) return without(facts.network.rdma);
  std::vector<Subject> storms;
  int told = 0;
  const auto judge_port = [&](const std::string& name, const std::string& counter) {
    const auto pauses = facts.counters.per_second(counter);
    if (!pauses) return;
    ++told;
    if (*pauses > kMostPausesPerSecond) storms.push_back({name, format("{:.0f} pauses/s", *pauses)});
  };
  for (const RdmaPort& port : *facts.network.rdma)
    if (port.is_ethernet()) judge_port(port.device, "rdma." + port.device + ".rx_prio3_pause");
  for (const Nic& nic : facts.network.nics.value_or({}))
    for (int priority = 0; priority < 8; ++priority)
      judge_port(nic.name, format("ethtool.{}.rx_prio{}_pause", nic.name, priority));
  if (told == 0) return not_applicable("no RoCE port counts its pauses, or there is one reading");
  return bad_if_any(std::move(storms), "the fabric pauses these ports without end", "no pause storms");
}

Outcome roce_controls_congestion(const Facts& facts) {
  if (!facts.network.nics) return without(facts.network.nics);
  std::vector<Subject> off;
  int told = 0;
  for (const Nic& nic : *facts.network.nics) {
    if (!nic.ecn || nic.is_ib() || !nic.is_up() || !facts.machine.is_rail(nic)) continue;
    ++told;
    if (!*nic.ecn) off.push_back({nic.name, "off for every priority"});
  }
  if (told == 0) return not_applicable("no RoCE rail tells whether it answers congestion marks");
  return bad_if_any(std::move(off), "RoCE ports do not slow down on congestion (ECN)",
      format("{} RoCE rails answer congestion marks", told));
}

Outcome rdma_firmware_is_equal(const Facts& facts) {
  if (!facts.network.has_rdma()) return without(facts.network.rdma);
  std::map<std::string, std::map<std::string, std::vector<std::string>>> boards;
  for (const RdmaPort& port : *facts.network.rdma) {
    const PciDevice* device = facts.pci.find(port.pci);
    const std::string board = !port.board.empty() ? port.board
                              : device == nullptr ? ""
                                                  : shown(device->device);
    if (!port.firmware.empty()) boards[board][port.firmware].push_back(port.device);
  }
  std::vector<Subject> old;
  bool any_pair = false;
  for (const auto& [board, versions] : boards) {
    const auto usual = std::max_element(versions.begin(), versions.end(),
        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    any_pair = any_pair || versions.size() > 1 || usual->second.size() > 1;
    for (const auto& [version, devices] : versions)
      if (version != usual->first)
        for (const std::string& device : devices)
          old.push_back({device, version + ", others " + usual->first});
  }
  if (!any_pair) return not_applicable("there are no two adapters of one board that tell their firmware");
  return bad_if_any(std::move(old), "adapters of one board run different firmware",
      "adapters of one board run one firmware");
}

constexpr Check kChecks[] = {
    {"NET-01", Layer::kNetwork, Level::kFail, 0.20, "RDMA ports are active",
        "A port that is down leaves its rail to the others, or the job to TCP.",
        "one rail's share of the network", FixKind::kFirmware,
        "check the cable and the subnet manager of {it}", "", "O01", rdma_ports_are_active},
    {"NET-19", Layer::kNetwork, Level::kWarn, 0.15, "RDMA ports run at one rate",
        "Collectives run at the pace of the slowest rail.", "the slow rail's deficit, times all rails",
        FixKind::kFirmware, "reseat the cable of {it}; check the switch port's speed", "", "O01",
        rdma_rates_are_equal},
    {"NET-02", Layer::kNetwork, Level::kWarn, 0.10, "RDMA links are clean",
        "Symbol errors and recoveries are repeated transfers; a flapping link makes a straggler.",
        "jitter in every collective", FixKind::kFirmware,
        "clean or replace the optics of {it}; drain the node", "", "O09", rdma_counts_no_errors},
    {"NET-20", Layer::kNetwork, Level::kWarn, 0.10, "RDMA loses no packets",
        "RoCE recovers slowly from loss.", "bandwidth collapses under incast", FixKind::kAdvice,
        "check PFC and ECN on the switches of {it}", "", "O09", rdma_is_not_congested},
    {"NET-03", Layer::kNetwork, Level::kFail, 0.30, "RDMA devices can be opened",
        "A container without the device files falls back to TCP without a word.",
        "several times slower collectives", FixKind::kSetting,
        "pass /dev/infiniband into the container and add IPC_LOCK, or use the RDMA device plugin", "", "O01",
        rdma_can_be_opened},
    {"NET-21", Layer::kNetwork, Level::kFail, 0.20, "RoCE ports have a version 2 address",
        "Version 1 is not routed; a zero address means no address was set.", "no RDMA between subnets",
        FixKind::kSetting, "give the interface an address; set NCCL_IB_GID_INDEX to the version 2 entry", "",
        "O01", roce_has_version_2},
    {"NET-15", Layer::kNetwork, Level::kWarn, 0.10, "No pause storms",
        "A pause storm stops the whole fabric for one slow receiver.", "bandwidth of all neighbours",
        FixKind::kAdvice, "check ECN thresholds and the PFC watchdog of the switches", "", "O01",
        roce_is_lossless},
    {"NET-22", Layer::kNetwork, Level::kWarn, 0.02, "Adapters have one firmware",
        "Different firmware behaves differently under load.", "unexplained variance", FixKind::kFirmware,
        "bring all adapters to one firmware", "", "F13", rdma_firmware_is_equal},
    {"NET-31", Layer::kNetwork, Level::kWarn, 0.10, "RoCE rails control congestion",
        "Without ECN a RoCE sender learns of congestion by loss alone, and recovers slowly.",
        "bandwidth collapses when several ranks send to one", FixKind::kSetting,
        "turn on ECN for the priority of the job's traffic on {it} and on the switches; use PFC for it", "",
        "O01", roce_controls_congestion},
};

}  // namespace

std::span<const Check> rdma_checks() { return kChecks; }

}  // namespace cheetah::doctor
