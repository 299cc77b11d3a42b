// SPDX-License-Identifier: MIT
#include "doctor/facts/network.h"

#include "base/error.h"
#include "doctor/text.h"

namespace cheetah::doctor {
namespace {

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// "eth0 10.0.1.5/24" a line, from the probe of addresses.
std::vector<std::string> subnets_of(const Text& addresses, const std::string& nic) {
  std::vector<std::string> subnets;
  for (const std::string_view line : lines_of(addresses.text)) {
    const auto words = words_of(line);
    if (words.size() >= 2 && words[0] == nic) subnets.push_back(printable(words[1]));
  }
  return subnets;
}

// A switch per priority: on when one of them is.
Value<bool> read_ecn(const Source& source, const std::string& folder) {
  Value<bool> ecn = Value<bool>::absent(folder, "the driver does not tell");
  for (const std::string& priority : source.list(folder))
    if (const auto enabled = read_integer(source, folder + "/" + priority))
      ecn = {ecn.value_or(false) || *enabled != 0, folder};
  return ecn;
}

Nic read_nic(const Source& source, const std::string& name, const Text& addresses) {
  const std::string folder = "sys/class/net/" + name;
  Nic nic;
  nic.name = name;
  nic.state = read_line(source, folder + "/operstate");
  nic.duplex = read_line(source, folder + "/duplex");
  nic.speed_mbps = read_integer(source, folder + "/speed");
  nic.mtu = read_integer(source, folder + "/mtu");
  const std::string device = source.link(folder + "/device");
  nic.pci = base_name(device);
  nic.driver = base_name(source.link(folder + "/device/driver"));
  nic.type = read_integer(source, folder + "/type").value_or(1);
  nic.is_function = !source.link(folder + "/device/physfn").empty();
  // Bridges of software, and the hypervisor's own adapters: their speed is a name, not a rate.
  const std::string port = read_line(source, folder + "/phys_port_name").value_or("");
  const bool represents = contains(port, "vf") || contains(port, "sf") || contains(port, "hpf");
  nic.is_virtual = device.empty() || represents || starts_with(nic.pci, "virtio") ||
                   nic.driver == "hv_netvsc" || nic.driver == "vmxnet3" || nic.driver == "virtio_net";
  // Both ends take part: the receiver that tells of a mark, and the sender that slows down.
  nic.ecn = read_ecn(source, folder + "/ecn/roce_rp/enable");
  const Value<bool> receiver = read_ecn(source, folder + "/ecn/roce_np/enable");
  if (receiver && (!nic.ecn || !*receiver)) nic.ecn = receiver;
  nic.is_wireless = !source.list(folder + "/wireless").empty() || starts_with(name, "wl");
  nic.subnets = subnets_of(addresses, name);
  return nic;
}

RdmaPort read_port(const Source& source, const std::string& device, const std::string& port) {
  const std::string root = "sys/class/infiniband/" + device;
  const std::string folder = root + "/ports/" + port;
  RdmaPort result;
  result.device = device;
  result.port = port;
  result.state = read_line(source, folder + "/state");
  result.physical_state = read_line(source, folder + "/phys_state");
  result.rate = read_line(source, folder + "/rate");
  result.link_layer = read_line(source, folder + "/link_layer");
  result.pci = base_name(source.link(root + "/device"));
  result.board = read_line(source, root + "/board_id").value_or("");
  result.firmware = read_line(source, root + "/fw_ver").value_or("");
  int entries = 0;
  for (const std::string& index : source.list(folder + "/gids")) {
    const auto gid = read_line(source, folder + "/gids/" + index);
    if (++entries > 256) break;
    if (!gid || gid->find_first_not_of("0:") == std::string::npos) continue;
    result.gids.push_back(*gid);
    result.gid_types.push_back(read_line(source, folder + "/gid_attrs/types/" + index).value_or(""));
  }
  return result;
}

Value<std::vector<int64_t>> read_integers(const Source& source, const std::string& path) {
  using Integers = Value<std::vector<int64_t>>;
  const Text text = source.read(path, 4096);
  if (!text.ok()) return Integers::absent(text);
  std::vector<int64_t> numbers;
  for (const std::string_view word : words_of(text.text)) {
    const auto number = to_integer(word);
    if (!number)
      return Integers::unreadable(path, "expected whole numbers, found '" + printable(text.text) + "'");
    numbers.push_back(*number);
  }
  return {std::move(numbers), path};
}

Value<int64_t> read_time_wait(const Source& source) {
  const Text text = source.read("proc/net/sockstat");
  if (!text.ok()) return Value<int64_t>::absent(text);
  const auto words = words_of(text.text);
  for (size_t i = 0; i + 1 < words.size(); ++i)
    if (words[i] == "tw")
      if (const auto number = to_integer(words[i + 1])) return {*number, text.path};
  return Value<int64_t>::unreadable(text.path, "it has no tw count");
}

}  // namespace

std::vector<const Nic*> NetworkFacts::fast_nics() const {
  std::vector<const Nic*> fast;
  if (nics)
    for (const Nic& nic : *nics)
      if (nic.is_fast()) fast.push_back(&nic);
  return fast;
}

NetworkFacts collect_network(const Source& source) {
  NetworkFacts facts;
  const Text addresses = source.read("cheetah/addresses");
  std::vector<Nic> nics;
  for (const std::string& name : source.list("sys/class/net"))
    if (nics.size() < 512) nics.push_back(read_nic(source, name, addresses));
  facts.nics = {std::move(nics), "sys/class/net"};
  std::vector<RdmaPort> ports;
  for (const std::string& device : source.list("sys/class/infiniband"))
    for (const std::string& port : source.list("sys/class/infiniband/" + device + "/ports"))
      if (ports.size() < 256) ports.push_back(read_port(source, device, port));
  if (ports.empty())
    facts.rdma = Value<std::vector<RdmaPort>>::absent("sys/class/infiniband", "there is no RDMA device");
  else
    facts.rdma = {std::move(ports), "sys/class/infiniband"};
  const std::string ipv4 = "proc/sys/net/ipv4/", core = "proc/sys/net/core/";
  facts.tcp_rmem = read_integers(source, ipv4 + "tcp_rmem");
  facts.tcp_wmem = read_integers(source, ipv4 + "tcp_wmem");
  facts.port_range = read_integers(source, ipv4 + "ip_local_port_range");
  facts.congestion_control = read_line(source, ipv4 + "tcp_congestion_control");
  facts.rmem_max = read_integer(source, core + "rmem_max");
  facts.wmem_max = read_integer(source, core + "wmem_max");
  facts.somaxconn = read_integer(source, core + "somaxconn");
  facts.backlog = read_integer(source, core + "netdev_max_backlog");
  facts.time_wait = read_time_wait(source);
  return facts;
}

}  // namespace cheetah::doctor
