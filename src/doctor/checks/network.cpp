// SPDX-License-Identifier: MIT
// NET: adapters, RDMA, TCP.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/format.h"
#include "base/table.h"
#include "doctor/check.h"

namespace cheetah::doctor {
namespace {

constexpr int64_t kLargeMtu = 4000;  // RDMA moves 4096 bytes a packet; 1500 is what hurts
constexpr int64_t kFastMbps = 25000;
constexpr int64_t kTcpBufferFast = int64_t{64} << 20;  // 100 Gb/s x 5 ms
constexpr int64_t kTcpBuffer = int64_t{16} << 20;      // 25 Gb/s x 5 ms
constexpr double kMostRetransmits = 1e-4;
constexpr double kMostDrops = 1e-6;
constexpr int64_t kLeastPorts = 28000;
constexpr double kGbpsPerGpu = 50;
constexpr double kRailSpread = 1.5;

// Cards of one kind in one place should agree; a management card of the same maker is another kind.
Outcome nics_are_up_to_speed(const Facts& facts) {
  if (!facts.network.nics) return without(facts.network.nics);
  using Kind = std::tuple<bool, int64_t, int64_t, int64_t, bool>;
  const auto kind_of = [&](const Nic& nic) {
    const PciDevice* device = facts.pci.find(nic.pci);
    const bool rail = facts.machine.is_rail(nic);
    return device == nullptr ? Kind{rail, 0, 0, 0, nic.is_ib()}
                             : Kind{rail, device->vendor, device->device, device->subsystem, nic.is_ib()};
  };
  std::map<Kind, int64_t> best;
  const auto is_judged = [](const Nic& nic) {
    return nic.is_up() && !nic.is_virtual && !nic.is_function && nic.speed_mbps.value_or(-1) > 0;
  };
  for (const Nic& nic : *facts.network.nics)
    if (is_judged(nic)) best[kind_of(nic)] = std::max(best[kind_of(nic)], *nic.speed_mbps);
  std::vector<Subject> slow;
  int told = 0;
  double least = 1;
  for (const Nic& nic : *facts.network.nics) {
    if (!is_judged(nic)) continue;
    ++told;
    const int64_t most = best[kind_of(nic)];
    const double share = static_cast<double>(*nic.speed_mbps) / static_cast<double>(most);
    if (nic.duplex.is("half")) {
      slow.push_back({nic.name, "half duplex"});
    } else if (share < 1 && most >= kFastMbps) {
      slow.push_back({nic.name, format("{} of {} Mb/s", *nic.speed_mbps, most)});
      least = std::min(least, share);
    }
  }
  if (told == 0) return not_applicable("no physical adapter tells its speed");
  Outcome outcome =
      bad_if_any(std::move(slow), "adapters run below their speed", "adapters run at full speed");
  return outcome.verdict == Verdict::kBad && least < 1 ? with_risk(std::move(outcome), 0.3 * (1 - least))
                                                       : outcome;
}

// The largest frame depends on whose network it is: IPoIB has its own limits, a cloud sets them for its guests.
int64_t least_mtu(const Facts& facts, const Nic& nic) {
  if (nic.is_ib()) return 2044;
  if (facts.machine.cloud == Cloud::kAzure || nic.is_function) return 0;
  if (facts.machine.is_cloud() && !facts.machine.is_rail(nic)) return 0;
  return kLargeMtu;
}

Outcome mtu_is_jumbo(const Facts& facts) {
  if (!facts.network.nics) return without(facts.network.nics);
  std::vector<Subject> small;
  int told = 0;
  for (const Nic* nic : facts.network.fast_nics()) {
    if (!facts.machine.is_rail(*nic) || !nic->mtu) continue;
    ++told;
    if (*nic->mtu < least_mtu(facts, *nic)) small.push_back({nic->name, format("{}", *nic->mtu)});
  }
  if (told == 0) return not_applicable("no network adapter of 25 Gb/s or more is up");
  return bad_if_any(std::move(small), "fast adapters send small frames",
      format("fast adapters send the largest frames of their network ({} adapters)", told));
}

Outcome tcp_buffers_are_large(const Facts& facts) {
  const auto fast = facts.network.fast_nics();
  if (fast.empty()) return not_applicable("no network adapter of 25 Gb/s or more is up");
  int64_t speed = 0;
  for (const Nic* nic : fast) speed = std::max(speed, nic->speed_mbps.value_or(0));
  const int64_t least = speed >= 100000 ? kTcpBufferFast : kTcpBuffer;
  return when_known(
      [&](const std::vector<int64_t>& rmem, const std::vector<int64_t>& wmem) {
        if (rmem.size() < 3 || wmem.size() < 3) return unknown("expected three numbers");
        std::vector<Subject> small;
        const auto all = [](const std::vector<int64_t>& sizes) {
          return format("{} {} {}", sizes[0], sizes[1], sizes[2]);
        };
        if (rmem[2] < least) small.push_back({"net.ipv4.tcp_rmem", all(rmem)});
        if (wmem[2] < least) small.push_back({"net.ipv4.tcp_wmem", all(wmem)});
        return bad_if_any(std::move(small), format("TCP windows are too small for {} Gb/s", speed / 1000),
            "TCP windows are large enough");
      },
      facts.network.tcp_rmem, facts.network.tcp_wmem);
}

Outcome congestion_control_fits(const Facts& facts) {
  return when_known(
      [](const std::string& name) {
        return judge(
            name == "cubic" || name == "bbr" || name == "dctcp", format("congestion control is {}", name));
      },
      facts.network.congestion_control);
}

Outcome rails_have_own_subnets(const Facts& facts) {
  const auto fast = facts.network.fast_nics();
  if (fast.size() < 2) return not_applicable("there are no two fast adapters");
  std::map<std::string, std::vector<std::string>> owners;
  if (facts.machine.is_cloud()) return not_applicable("the cloud routes for its guests");
  for (const Nic* nic : fast)
    if (!nic->is_ib())  // InfiniBand routes by port: one subnet for all is how it is set up
      for (const std::string& subnet : nic->subnets) owners[subnet].push_back(nic->name);
  if (owners.empty()) return not_applicable("the fast adapters have no IPv4 address");
  std::vector<Subject> shared;
  for (const auto& [subnet, names] : owners)
    if (names.size() > 1) shared.push_back({subnet, format("{}", names.size()) + " adapters"});
  return bad_if_any(std::move(shared),
      "several adapters share a subnet: the kernel sends through one of them",
      "each fast adapter has its own subnet");
}

Value<double> bytes_moved(const Facts& facts, const std::string& nic) {
  const auto in = facts.counters.delta("net." + nic + ".rx_bytes"),
             out = facts.counters.delta("net." + nic + ".tx_bytes");
  return in && out ? Value<double>(*in + *out, in.source()) : in;
}

constexpr double kEnoughBytes = 100e6;  // below that nothing is being moved

// Bytes of RDMA pass the interface's counters by: the port's own count them, in words of four.
Value<double> bytes_of_rail(const Facts& facts, const Nic& nic) {
  for (const RdmaPort& port : facts.network.rdma.value_or({})) {
    if (port.pci != nic.pci || nic.pci.empty()) continue;
    const auto in = facts.counters.delta("rdma." + port.device + ".port_rcv_data"),
               out = facts.counters.delta("rdma." + port.device + ".port_xmit_data");
    if (in && out) return {4 * (*in + *out), in.source()};
  }
  return bytes_moved(facts, nic.name);
}

Outcome rails_share_the_load(const Facts& facts) {
  std::vector<const Nic*> rails = facts.network.fast_nics();
  std::erase_if(rails, [&](const Nic* nic) { return !facts.machine.is_rail(*nic); });
  if (rails.size() < 2) return not_applicable("there are no two rails");
  if (!facts.intent.multi_node) return not_applicable("one machine (--multi-node asks for it)");
  double least = 1e300, most = 0;
  std::vector<Subject> loads;
  for (const Nic* nic : rails) {
    const auto moved = bytes_of_rail(facts, *nic);
    if (!moved) return without(moved);
    least = std::min(least, *moved);
    most = std::max(most, *moved);
    loads.push_back({nic->name, human_bytes(*moved)});
  }
  if (most < kEnoughBytes) return not_applicable("the rails are idle");
  if (most <= kRailSpread * std::max(least, 1.0)) return good("the rails carry equal loads");
  return bad(format("one rail carries {:.1f} times the load of another", most / std::max(least, 1.0)),
      std::move(loads));
}

Outcome traffic_takes_the_fast_way(const Facts& facts) {
  const auto fast = facts.network.fast_nics();
  if (fast.empty() || !facts.network.nics)
    return not_applicable("no network adapter of 25 Gb/s or more is up");
  if (!facts.intent.multi_node) return not_applicable("one machine (--multi-node asks for it)");
  double quick = 0, slow = 0;
  std::vector<Subject> wrong;
  for (const Nic& nic : *facts.network.nics) {
    if (nic.is_virtual || !nic.is_up()) continue;
    const auto moved = bytes_moved(facts, nic.name);
    if (!moved) return without(moved);
    (nic.is_fast() ? quick : slow) += *moved;
    if (!nic.is_fast() && *moved > 0) wrong.push_back({nic.name, human_bytes(*moved)});
  }
  for (const RdmaPort& port : facts.network.rdma.value_or({}))
    for (const char* name : {".port_rcv_data", ".port_xmit_data"})
      quick += 4 * facts.counters.delta("rdma." + port.device + name).value_or(0);
  if (quick + slow < kEnoughBytes) return not_applicable("the adapters are idle");
  if (quick >= 0.95 * (quick + slow))
    return good(format("{:.0f} % of the traffic is on fast adapters", 100 * quick / (quick + slow)));
  return bad(format("only {:.0f} % of the traffic is on fast adapters", 100 * quick / (quick + slow)),
      std::move(wrong));
}

Outcome ports_suffice(const Facts& facts) {
  return when_known(
      [](const std::vector<int64_t>& range) {
        if (range.size() < 2) return unknown("expected two numbers");
        const int64_t width = range[1] - range[0] + 1;
        if (width >= kLeastPorts) return good(format("{} local ports", width));
        return bad(format("only {} local ports: start-up of many ranks fails or waits", width),
            {{"net.ipv4.ip_local_port_range", format("{} {}", range[0], range[1])}});
      },
      facts.network.port_range);
}

Outcome tcp_does_not_retransmit(const Facts& facts) {
  const auto sent = facts.counters.delta("Tcp:OutSegs");
  if (sent && *sent < 10000) return not_applicable("too few packets were sent to judge");
  return when_known(
      [](double out, double again) {
        return judge(again / std::max(out, 1.0) < kMostRetransmits,
            format("{:.4f} % of TCP packets were sent again", 100 * again / std::max(out, 1.0)));
      },
      sent, facts.counters.delta("Tcp:RetransSegs"));
}

Outcome nics_drop_nothing(const Facts& facts) {
  if (!facts.network.nics) return without(facts.network.nics);
  std::vector<Subject> dropping;
  int told = 0;
  for (const Nic& nic : *facts.network.nics) {
    if (nic.name == "lo" || !nic.is_up()) continue;
    const auto packets = facts.counters.delta("net." + nic.name + ".rx_packets");
    if (!packets) continue;
    ++told;
    double lost = 0;
    for (const char* name : {".rx_errors", ".tx_errors", ".rx_missed_errors", ".rx_fifo_errors"})
      lost += facts.counters.delta("net." + nic.name + name).value_or(0);
    for (const char* name : {"rx_discards_phy", "rx_out_of_buffer", "rx_crc_errors_phy"})
      lost += facts.counters.delta(format("ethtool.{}.{}", nic.name, name)).value_or(0);
    if (lost > 0 && lost / std::max(*packets, 1.0) > kMostDrops)
      dropping.push_back({nic.name, format("{:.0f} lost", lost)});
  }
  if (told == 0) return not_applicable("two readings of the adapters' counters are needed");
  return bad_if_any(std::move(dropping), "adapters lose packets", "adapters lose no packets");
}

// A link that went down more often than reboots and repairs explain.
Outcome links_stay_up(const Facts& facts) {
  if (!facts.network.nics) return without(facts.network.nics);
  std::vector<Subject> flapping;
  int told = 0;
  const double most = 8 + 0.1 * facts.host.uptime_s / 86400;
  for (const Nic& nic : *facts.network.nics) {
    if (nic.is_virtual || !nic.is_up()) continue;
    const auto driver = facts.counters.total(format("ethtool.{}.link_down_events_phy", nic.name));
    const Value<double> downs =
        driver ? driver : facts.counters.total("net." + nic.name + ".carrier_down_count");
    if (!downs) continue;
    ++told;
    if (*downs > most) flapping.push_back({nic.name, format("down {:.0f} times since boot", *downs)});
  }
  if (told == 0) return not_applicable("no adapter counts how often its link went down");
  return bad_if_any(std::move(flapping), "links go up and down", format("{} links stay up", told));
}

// All queues of a fast adapter on one CPU: that CPU's interrupts are the adapter's speed.
Outcome queues_are_spread(const Facts& facts) {
  if (!facts.pci.devices) return without(facts.pci.devices);
  return when_known(
      [&](const std::vector<Interrupt>& interrupts) {
        std::map<int, std::vector<int>> placed;  // by interrupt
        for (const Interrupt& interrupt : interrupts) placed[interrupt.number] = interrupt.cpus;
        std::vector<Subject> crowded;
        int told = 0;
        for (const Nic* nic : facts.network.fast_nics()) {
          const PciDevice* device = facts.pci.find(nic->pci);
          if (device == nullptr) continue;
          std::set<int> cpus;
          int queues = 0;
          for (const int number : device->interrupts)
            if (const auto found = placed.find(number); found != placed.end() && !found->second.empty()) {
              ++queues;
              cpus.insert(found->second.begin(), found->second.end());
            }
          if (queues < 4) continue;
          ++told;
          if (cpus.size() == 1)
            crowded.push_back({nic->name, format("{} queues on CPU {}", queues, *cpus.begin())});
        }
        if (told == 0) return not_applicable("no fast adapter has several queues");
        return bad_if_any(std::move(crowded), "all queues of an adapter interrupt one CPU",
            format("the queues of {} adapters are spread", told));
      },
      facts.pci.interrupts);
}

Outcome network_matches_gpus(const Facts& facts) {
  if (!facts.intent.multi_node) return not_applicable("one machine (--multi-node asks for it)");
  const double gpus = std::max<double>(facts.gpu.count(), static_cast<double>(facts.pci.gpus().size()));
  if (gpus == 0) return not_applicable("there is no GPU");
  double gbps = 0;
  for (const RdmaPort& port : facts.network.rdma.value_or({}))
    gbps += number_in({{"rate", port.rate.value_or("0")}}, "rate").value_or(0);
  if (gbps == 0)
    for (const Nic* nic : facts.network.fast_nics())
      gbps += static_cast<double>(nic->speed_mbps.value_or(0)) / 1000;
  const std::string found = format("{:.0f} Gb/s a GPU", gbps / gpus);
  if (gbps / gpus >= kGbpsPerGpu) return good(found);
  return facts.machine.is_cloud() ? note(found + ", as the cloud sells it")
                                  : bad("too little network for these GPUs: " + found);
}

Outcome listen_queue_is_long(const Facts& facts) {
  if (!facts.serves()) return not_applicable("only a server accepts many connections");
  return when_known(
      [](int64_t length) {
        return length >= 1024 ? good(format("{} connections may wait", length))
                              : bad(format("only {} connections may wait to be accepted", length),
                                    {{"net.core.somaxconn", format("{}", length)}});
      },
      facts.network.somaxconn);
}

Outcome listen_queue_holds(const Facts& facts) {
  return when_known(
      [](double dropped) {
        return judge(dropped == 0, format("{:.0f} connections were refused while we looked", dropped));
      },
      facts.counters.delta("TcpExt:ListenOverflows"));
}

constexpr Check kChecks[] = {
    {"NET-04", Layer::kNetwork, Level::kWarn, 0.15, "Adapters run at full speed",
        "A link that negotiated down runs at a fraction of its rate.", "in proportion to the missing speed",
        FixKind::kFirmware, "check cable, optics and switch port of {it}", "", "J09", nics_are_up_to_speed},
    {"NET-05", Layer::kNetwork, Level::kWarn, 0.08, "Fast adapters use jumbo frames",
        "Frames of 1500 bytes mean six times the packets, and CPU time for each.",
        "10-30 % of TCP throughput at 100 Gb/s", FixKind::kCommand,
        "set an MTU of 9000 on the adapter, its switch port and every other host", "", "O02", mtu_is_jumbo},
    {"NET-06", Layer::kNetwork, Level::kWarn, 0.05, "TCP windows are large enough",
        "A connection moves at most one window a round trip.", "window / round trip, far below line rate",
        FixKind::kCommand, "let TCP windows grow to 128 MiB (net.ipv4.tcp_rmem, tcp_wmem)", "", "O02",
        tcp_buffers_are_large},
    {"NET-07", Layer::kNetwork, Level::kInfo, 0.01, "TCP congestion control fits",
        "cubic or dctcp inside a cluster, bbr over long distances.", "little inside a cluster",
        FixKind::kCommand, "set net.ipv4.tcp_congestion_control to cubic", "", "O02",
        congestion_control_fits},
    {"NET-09", Layer::kNetwork, Level::kWarn, 0.20, "Each rail has its own subnet",
        "With one subnet the kernel answers through one adapter, whichever was asked.",
        "all traffic on one rail", FixKind::kAdvice,
        "give each adapter its own subnet, or set policy routing", "", "O07", rails_have_own_subnets},
    {"NET-10", Layer::kNetwork, Level::kWarn, 0.10, "Rails share the load",
        "An idle rail is bandwidth paid for and not used.", "the idle rail's share", FixKind::kSetting,
        "check NCCL_IB_HCA and NCCL_CROSS_NIC, and the order of adapters", "", "O07", rails_share_the_load},
    {"NET-11", Layer::kNetwork, Level::kFail, 0.30, "Traffic takes the fast adapters",
        "Bulk traffic on the management network runs at a tenth of the speed.", "10x slower collectives",
        FixKind::kSetting, "set NCCL_SOCKET_IFNAME and NCCL_IB_HCA to the fast adapters", "", "O07,O09",
        traffic_takes_the_fast_way},
    {"NET-12", Layer::kNetwork, Level::kWarn, 0.02, "Local ports suffice",
        "Each rank opens many connections at start; a narrow range runs out.", "slow or failed start-up",
        FixKind::kCommand, "set net.ipv4.ip_local_port_range to 32768 60999", "", "O02", ports_suffice},
    {"NET-13", Layer::kNetwork, Level::kWarn, 0.10, "TCP does not retransmit",
        "Every loss halves a connection's window.", "throughput in waves", FixKind::kAdvice,
        "look for drops on the path: switch buffers, MTU, cables", "", "O09", tcp_does_not_retransmit},
    {"NET-14", Layer::kNetwork, Level::kWarn, 0.08, "Adapters lose nothing",
        "Missed packets mean rings too short or a CPU too slow to empty them.", "retransmissions",
        FixKind::kCommand,
        "see which counter grows (ethtool -S): errors are a cable, missed packets a short ring", "", "O09",
        nics_drop_nothing},
    {"NET-33", Layer::kNetwork, Level::kWarn, 0.08, "Links stay up",
        "A link that flaps stops all that uses it for seconds, and makes a straggler of its node.",
        "stalls of seconds; aborted collectives", FixKind::kFirmware,
        "clean or replace cable and optics of {it}", "", "O09", links_stay_up},
    {"NET-34", Layer::kNetwork, Level::kWarn, 0.10, "Queues are spread over CPUs",
        "One CPU handles every packet of the adapter: its speed is the adapter's.",
        "10-20 Gb/s of TCP whatever the line rate", FixKind::kCommand,
        "let irqbalance spread them again, or place them by hand", "", "O03,F06", queues_are_spread},
    {"NET-16", Layer::kNetwork, Level::kWarn, 0.20, "The network matches the GPUs",
        "Several GPUs behind one adapter wait for it in every collective.", "exposed communication",
        FixKind::kAdvice, "use nodes with an adapter a GPU, or accumulate gradients", "", "O07",
        network_matches_gpus},
    {"NET-23", Layer::kNetwork, Level::kInfo, 0.01, "Connections may wait",
        "A burst beyond the queue is refused.", "client-side retries in bursts", FixKind::kCommand,
        "set net.core.somaxconn to 4096", "", "P03", listen_queue_is_long},
    {"NET-24", Layer::kNetwork, Level::kWarn, 0.10, "No connection is refused",
        "A server that does not accept fast enough loses requests.", "failed requests under load",
        FixKind::kSetting, "raise the server's backlog and accept threads", "", "P03", listen_queue_holds},
};

}  // namespace

std::span<const Check> network_checks() { return kChecks; }

}  // namespace cheetah::doctor
