// NET: adapters, RDMA, TCP.
#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"
#include "base/table.h"
#include "doctor/check.h"

namespace cheetah::doctor {
namespace {

constexpr int64_t kJumboMtu = 9000;
constexpr int64_t kTcpBufferFast = int64_t{64} << 20;  // 100 Gb/s x 5 ms
constexpr int64_t kTcpBuffer = int64_t{16} << 20;      // 25 Gb/s x 5 ms
constexpr double kMostRetransmits = 1e-4;
constexpr double kMostDrops = 1e-6;
constexpr int64_t kLeastPorts = 28000;
constexpr double kGbpsPerGpu = 100;
constexpr double kRailSpread = 1.1;

Outcome each_port(const Facts& facts, const std::string& found, const std::string& otherwise,
                  std::string (*wrong)(const RdmaPort&)) {
  return given(
      [&](const std::vector<RdmaPort>& ports) {
        std::vector<Subject> subjects;
        for (const RdmaPort& port : ports)
          if (const std::string what = wrong(port); !what.empty())
            subjects.push_back({port.device + "/" + port.port, what});
        return bad_if_any(std::move(subjects), found, format("{} ({} ports)", otherwise, ports.size()));
      },
      facts.network.rdma);
}

Outcome rdma_ports_are_active(const Facts& facts) {
  return each_port(facts, "RDMA ports are not in use", "every RDMA port is active",
                   [](const RdmaPort& port) -> std::string {
                     if (!port.state || contains(*port.state, "ACTIVE")) return "";
                     return *port.state + ", " + port.physical_state.value_or("?");
                   });
}

Outcome rdma_rates_are_equal(const Facts& facts) {
  return given(
      [](const std::vector<RdmaPort>& ports) {
        double best = 0;
        const auto rate = [](const RdmaPort& port) {
          return number_in({{"rate", port.rate.value_or("0")}}, "rate").value_or(0);
        };
        for (const RdmaPort& port : ports) best = std::max(best, rate(port));
        std::vector<Subject> slow;
        for (const RdmaPort& port : ports)
          if (contains(port.state.value_or(""), "ACTIVE") && rate(port) < best)
            slow.push_back({port.device + "/" + port.port, *port.rate});
        if (ports.size() < 2) return not_applicable("there is one RDMA port");
        return bad_if_any(std::move(slow), format("RDMA ports are slower than the others ({} Gb/s)", best),
                          format("{} RDMA ports at {} Gb/s", ports.size(), best));
      },
      facts.network.rdma);
}

Outcome rdma_counts_no_errors(const Facts& facts) {
  if (!facts.network.has_rdma()) return without(facts.network.rdma);
  std::vector<Subject> noisy;
  int told = 0;
  for (const RdmaPort& port : *facts.network.rdma)
    for (const char* name : {"link_downed", "link_error_recovery", "symbol_error", "port_rcv_errors"}) {
      const std::string counter = "rdma." + port.device + "." + name;
      const auto total = facts.counters.total(counter);
      if (!total) continue;
      ++told;
      const double change = facts.counters.delta(counter).value_or(0);
      if (change > 0)
        noisy.push_back({port.device, format("{} +{:.0f}", name, change)});
      else if (*total > 100)
        noisy.push_back({port.device, format("{} {:.0f} since boot", name, *total)});
    }
  if (told == 0) return not_applicable("the ports keep no error counters");
  return bad_if_any(std::move(noisy), "RDMA links have errors", "RDMA links are clean");
}

Outcome rdma_is_not_congested(const Facts& facts) {
  if (!facts.network.has_rdma()) return without(facts.network.rdma);
  std::vector<Subject> busy;
  int told = 0;
  for (const RdmaPort& port : *facts.network.rdma)
    for (const char* name : {"out_of_sequence", "local_ack_timeout_err", "rnr_nak_retry_err"}) {
      const auto rate = facts.counters.per_second("rdma." + port.device + "." + name);
      if (!rate) continue;
      ++told;
      if (*rate > 100) busy.push_back({port.device, format("{} {:.0f}/s", name, *rate)});
    }
  if (told == 0) return not_applicable("two readings of the adapters' counters are needed");
  return bad_if_any(std::move(busy), "RDMA packets are lost or refused", "RDMA loses no packets");
}

Outcome rdma_can_be_opened(const Facts& facts) {
  if (!facts.network.has_rdma()) return without(facts.network.rdma);
  const Fields nodes = facts.gpu.device_nodes.value_or({});
  int open = 0, closed = 0;
  for (const auto& [path, access] : nodes)
    if (starts_with(path, "dev/infiniband/uverbs")) (access == "rw" ? open : closed) += 1;
  if (open > 0 && closed == 0) return good(format("{} RDMA devices can be opened", open));
  return bad(open + closed == 0 ? "no /dev/infiniband/uverbs is here: RDMA programs fall back to TCP"
                                : format("{} RDMA devices may not be opened", closed));
}

Outcome roce_has_version_2(const Facts& facts) {
  if (!facts.network.has_rdma()) return without(facts.network.rdma);
  const auto& ports = *facts.network.rdma;
  if (std::none_of(ports.begin(), ports.end(), [](const RdmaPort& port) { return port.is_ethernet(); }))
    return not_applicable("no RDMA port runs on Ethernet");
  return each_port(facts, "RoCE ports have no usable address", "every RoCE port has a version 2 address",
                   [](const RdmaPort& port) -> std::string {
                     if (!port.is_ethernet()) return "";
                     if (port.gids.empty()) return "all addresses are zero";
                     for (const std::string& type : port.gid_types)
                       if (contains(type, "RoCE v2")) return "";
                     return "version 1 only";
                   });
}

Outcome fast_nics(const Facts& facts, const std::string& found, const std::string& otherwise,
                  std::string (*wrong)(const Nic&)) {
  if (!facts.network.nics) return without(facts.network.nics);
  std::vector<Subject> subjects;
  const auto fast = facts.network.fast_nics();
  for (const Nic* nic : fast)
    if (const std::string what = wrong(*nic); !what.empty()) subjects.push_back({nic->name, what});
  if (fast.empty()) return not_applicable("no network adapter of 25 Gb/s or more is up");
  return bad_if_any(std::move(subjects), found, format("{} ({} adapters)", otherwise, fast.size()));
}

Outcome nics_are_up_to_speed(const Facts& facts) {
  if (!facts.network.nics) return without(facts.network.nics);
  std::map<std::string, int64_t> best;  // of each driver: cards of one kind should agree
  for (const Nic& nic : *facts.network.nics)
    if (nic.is_up() && !nic.is_virtual)
      best[nic.driver] = std::max(best[nic.driver], nic.speed_mbps.value_or(0));
  std::vector<Subject> slow;
  int told = 0;
  for (const Nic& nic : *facts.network.nics) {
    if (nic.is_virtual || !nic.is_up() || nic.speed_mbps.value_or(-1) <= 0) continue;
    ++told;
    if (nic.duplex.is("half"))
      slow.push_back({nic.name, "half duplex"});
    else if (*nic.speed_mbps < best[nic.driver] && best[nic.driver] >= 25000)
      slow.push_back({nic.name, format("{} of {} Mb/s", *nic.speed_mbps, best[nic.driver])});
  }
  if (told == 0) return not_applicable("no physical adapter tells its speed");
  return bad_if_any(std::move(slow), "adapters run below their speed", "adapters run at full speed");
}

Outcome mtu_is_jumbo(const Facts& facts) {
  return fast_nics(facts, "fast adapters send small frames", "fast adapters send jumbo frames",
                   [](const Nic& nic) -> std::string {
                     return nic.mtu.value_or(kJumboMtu) < kJumboMtu - 100 ? format("{}", *nic.mtu) : "";
                   });
}

Outcome tcp_buffers_are_large(const Facts& facts) {
  const auto fast = facts.network.fast_nics();
  if (fast.empty()) return not_applicable("no network adapter of 25 Gb/s or more is up");
  int64_t speed = 0;
  for (const Nic* nic : fast) speed = std::max(speed, nic->speed_mbps.value_or(0));
  const int64_t least = speed >= 100000 ? kTcpBufferFast : kTcpBuffer;
  return given(
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
  return given(
      [](const std::string& name) {
        return judge(name == "cubic" || name == "bbr" || name == "dctcp",
                     format("congestion control is {}", name));
      },
      facts.network.congestion_control);
}

Outcome rails_have_own_subnets(const Facts& facts) {
  const auto fast = facts.network.fast_nics();
  if (fast.size() < 2) return not_applicable("there are no two fast adapters");
  std::map<std::string, std::vector<std::string>> owners;
  for (const Nic* nic : fast)
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

Outcome rails_share_the_load(const Facts& facts) {
  const auto fast = facts.network.fast_nics();
  if (fast.size() < 2) return not_applicable("there are no two fast adapters");
  double least = 1e300, most = 0;
  std::vector<Subject> loads;
  for (const Nic* nic : fast) {
    const auto moved = bytes_moved(facts, nic->name);
    if (!moved) return without(moved);
    least = std::min(least, *moved);
    most = std::max(most, *moved);
    loads.push_back({nic->name, human_bytes(*moved)});
  }
  if (most < kEnoughBytes) return not_applicable("the adapters are idle");
  if (most <= kRailSpread * std::max(least, 1.0)) return good("the adapters carry equal loads");
  return bad(format("one adapter carries {:.1f} times the load of another", most / std::max(least, 1.0)),
             std::move(loads));
}

Outcome traffic_takes_the_fast_way(const Facts& facts) {
  const auto fast = facts.network.fast_nics();
  if (fast.empty() || !facts.network.nics)
    return not_applicable("no network adapter of 25 Gb/s or more is up");
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
  return given(
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
  return given(
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
    if (lost > 0 && lost / std::max(*packets, 1.0) > kMostDrops)
      dropping.push_back({nic.name, format("{:.0f} lost", lost)});
  }
  if (told == 0) return not_applicable("two readings of the adapters' counters are needed");
  return bad_if_any(std::move(dropping), "adapters lose packets", "adapters lose no packets");
}

Outcome roce_is_lossless(const Facts& facts) {
  if (!facts.network.has_rdma()) return without(facts.network.rdma);
  std::vector<Subject> storms;
  int told = 0;
  for (const RdmaPort& port : *facts.network.rdma) {
    const auto pauses = facts.counters.per_second("rdma." + port.device + ".rx_prio3_pause");
    if (!port.is_ethernet() || !pauses) continue;
    ++told;
    if (*pauses > 10000) storms.push_back({port.device, format("{:.0f} pauses/s", *pauses)});
  }
  if (told == 0) return not_applicable("no RoCE port counts its pauses");
  return bad_if_any(std::move(storms), "the fabric pauses these ports without end", "no pause storms");
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
  return judge(gbps / gpus >= kGbpsPerGpu, format("{:.0f} Gb/s a GPU", gbps / gpus));
}

Outcome rdma_firmware_is_equal(const Facts& facts) {
  return given(
      [](const std::vector<RdmaPort>& ports) {
        std::set<std::string> versions;
        for (const RdmaPort& port : ports)
          if (!port.firmware.empty()) versions.insert(port.firmware);
        if (versions.empty() || ports.size() < 2)
          return not_applicable("there are no two adapters that tell their firmware");
        return judge(versions.size() == 1,
                     format("{} firmware versions, {} among them", versions.size(), *versions.begin()));
      },
      facts.network.rdma);
}

Outcome listen_queue_is_long(const Facts& facts) {
  if (!facts.serves()) return not_applicable("only a server accepts many connections");
  return given(
      [](int64_t length) {
        return length >= 1024 ? good(format("{} connections may wait", length))
                              : bad(format("only {} connections may wait to be accepted", length),
                                    {{"net.core.somaxconn", format("{}", length)}});
      },
      facts.network.somaxconn);
}

Outcome listen_queue_holds(const Facts& facts) {
  return given(
      [](double dropped) {
        return judge(dropped == 0, format("{:.0f} connections were refused while we looked", dropped));
      },
      facts.counters.delta("TcpExt:ListenOverflows"));
}

constexpr Check kChecks[] = {
    {"NET-01", Layer::kNetwork, Level::kFail, 0.20, "RDMA ports are active",
     "A port that is down leaves its rail to the others, or the job to TCP.",
     "one rail's share of the network", FixKind::kFirmware, "check the cable and the subnet manager of {it}",
     "", "O01", rdma_ports_are_active},
    {"NET-19", Layer::kNetwork, Level::kWarn, 0.15, "RDMA ports run at one rate",
     "Collectives run at the pace of the slowest rail.", "the slow rail's deficit, times all rails",
     FixKind::kFirmware, "reseat the cable of {it}; check the switch port's speed", "", "O01",
     rdma_rates_are_equal},
    {"NET-02", Layer::kNetwork, Level::kWarn, 0.10, "RDMA links are clean",
     "Symbol errors and recoveries are repeated transfers; a flapping link makes a straggler.",
     "jitter in every collective", FixKind::kFirmware, "clean or replace the optics of {it}; drain the node",
     "", "O09", rdma_counts_no_errors},
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
    {"NET-04", Layer::kNetwork, Level::kWarn, 0.15, "Adapters run at full speed",
     "A link that negotiated down runs at a fraction of its rate.", "in proportion to the missing speed",
     FixKind::kFirmware, "check cable, optics and switch port of {it}", "", "J09", nics_are_up_to_speed},
    {"NET-05", Layer::kNetwork, Level::kWarn, 0.08, "Fast adapters use jumbo frames",
     "Frames of 1500 bytes mean six times the packets, and CPU time for each.",
     "10-30 % of TCP throughput at 100 Gb/s", FixKind::kCommand, "ip link set {it} mtu 9000",
     "ip link set {it} mtu {was}", "O02", mtu_is_jumbo},
    {"NET-06", Layer::kNetwork, Level::kWarn, 0.05, "TCP windows are large enough",
     "A connection moves at most one window a round trip.", "window / round trip, far below line rate",
     FixKind::kCommand, "sysctl -w {it}='4096 131072 134217728'", "sysctl -w {it}='{was}'", "O02",
     tcp_buffers_are_large},
    {"NET-07", Layer::kNetwork, Level::kInfo, 0.01, "TCP congestion control fits",
     "cubic or dctcp inside a cluster, bbr over long distances.", "little inside a cluster",
     FixKind::kCommand, "sysctl -w net.ipv4.tcp_congestion_control=cubic", "", "O02",
     congestion_control_fits},
    {"NET-09", Layer::kNetwork, Level::kWarn, 0.20, "Each rail has its own subnet",
     "With one subnet the kernel answers through one adapter, whichever was asked.",
     "all traffic on one rail", FixKind::kAdvice, "give each adapter its own subnet, or set policy routing",
     "", "O07", rails_have_own_subnets},
    {"NET-10", Layer::kNetwork, Level::kWarn, 0.10, "Rails share the load",
     "An idle rail is bandwidth paid for and not used.", "the idle rail's share", FixKind::kSetting,
     "check NCCL_IB_HCA and NCCL_CROSS_NIC, and the order of adapters", "", "O07", rails_share_the_load},
    {"NET-11", Layer::kNetwork, Level::kFail, 0.30, "Traffic takes the fast adapters",
     "Bulk traffic on the management network runs at a tenth of the speed.", "10x slower collectives",
     FixKind::kSetting, "set NCCL_SOCKET_IFNAME and NCCL_IB_HCA to the fast adapters", "", "O07,O09",
     traffic_takes_the_fast_way},
    {"NET-12", Layer::kNetwork, Level::kWarn, 0.02, "Local ports suffice",
     "Each rank opens many connections at start; a narrow range runs out.", "slow or failed start-up",
     FixKind::kCommand, "sysctl -w net.ipv4.ip_local_port_range='32768 60999'",
     "sysctl -w net.ipv4.ip_local_port_range='{was}'", "O02", ports_suffice},
    {"NET-13", Layer::kNetwork, Level::kWarn, 0.10, "TCP does not retransmit",
     "Every loss halves a connection's window.", "throughput in waves", FixKind::kAdvice,
     "look for drops on the path: switch buffers, MTU, cables", "", "O09", tcp_does_not_retransmit},
    {"NET-14", Layer::kNetwork, Level::kWarn, 0.08, "Adapters lose nothing",
     "Missed packets mean rings too short or a CPU too slow to empty them.", "retransmissions",
     FixKind::kCommand, "ethtool -G {it} rx 8192", "", "O09", nics_drop_nothing},
    {"NET-15", Layer::kNetwork, Level::kWarn, 0.10, "No pause storms",
     "A pause storm stops the whole fabric for one slow receiver.", "bandwidth of all neighbours",
     FixKind::kAdvice, "check ECN thresholds and the PFC watchdog of the switches", "", "O01",
     roce_is_lossless},
    {"NET-16", Layer::kNetwork, Level::kWarn, 0.20, "The network matches the GPUs",
     "Several GPUs behind one adapter wait for it in every collective.", "exposed communication",
     FixKind::kAdvice, "use nodes with an adapter a GPU, or accumulate gradients", "", "O07",
     network_matches_gpus},
    {"NET-22", Layer::kNetwork, Level::kWarn, 0.02, "Adapters have one firmware",
     "Different firmware behaves differently under load.", "unexplained variance", FixKind::kFirmware,
     "bring all adapters to one firmware", "", "F13", rdma_firmware_is_equal},
    {"NET-23", Layer::kNetwork, Level::kInfo, 0.01, "Connections may wait",
     "A burst beyond the queue is refused.", "client-side retries in bursts", FixKind::kCommand,
     "sysctl -w net.core.somaxconn=4096", "sysctl -w net.core.somaxconn={was}", "P03", listen_queue_is_long},
    {"NET-24", Layer::kNetwork, Level::kWarn, 0.10, "No connection is refused",
     "A server that does not accept fast enough loses requests.", "failed requests under load",
     FixKind::kSetting, "raise the server's backlog and accept threads", "", "P03", listen_queue_holds},
};

}  // namespace

std::span<const Check> network_checks() { return kChecks; }

}  // namespace cheetah::doctor
